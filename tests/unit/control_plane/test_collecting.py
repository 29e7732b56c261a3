"""The evidence of one run has a bound, whatever is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import bson
import pytest

from control_plane.model.run import Entry
from control_plane.store.log.events import Arrival, entry_document, storable
from control_plane.store.verify import collecting
from control_plane.store.verify.collecting import BROKEN_MAX, LETTERS, STRETCH_BYTES, Collected, Unjudged
from events.catalog import RunCompleted, RunLog, StageProgress
from events.codec import decode_structured
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.testing import EPOCH, RUN_ID, make_line
from testing.simulation.store.replica_set import OPTIONS

ROOM: Final = 10_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "HELD_BYTES_MAX", ROOM)


def collected(**run: Any) -> Collected:
    return Collected({"_id": RUN_ID, "attempt": 1, "lastEventSeq": 1_000_000, "settled": None, **run})


def event(sequence: int, fact: Fact | None = None, *, attempt: int = 1, late_s: int = 0) -> dict[str, Any]:
    """Return an event as the log keeps it."""
    line = make_line(fact or RunLog(message="x"), sequence=sequence, run_id=RUN_ID, attempt=attempt)
    read = decode_structured(line)
    assert isinstance(read, Event), read
    arrival = Arrival("p", EPOCH + timedelta(seconds=late_s))
    document: dict[str, Any] = bson.decode(storable(read, arrival).raw, OPTIONS)
    return document


STAGE: Final = {
    "_id": "x", "runId": RUN_ID, "attempt": 1, "name": "S", "status": "RUNNING", "startedAt": EPOCH, "seq": 1,
}  # fmt: skip


@pytest.mark.parametrize("is_sound", [True, False])
def test_documents_are_held_up_to_the_bound_whether_they_are_sound_or_not(is_sound: bool) -> None:
    found = collected()
    document = STAGE if is_sound else {"_id": 5}
    found.add("stages", document, ROOM)
    with pytest.raises(Unjudged, match=f"more than {ROOM:,} bytes") as refused:
        found.add("stages", document, 1)
    assert refused.value.invariant == "too-large"
    assert bool(found.broken) != is_sound


def test_a_letter_that_is_broken_is_told_and_not_held() -> None:
    found = collected()
    for _ in range(3):
        found.add(LETTERS, {"_id": 5}, ROOM)
    assert (len(found.broken), found.beside, found.misshapen) == (3, {}, {})


def test_of_broken_documents_so_many_are_told() -> None:
    found = collected()
    for _ in range(BROKEN_MAX + 10):
        found.add(LETTERS, {"_id": 5}, 1)
    assert len(found.broken) == BROKEN_MAX + 1
    assert found.broken[-1] == "and more"


def test_lines_without_an_effect_are_a_stretch_and_each_gap_takes_its_place() -> None:
    found = collected()
    for sequence in range(1, 201):
        found.add_event(event(sequence, late_s=sequence), ROOM)
    (stretch,) = found.quiet
    assert (stretch.attempt, stretch.first, stretch.last) == (1, 1, 200)
    assert stretch.newest - stretch.oldest == timedelta(seconds=199)
    for number in range(ROOM // STRETCH_BYTES - 1):
        found.add_event(event(1_000 + 2 * number), 1)
    with pytest.raises(Unjudged):
        found.add_event(event(5_000), 1)
    assert len(found.quiet) == ROOM // STRETCH_BYTES


def test_another_attempt_begins_another_stretch() -> None:
    found = collected()
    for attempt, sequence in ((1, 1), (2, 2)):
        found.add_event(event(sequence, attempt=attempt), 1)
    assert [(each.attempt, each.first) for each in found.quiet] == [(1, 1), (2, 2)]


def test_of_reports_on_one_stage_the_last_is_held() -> None:
    found = collected()
    for sequence in range(1, 50):
        found.add_event(event(sequence, StageProgress(stage="A", progress=sequence / 50)), 300)
    found.add_event(event(50), 300)
    found.add_event(event(51, StageProgress(stage="A", progress=1.0)), 300)
    found.add_event(event(52, StageProgress(stage="B", progress=0.0)), 300)
    found.add_event(event(60, StageProgress(stage="B", progress=0.5)), 300)
    found.close()
    assert [each["sequence"] for each in found.log] == [51, 52, 60]


def test_a_report_is_held_before_what_has_an_effect_and_counts() -> None:
    found = collected()
    found.add_event(event(1, StageProgress(stage="A", progress=0.5)), ROOM - STRETCH_BYTES)
    with pytest.raises(Unjudged):
        found.add_event(event(2, RunCompleted()), 1)
    assert [each["sequence"] for each in found.log] == [1]


def test_a_report_of_another_attempt_follows_none() -> None:
    found = collected()
    for attempt, sequence in ((1, 1), (2, 2)):
        found.add_event(event(sequence, StageProgress(stage="A", progress=0.5), attempt=attempt), 1)
    found.close()
    assert [each["attempt"] for each in found.log] == [1, 2]


def test_a_decision_is_held() -> None:
    entry = Entry(
        n=1, cause="submit", came_from=None, to="QUEUED", attempt=0, seq=0, by="me", at=EPOCH, sets={}
    )
    decision = entry_document(RUN_ID, entry, Arrival("p", EPOCH))
    found = collected()
    found.add_decision(decision, ROOM)
    assert found.broken == []
    with pytest.raises(Unjudged):
        found.add_decision(decision, 1)


@pytest.mark.parametrize(
    "why", ["an effect", "the next to be applied", "asked for", "a field too many", "changed"]
)
def test_a_line_that_is_needed_is_held_whole(why: str) -> None:
    found = collected(lastEventSeq=6 if why == "the next to be applied" else 1_000_000)
    document = event(7, RunCompleted() if why == "an effect" else None)
    if why == "asked for":
        found.kept_ids.add(document["_id"])
    if why == "a field too many":
        document["foreign"] = 1
    if why == "changed":
        document["hash"] = "0" * 64
    found.add_event(document, ROOM)
    assert ([each["sequence"] for each in found.log], found.quiet) == ([7], [])
    with pytest.raises(Unjudged):
        found.add_event({**document, "sequence": 7}, 1)


def test_a_line_that_is_broken_is_told_and_makes_the_log_unread() -> None:
    found = collected()
    found.add_event({**event(1), "sequence": "one"}, 2 * ROOM)
    found.add_decision({"_id": 5}, 2 * ROOM)
    assert (len(found.broken), found.is_log_read, found.log) == (2, False, [])


def test_only_lines_of_the_record_are_in_its_root() -> None:
    found = collected(sealed={"attempt": 1, "last": 2}, settled={"last": 1})
    roots = []
    for sequence in (1, 2, 3):
        found.add_event(event(sequence), 1)
        roots.append((found.sealed, found.settled))
    assert roots[0][0] != roots[1][0] == roots[2][0]
    assert roots[0][1] == roots[1][1] == roots[2][1]
    other = collected(sealed={"attempt": 2, "last": 9}, settled={"last": 9}, attempt=2)
    before = other.sealed, other.settled
    other.add_event(event(1), 1)
    assert (other.sealed, other.settled) == before
