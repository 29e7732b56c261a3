"""What a rebuild writes: what events make, and nothing that decisions, people or pods own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from control_plane.model import projection
from control_plane.model.run import Entry
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.shapes import problem
from control_plane.verify import repair
from control_plane.verify.comparison import differences
from control_plane.verify.expected import OF_EVENTS
from control_plane.verify.repair import Change, Insert, Late, Plan, Remove, plan, repaired
from control_plane.verify.replay import replay
from control_plane.verify.resumption import resumption
from events.catalog import ArtifactRegistered, RunStarted
from events.kinds.ideation import IdeationGenerated
from events.testing import EPOCH, RUN_ID
from tests.unit.control_plane.test_comparison import (
    BY_HAND,
    DECISIONS,
    DOCUMENTS,
    FIT,
    FITTED,
    PASSED,
    PLACES,
    REVIEW,
    RUN,
    SETTLED,
    SHA256,
    STORED_EVENTS,
    TOLD,
    event,
    evidence_of,
    journaled,
    logged,
    make_evidence,
    with_field,
)

Json = dict[str, Any]
SECOND_TO_LAST: Final = 7
OF_THE_VIEW: Final = ("lastEventSeq", "currentStage", "startedAt", "validation")
NOT_APPLIED: Final = [each for each in TOLD if each not in OF_THE_VIEW]
IN_PROGRESS: Final = DECISIONS[:5]  # the second attempt is claimed, and nothing is decided about it
HELD: Final[Mapping[str, Any]] = {
    **RUN, "status": "RUNNING", "revision": 5, "settled": None, "humanVerdict": None, "finishedAt": None,
    "logOpen": True,
}  # fmt: skip


def planned(evidence: Evidence) -> Plan:
    told = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    return plan(evidence, told)


def left_after(evidence: Evidence) -> list[str]:
    """Return what is unlike the log once the planned repairs are made."""
    after = repaired(evidence, planned(evidence).repairs)
    return list(differences(after, replay(after.run_id, after.decisions, after.events, after.quiet)))


def held(events: Sequence[Json], *, run: Mapping[str, Any] = HELD, **documents: Any) -> Evidence:
    """Return the evidence of a run at work, whose log has these events."""
    given = {"validations": DOCUMENTS["validations"][:1], **documents}
    beside = {name: given.get(name, stored) for name, stored in DOCUMENTS.items()}
    return evidence_of(run, [*map(logged, IN_PROGRESS), *events], beside)


LATE: Final = held(STORED_EVENTS, run={**HELD, "lastEventSeq": SECOND_TO_LAST})


def test_documents_that_are_as_the_log_tells_are_left_alone() -> None:
    assert planned(make_evidence()) == Plan()


def test_a_run_is_written_behind_its_attempts_and_they_behind_their_documents() -> None:
    """A rebuild that is killed has then written nothing that tells of what is not there yet."""
    run = {**RUN, "currentStage": None, "startedAt": None}
    found = planned(evidence_of(run, [*map(logged, DECISIONS), *STORED_EVENTS], dict.fromkeys(DOCUMENTS, ())))
    places = [
        each.collection if isinstance(each, Insert | Remove) else f"{each.collection} changed"
        for each in found.repairs
    ]
    *beside, attempts, last = dict.fromkeys(places)
    assert ({*beside} | {"attempts"}, attempts, last) == ({*DOCUMENTS}, "attempts", "runs changed")


@pytest.mark.parametrize(("collection", "place", "name"), PLACES)
def test_a_field_that_events_make_is_set_and_one_of_a_decision_is_told(
    collection: str, place: int, name: str
) -> None:
    evidence = make_evidence(**{collection: with_field(collection, place, name, BY_HAND)})
    found = planned(evidence)
    if collection == "attempts" and name not in OF_EVENTS:
        assert found.repairs == ()
        assert any(f"{name} is '{BY_HAND}'" in each for each in found.left)
        return
    (repair,) = found.repairs
    assert isinstance(repair, Change)
    assert (repair.sets, repair.drops) == ({name: DOCUMENTS[collection][place][name]}, [])
    assert (found.left, left_after(evidence)) == ((), [])


def without_empty(document: Mapping[str, Any]) -> Json:
    """Return the fields that hold anything; until when a lost attempt is watched, is given again."""
    return {name: held for name, held in document.items() if held is not None and name != "watchedUntil"}


@pytest.mark.parametrize("collection", DOCUMENTS)
def test_a_document_that_is_gone_is_stored_whole(collection: str) -> None:
    found = planned(make_evidence(**{collection: []}))
    stored = [each.document for each in found.repairs if isinstance(each, Insert)]
    assert [*map(without_empty, stored)] == [*map(without_empty, DOCUMENTS[collection])]
    assert (len(stored), found.left) == (len(found.repairs), ())


@pytest.mark.parametrize("collection", DOCUMENTS)
@pytest.mark.parametrize("identity", ["z", 5, ("a", "pair"), {"an": "object"}])
def test_a_document_of_which_nothing_tells_is_removed(collection: str, identity: Any) -> None:
    planted = {"_id": identity, "attempt": 2}
    if isinstance(identity, str):
        evidence = make_evidence(**{collection: [*DOCUMENTS[collection], planted]})
    else:
        evidence = replace(make_evidence(), misshapen={collection: [planted]})
    assert planned(evidence) == Plan((Remove(collection, planted),))


@pytest.mark.parametrize("collection", ["stages", "artifacts", "validations", "ideas"])
def test_a_field_of_which_nothing_tells_is_dropped(collection: str) -> None:
    evidence = make_evidence(**{collection: with_field(collection, 0, "error", BY_HAND)})
    assert planned(evidence).repairs == (Change(collection, evidence.beside[collection][0], {}, ["error"]),)
    assert left_after(evidence) == []


def test_an_attempt_that_said_nothing_has_no_field_of_events() -> None:
    attempt = {"_id": f"{RUN_ID}/a1", "runId": RUN_ID, "attempt": 1, "pod": "pod/1", "claimedAt": EPOCH}
    attempt |= {"revision": 2, "lastEventSeq": 5, "validation": None, "color": "blue"}
    run = {**RUN, "status": "SCHEDULED", "revision": 2, "attempt": 1, "lastEventSeq": 0}
    beside: Json = {**dict.fromkeys(DOCUMENTS, ()), "attempts": [attempt]}
    found = planned(evidence_of(run, [*map(logged, DECISIONS[:2])], beside))
    assert found.repairs[0] == Change("attempts", attempt, {}, ["lastEventSeq"])


@pytest.mark.parametrize("name", OF_THE_VIEW[1:])
def test_what_a_run_shows_of_its_attempt_is_set(name: str) -> None:
    evidence = make_evidence(run={**RUN, name: BY_HAND})
    (repair,) = planned(evidence).repairs
    assert isinstance(repair, Change)
    assert (repair.collection, repair.sets) == ("runs", {name: TOLD[name]})
    assert left_after(evidence) == []


@pytest.mark.parametrize("name", NOT_APPLIED)
def test_any_other_field_of_a_run_is_told_and_not_written(name: str) -> None:
    found = planned(make_evidence(run={**RUN, name: BY_HAND if name != "revision" else 7.5}))
    assert found.repairs == ()
    assert any(name in each for each in found.left)


@pytest.mark.parametrize("cursor", [0, 7, 9, 1_000])
def test_a_cursor_of_an_ended_run_stands_where_the_last_decision_met_it(cursor: int) -> None:
    found = planned(make_evidence(run={**RUN, "lastEventSeq": cursor}))
    assert found == Plan((Change("runs", {**RUN, "lastEventSeq": cursor}, {"lastEventSeq": 8}),))


@pytest.mark.parametrize(
    ("status", "cursor", "to"),
    [
        ("RUNNING", 0, 7),  # the start was applied, and the end was not
        ("RUNNING", 1, 1),
        ("RUNNING", 3, 3),
        ("RUNNING", 7, 7),
        ("RUNNING", 8, 7),
        ("RUNNING", 1_000, 7),
        ("SCHEDULED", 0, 0),
        ("SCHEDULED", 5, 0),
    ],
)
def test_a_cursor_of_a_run_at_work_stands_where_its_log_leads_to_its_status(
    status: str, cursor: int, to: int
) -> None:
    run = {**HELD, "status": status, "lastEventSeq": cursor}
    evidence = held(STORED_EVENTS, run=run)
    found = planned(evidence)
    after = repaired(evidence, found.repairs).run
    assert (after["lastEventSeq"], found.late, found.left) == (to, Late(2, to + 1, 8), ())
    shown = [None, None, FIT, {**FIT, "progress": 0.5, "activity": "half way"}]
    assert after["currentStage"] == (shown[to] if to < 4 else FITTED)
    assert after["startedAt"] == (EPOCH if to else None)
    assert after["validation"] == (PASSED if to > 4 else None)


def test_a_run_whose_log_leads_elsewhere_keeps_its_cursor() -> None:
    found = planned(held(STORED_EVENTS, run={**HELD, "status": "CANCELING", "lastEventSeq": 1_000}))
    assert (found.repairs, found.late) == ((), None)
    assert any("status is 'CANCELING'" in each for each in found.left)


@pytest.mark.parametrize(
    ("marks", "cursor"),
    [
        ({"logOpen": True, "logIncomplete": None}, 7),  # so that application closes the log
        ({"logOpen": False, "logIncomplete": {"from": 6, "to": 9}}, 5),
        ({"logOpen": False, "logIncomplete": {"from": 9, "to": 9}}, 8),
    ],
)
def test_a_cursor_stands_before_what_moves_the_marks_of_the_log(marks: Json, cursor: int) -> None:
    early = replace(DECISIONS[5], seq=0, came_from="SCHEDULED")  # the worker settled before its log came
    run = {**RUN, **marks, "status": "AWAITING_HUMAN", "revision": 6, "lastEventSeq": 1_000}
    evidence = make_evidence(
        run=run, decisions=(*DECISIONS[:5], early), validations=DOCUMENTS["validations"][:1]
    )
    found = planned(evidence)
    assert repaired(evidence, found.repairs).run["lastEventSeq"] == cursor
    assert found.late == (Late(2, cursor + 1, 8) if cursor < 8 else None)


def test_a_start_behind_a_gap_leads_to_no_status() -> None:
    behind = [*(each for each in STORED_EVENTS if each["attempt"] == 1), event(2, 3, RunStarted())]
    evidence = held(behind, run={**HELD, "lastEventSeq": 3})
    told = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    assert told.fields["lastEventSeq"] == 0
    assert resumption(evidence, told) is None


def test_a_cursor_is_never_set_before_the_last_decision() -> None:
    late = replace(DECISIONS[5], seq=5, came_from="RUNNING")
    marks = {"settled": {**SETTLED, "last": 3}, "logOpen": True}
    run = {**RUN, **marks, "status": "AWAITING_HUMAN", "revision": 6, "lastEventSeq": 1_000}
    evidence = make_evidence(run=run, decisions=(*DECISIONS[:5], late))
    told = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    assert resumption(evidence, told) == 5


@pytest.mark.parametrize(("cursor", "decided"), [(3, SECOND_TO_LAST), (1_000, SECOND_TO_LAST), (3, 3)])
def test_a_closed_record_is_applied_by_nobody_and_has_its_cursor_set(cursor: int, decided: int) -> None:
    seal = {"attempt": 2, "last": SECOND_TO_LAST, "whole": False, "root": None}
    sealing = replace(REVIEW, seq=decided, sets={**REVIEW.sets, "sealed": seal})
    ended = replace(DECISIONS[5], seq=decided)
    run = {**RUN, "lastEventSeq": cursor, "sealed": seal}
    found = planned(make_evidence(run=run, decisions=(*DECISIONS[:5], ended, sealing)))
    assert found.late is None
    assert [each.sets["lastEventSeq"] for each in found.repairs if isinstance(each, Change)][
        -1
    ] == SECOND_TO_LAST


def test_a_verdict_on_its_way_into_the_log_stays_and_so_does_an_attempt() -> None:
    run = {**RUN, "journal": [journaled(REVIEW)]}
    assert planned(make_evidence(run=run, decisions=DECISIONS[:-1])) == Plan()
    planted = {"_id": f"{RUN_ID}/a3", "runId": RUN_ID, "attempt": 3}
    evidence = make_evidence(run=run, decisions=DECISIONS[:-1], attempts=[*DOCUMENTS["attempts"], planted])
    assert planned(evidence) == Plan()


def test_a_document_of_another_shape_is_made_anew() -> None:
    stage = {**DOCUMENTS["stages"][1], "attempt": "two", "name": None}
    evidence = replace(
        make_evidence(stages=DOCUMENTS["stages"][:1]),
        misshapen={"stages": [stage]},
        broken=[f"stages {stage['_id']}: {problem('stages', stage)}", "dead_letters x: odd"],
    )
    found = planned(evidence)
    assert found.repairs == (Change("stages", stage, {"attempt": 2, "name": "fit"}, []),)
    assert found.left == ("dead_letters x: odd",)


def altered(place: int, **fields: Any) -> list[Json]:
    """Return the log's events, with one of them changed."""
    events = [dict(each) for each in STORED_EVENTS]
    events[place] |= fields
    return events


