"""What is applied of a log, of lines that came before a claim, and of events without a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.log import unclaimed_lines
from control_plane.log.projector import Projector, Stretch, contiguous, run_view
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.log.unnumbered_events import TRIES_MAX, UnnumberedEvents
from control_plane.model.projection import AttemptView, fold
from control_plane.model.run import Run, Seal, Settled
from control_plane.store.log.documents import AttemptRecord
from control_plane.store.queue.runs import Found
from events.catalog import RunCompleted, RunHeartbeat, RunLog, RunStarted
from events.codec import decode_structured
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.lifecycle import Failures, Status
from events.queue.journal import Decision
from events.runtime.errors import Transient
from events.testing import RUN_ID, ManualClock, SeededIds, make_line
from events.text.attempt_id import AttemptId

RUN: Final = Run(
    id=RUN_ID, kind="probe", status=Status.SCHEDULED, revision=2, attempt=1, last_event_seq=3,
    failures=Failures(), max_attempts=3, review=False, class_key="probe", claimed_by="pod/1", lease=None,
    settled=None, log_open=True, log_incomplete=False, current_stage=None, started_at=None, validation=None,
    journal=(), hypothesis_id=None, paused=False, notes_count=0,
)  # fmt: skip
SEALED: Final = replace(RUN, sealed=Seal(attempt=1, last=3, whole=True))


def event(sequence: int | None, fact: Fact | None = None, *, attempt: int = 1) -> Event:
    line = make_line(fact or RunLog(message="x"), sequence=sequence, run_id=RUN_ID, attempt=attempt)
    found = decode_structured(line)
    assert isinstance(found, Event), found
    return found


class Store:
    """A store of one run, in the place of all parts of one; it moves a run at each of its first turns."""

    def __init__(self, run: Run | None, *stored: Event, moves: int = 0, cursor: int = 0) -> None:
        self.run, self.stored, self.moves, self.cursor = run, stored, moves, cursor
        self.advanced: list[int] = []
        self.decided: list[Decision] = []
        self.letters: list[str] = []
        self.beats = 0
        self.read = 0

    async def find(self, run_id: str) -> Found | None:
        return None if self.run is None else Found("runs", self.run)

    async def attempt(self, attempt_id: AttemptId) -> AttemptRecord:
        return AttemptRecord(self.cursor, AttemptView(*attempt_id))

    async def attempt_records(self, names: Sequence[AttemptId]) -> list[AttemptRecord]:
        return [await self.attempt(name) for name in names]

    async def stretch(self, attempt_id: AttemptId, cursor: int) -> list[Event]:
        self.read += 1
        assert self.run is not None
        applied = max([cursor, *self.advanced])
        return [each for each in self.stored if (each.sequence or 0) > applied]

    async def holding(self, ends: Any) -> set[Any]:
        return set()

    async def write(self, of: Any) -> Any:
        return 0

    async def write_all(self, runs: Sequence[Run]) -> list[int]:
        return [0] * len(runs)

    async def refuse(self, letters: Any) -> None:
        self.letters += [each["code"] for each in letters]

    async def advance_attempts(self, views: Sequence[tuple[AttemptView, int]]) -> None:
        self.advanced += [seq for _, seq in views]

    async def advance(self, advances: Sequence[Any]) -> bool:
        return True

    async def decided_by(self, run_id: str, by: str) -> bool:
        return any(each.by == by for each in self.decided)

    async def decide(self, found: Found, decision: Decision) -> bool:
        self.moves -= 1
        if self.moves >= 0:
            return False
        self.decided.append(decision)
        return True

    async def beat(self, run_id: str, attempt: int, at: Any) -> None:
        self.beats += 1


def projector(store: Any) -> Projector:
    return Projector(store, store, store, store, ManualClock(), SeededIds())


@pytest.mark.parametrize("run", [None, RUN])
async def test_an_attempt_that_nobody_has_claimed_applies_nothing(run: Run | None) -> None:
    store = Store(run, event(1, attempt=2))
    assert await projector(store).apply(AttemptId(RUN_ID, 2)) == 0
    assert (store.read, store.advanced) == (0, [])


@pytest.mark.parametrize(("run", "cursor"), [(RUN, 5), (SEALED, 3)], ids=["open", "sealed"])
async def test_nothing_is_applied_behind_a_verdict(run: Run, cursor: int) -> None:
    store, stored = Store(run, event(4), event(5)), [event(4), event(5)]
    assert await projector(store).follow([Stretch(Found("runs", run), 1, stored)]) == [cursor]
    assert bool(store.advanced) == (run is RUN)
    looked = Store(run, *stored)
    assert await projector(looked).apply(AttemptId(RUN_ID, 1)) == 3, "its cursor stands in the run"
    assert bool(looked.advanced) == (run is RUN)


async def test_of_a_run_one_attempt_is_followed_at_a_time_and_only_without_a_gap() -> None:
    store, found = Store(RUN, cursor=3), Found("runs", replace(RUN, attempt=2, last_event_seq=3))
    stretches = [Stretch(found, 2, [event(4, attempt=2)]), Stretch(found, 1, [event(4)])]
    assert await projector(store).follow(stretches) == [4, None]
    assert await projector(store).follow([Stretch(found, 2, [event(5, attempt=2)])]) == [None]
    assert await projector(store).follow([Stretch(found, 2, [event(3, attempt=2)])]) == [3]


def test_events_are_taken_up_to_the_first_gap_each_once() -> None:
    taken = contiguous([event(1), event(1), event(2), event(4), event(5)])
    assert [each.sequence for each in taken] == [1, 2]
    assert [each.sequence for each in contiguous([event(1), event(3), event(2)])] == [1]


async def test_what_stands_behind_an_end_is_set_aside_with_a_letter() -> None:
    store, stored = Store(RUN), [event(4, RunCompleted()), event(5)]
    assert await projector(store).follow([Stretch(Found("runs", RUN), 1, stored)]) == [5]
    assert store.letters == ["after_end"]


class Restless(Store):
    """Others keep moving its run: there is always something more to apply."""

    async def stretch(self, attempt_id: AttemptId, cursor: int) -> list[Event]:
        return [event(cursor + 1)]


async def test_an_application_ends_where_others_always_move_the_run() -> None:
    with pytest.raises(Transient, match="changing concurrently"):
        await projector(Restless(RUN)).apply(AttemptId(RUN_ID, 1))


@pytest.mark.parametrize(("last", "is_closed"), [(3, True), (4, True), (5, False)])
def test_a_log_is_whole_at_the_last_position_that_its_settle_named(last: int, is_closed: bool) -> None:
    run = replace(RUN, settled=Settled("completed", last))
    view = run_view(run, fold(AttemptView(RUN_ID, 1), [event(4)], 3))
    assert (view.get("logOpen") is False) == is_closed


class Early:
    """Lines before a claim, and what becomes of them."""

    def __init__(self, lines: Sequence[tuple[str, int]], claimed: int) -> None:
        self.lines = {name: {"_id": name, "runId": RUN_ID, "attempt": attempt, "line": "", "sequence": 1,
                             "principal": "p"} for name, attempt in lines}  # fmt: skip
        self.claimed = claimed
        self.letters: list[str] = []
        self.notices = 0

    async def attempts(self, after: str) -> list[tuple[str, str, int]]:
        rest = [(name, RUN_ID, line["attempt"]) for name, line in sorted(self.lines.items()) if name > after]
        return rest[: unclaimed_lines.BATCH_MAX]

    async def find_all(self, ids: set[str]) -> dict[str, Found]:
        return {RUN_ID: Found("runs", replace(RUN, attempt=self.claimed))}

    async def read(self, ids: Sequence[str]) -> list[Any]:
        return [self.lines[each] for each in ids]

    async def refuse(self, letters: Sequence[dict[str, Any]]) -> None:
        self.letters += [each["_id"] for each in letters]

    async def append(self, notices: Sequence[Any]) -> None:
        self.notices += len(notices)

    async def drop(self, ids: Sequence[str]) -> None:
        for each in ids:
            del self.lines[each]


@pytest.mark.parametrize("claimed", [0, 1, 2])
async def test_lines_wait_for_the_claim_of_their_attempt_page_after_page(
    monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    monkeypatch.setattr(unclaimed_lines, "BATCH_MAX", 2)
    store: Any = Early([("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)], claimed)
    closed = await UnclaimedLines(store, store, store, store, ManualClock(), SeededIds()).run_once()
    over = [name for name, attempt in zip("abcde", (1, 2, 1, 2, 1), strict=True) if attempt <= claimed]
    assert closed == len(over)
    assert sorted(each.removeprefix("early/")[0] for each in store.letters) == over
    assert sorted(store.lines) == sorted({*"abcde"} - {*over})
    assert bool(store.notices) == bool(over)


def unnumbered(store: Any) -> UnnumberedEvents:
    return UnnumberedEvents(store, store, ManualClock(), SeededIds())


async def test_a_decision_counts_once_and_waits_for_its_turn() -> None:
    store = Store(RUN, moves=3)
    for _ in range(2):
        await unnumbered(store).apply(event(None, RunStarted()), "e1")
    assert [each.by for each in store.decided] == ["event:e1"]
    assert await unnumbered(store).refusal(event(None, RunStarted()), "e1") is None


async def test_a_run_that_always_moves_is_told() -> None:
    with pytest.raises(Transient, match="changing concurrently"):
        await unnumbered(Store(RUN, moves=TRIES_MAX)).apply(event(None, RunStarted()), "e1")


@pytest.mark.parametrize(
    ("run", "words"), [(None, "there is no run"), (replace(RUN, status=Status.COMPLETED), "COMPLETED")]
)
async def test_what_nothing_can_decide_is_refused_and_changes_nothing(run: Run | None, words: str) -> None:
    store = Store(run)
    assert words in str(await unnumbered(store).refusal(event(None, RunStarted()), "e1"))
    await unnumbered(store).apply(event(None, RunStarted()), "e1")
    assert store.decided == []


async def test_a_decision_that_stands_in_the_journal_is_made() -> None:
    by = "event:e1"
    entry: Any = type("Entry", (), {"by": by})
    store = Store(replace(RUN, status=Status.COMPLETED, journal=(entry,)))
    assert await unnumbered(store).refusal(event(None, RunStarted()), "e1") is None


@pytest.mark.parametrize("fact", [RunHeartbeat(), RunLog(message="x")])
async def test_what_decides_nothing_decides_nothing(fact: Fact) -> None:
    store = Store(RUN)
    await unnumbered(store).apply(event(None, fact), "e1")
    assert (store.decided, store.beats) == ([], int(isinstance(fact, RunHeartbeat)))