def without_decision(n: int) -> list[Json]:
    decisions: list[Entry] = [each for each in DECISIONS if each.n != n]
    return [*map(logged, decisions), *STORED_EVENTS]


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (without_decision(4), "revision-gap"),
        ([*map(logged, DECISIONS), *altered(3, data={})], "event-tampered"),
        ([*map(logged, DECISIONS), *altered(1, data={}, hash="")], "cannot be read"),
        ([*map(logged, DECISIONS), *STORED_EVENTS[:-1]], "decision 6 saw event 8"),
        ([*map(logged, DECISIONS), *STORED_EVENTS[:4], *STORED_EVENTS[5:]], "decision 6 saw event 8"),
        ([*map(logged, IN_PROGRESS), *STORED_EVENTS[:-1]], "revision-gap"),
    ],
)
def test_no_documents_are_made_of_a_log_that_is_not_whole(log: list[Json], why: str) -> None:
    found = planned(evidence_of(RUN, log, {**DOCUMENTS, "stages": []}))
    assert (found.repairs, found.late) == ((), None)
    assert any(why in each for each in found.left), found.left


@pytest.mark.parametrize(
    "invariant",
    ["status-path", "revision-gap", "event-after-end", "event-tampered", "seal-broken", "settle-broken"],
)
@pytest.mark.parametrize("evidence", [make_evidence(stages=[]), LATE])
def test_no_documents_are_made_of_a_log_that_breaks_an_invariant(
    invariant: str, evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(repair.INVARIANTS, invariant, lambda _: iter(["it is broken"]))  # type: ignore[arg-type]
    found = planned(replace(evidence, broken=["stages s: odd"]))
    assert (found.repairs, found.late) == ((), None)
    assert found.left == (f"its log is not whole ({invariant}): it is broken", "stages s: odd")


def test_no_documents_are_made_of_a_log_of_which_a_line_could_not_be_read() -> None:
    found = planned(replace(make_evidence(stages=[]), is_log_read=False))
    assert (found.repairs, found.left) == ((), ("lines of its log cannot be read",))


def test_an_attempt_whose_lines_are_all_lost_keeps_its_documents() -> None:
    lost = planned(held(STORED_EVENTS[:2], run={**HELD, "lastEventSeq": 8}))
    assert lost.repairs == ()
    assert "events 1–8 of attempt 2 were applied and are not in it" in lost.left[0]


def test_an_attempt_whose_log_begins_behind_a_gap_keeps_its_documents() -> None:
    unseen = [replace(each, seq=0) if each.attempt == 1 else each for each in DECISIONS]
    log = [*map(logged, unseen), *STORED_EVENTS[1:]]
    lost = planned(evidence_of(RUN, log, DOCUMENTS))
    assert lost.repairs == ()
    assert any("of attempt 1 were applied and are not in it" in each for each in lost.left), lost.left


def test_a_log_that_lost_its_end_makes_none_and_one_wrong_place_alone_is_set() -> None:
    short = STORED_EVENTS[:-1]
    lost = planned(held(short, run={**HELD, "lastEventSeq": 8}))
    assert (lost.repairs, "events 8 of attempt 2 were applied" in lost.left[0]) == ((), True)
    run = {**HELD, "lastEventSeq": 7}
    ahead = with_field("attempts", 1, "lastEventSeq", 8)
    ahead[1]["endSeq"] = None
    (change,) = planned(held(short, run=run, attempts=ahead)).repairs
    assert isinstance(change, Change)
    assert change.sets == {"lastEventSeq": 7}


def with_decisions(changes: Mapping[int, Json], decisions: Sequence[Entry] = DECISIONS) -> list[Json]:
    """Return the log of these decisions, some of which set more, or saw less."""
    changed = [
        replace(
            each,
            **{**changes.get(each.n, {}), "sets": {**each.sets, **changes.get(each.n, {}).get("sets", {})}},
        )
        for each in decisions
    ]
    return [*map(logged, changed)]


def settled(last: int) -> Json:
    return {"settled": {**SETTLED, "last": last}}


BEYOND: Final[Json] = {"attempts": [{**each, "lastEventSeq": 9} for each in DOCUMENTS["attempts"]]}
LOST: Final = "were applied and are not in it"


def of(run: Mapping[str, Any], log: Sequence[Json], **documents: Any) -> Evidence:
    return evidence_of(run, log, {**DOCUMENTS, **documents})


@pytest.mark.parametrize(
    ("evidence", "is_lost"),
    [
        # it has its end, though nobody settled it
        (held(STORED_EVENTS, run={**HELD, "lastEventSeq": 9}, **BEYOND), False),
        # it is as long as was settled, though it has no end
        (
            of(
                {**RUN, "lastEventSeq": 9},
                [*with_decisions({6: {"seq": 7, "sets": settled(7)}, 7: {"seq": 7}}), *STORED_EVENTS[:-1]],
                **BEYOND,
            ),
            False,
        ),
        # it is shorter than was settled
        (
            of(
                {**RUN, "lastEventSeq": 9},
                [*with_decisions({6: {"seq": 7}, 7: {"seq": 7}}), *STORED_EVENTS[:-1]],
                **BEYOND,
            ),
            True,
        ),
        # another attempt was settled
        (
            of(
                {**HELD, "lastEventSeq": 9},
                [*with_decisions({3: {"sets": settled(2)}}, IN_PROGRESS), *STORED_EVENTS[:-1]],
                **BEYOND,
            ),
            True,
        ),
    ],
)
def test_a_log_has_lost_its_end_only_where_nothing_says_that_it_is_whole(
    evidence: Evidence, is_lost: bool
) -> None:
    found = planned(evidence)
    assert any(LOST in each and "of attempt 2" in each for each in found.left) == is_lost, found.left
    assert bool(found.repairs) != is_lost


def test_one_place_of_an_attempt_that_is_wrong_is_set_wherever_other_attempts_and_people_stand() -> None:
    (change,) = planned(make_evidence(stages=with_field("stages", 0, "seq", 5))).repairs
    assert isinstance(change, Change)
    assert change.sets == {"seq": 2}
    ahead = with_field("attempts", 1, "lastEventSeq", 8)
    verdicts = with_field(
        "validations", 1, "seq", 12
    )  # of a person, whose decisions have numbers of their own
    found = planned(
        held(STORED_EVENTS[:-1], run={**HELD, "lastEventSeq": 7}, attempts=ahead, validations=verdicts)
    )
    assert found.repairs
    assert not any(LOST in each for each in found.left)


def test_an_event_that_was_set_aside_for_what_it_says_leaves_the_log_whole() -> None:
    astray = event(2, 2, ArtifactRegistered(name="x", key="runs/of/another", size=3, sha256=SHA256))
    log = [*STORED_EVENTS[:2], event(2, 1, RunStarted()), astray]
    nothing: Json = dict.fromkeys(DOCUMENTS, ())
    found = planned(held(log, run={**HELD, "lastEventSeq": 2, "currentStage": None}, **nothing))
    assert [each for each in found.repairs if isinstance(each, Insert)]
    assert not any("not whole" in each or "event 2" in each for each in found.left), found.left


def test_a_document_that_stays_broken_is_told() -> None:
    odd: list[Json] = [{"_id": each, "runId": RUN_ID, "attempt": "two"} for each in (5, [1])]
    words = [f"attempts {each['_id']}: {problem('attempts', each)}" for each in odd]
    waits = replace(
        make_evidence(decisions=DECISIONS[:-1], run={**RUN, "journal": [journaled(REVIEW)]}),
        misshapen={"attempts": odd},
        broken=words,
    )
    assert planned(waits).left == tuple(words)


def test_a_value_is_told_in_short_however_long_it_is() -> None:
    long = "x" * 10_000
    assert len(str(Change("runs", {"_id": "r", "a": long, "b": long}, {"a": long}, ["b"]))) < 1_000


def test_a_projection_that_fails_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, _ = projection.PROJECTIONS[IdeationGenerated]

    def fails(*_: Any) -> Any:
        raise ValueError("of another version")

    monkeypatch.setattr(projection, "PROJECTIONS", {IdeationGenerated: (kind, fails)})
    found = planned(make_evidence())
    assert found.repairs == ()
    assert any("of another version" in each for each in found.left)


def test_what_the_store_does_not_take_is_told() -> None:
    found = planned(make_evidence(stages=[], artifacts=[]))
    stuck = str(found.repairs[0])
    rest = found.without({stuck})
    assert rest.repairs == found.repairs[1:]
    assert stuck in rest.left[0]
    assert found.without(set()) == found
