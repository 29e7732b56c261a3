"""Each invariant on the evidence of one run: silent on a healthy one, exact about what is wrong, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.lease_watch import Overdue, Watch
from control_plane.model.run import Entry
from control_plane.store.log.events import Arrival, entry_document, storable
from control_plane.store.verify.evidence import Evidence, Quiet
from control_plane.verify.invariants import (
    GAP_GRACE,
    INVARIANTS,
    JOURNAL_GRACE,
    WATCH_GRACE,
    Case,
    log_incomplete,
)
from control_plane.verify.replay import Replayed, replay
from events.catalog import RunCompleted, RunLog, RunStarted
from events.codec import decode_ndjson
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.lifecycle import HELD, INITIAL, TRANSITIONS, Cause, Status
from events.queue.lease_times import LEASE_TTL_S
from events.testing import EPOCH, RUN_ID, make_line
from testing.simulation.store.replica_set import OPTIONS

NOW: Final = EPOCH
LONG_AGO: Final = NOW - timedelta(hours=1)
TICK: Final = timedelta(milliseconds=1)  # of a stored moment
POD: Final = "pod/1"
HEALTHY_STATUS: Final = "COMPLETED"
NOTHING_CHARGED: Final = {"app": 0, "infra": 0, "preempted": 0, "outside": 0}


def make_entry(
    n: int, cause: str, came_from: str | None, to: str, *, attempt: int = 1, seq: int = 0, **fields: Any
) -> Entry:
    """Return a decision of an hour ago; `by`, `at` and `sets` are its other fields."""
    given = {"by": "somebody", "at": LONG_AGO, "sets": {}, **fields}
    return Entry(n=n, cause=cause, came_from=came_from, to=to, attempt=attempt, seq=seq, **given)


def make_claim(n: int, attempt: int, *, seq: int = 0, came_from: str = "QUEUED") -> Entry:
    """Return the claim of an attempt, with what a replay needs of it."""
    sets = {
        "attempt": attempt,
        "claimedBy": POD,
        "claimedAt": LONG_AGO,
        "lastEventSeq": 0,
        "settled": None,
    }
    return make_entry(n, "claim", came_from, "SCHEDULED", attempt=attempt - 1, seq=seq, by=POD, sets=sets)


def logged(entry: Entry) -> dict[str, Any]:
    """Return a decision as the log keeps it."""
    return entry_document(RUN_ID, entry, Arrival(f"p{entry.n}", LONG_AGO))


def journaled(entry: Entry) -> dict[str, Any]:
    """Return a decision as the run's journal keeps it until it is in the log."""
    document: dict[str, Any] = logged(entry)["data"]
    return {name: value for name, value in document.items() if name != "run_id"}


def make_event(
    sequence: int, fact: Fact | None = None, *, attempt: int = 1, at: datetime = LONG_AGO
) -> dict[str, Any]:
    """Return an event as the log keeps it, a line of text where no other fact is wanted."""
    line = make_line(
        fact or RunLog(message=f"line {sequence}"), sequence=sequence, run_id=RUN_ID, attempt=attempt
    )
    (decoded,) = decode_ndjson(line)
    assert isinstance(decoded.outcome, Event)
    stored: dict[str, Any] = bson.decode(storable(decoded.outcome, Arrival("p", at)).raw, OPTIONS)
    return stored


def make_run(**fields: Any) -> dict[str, Any]:
    """Return the stored run of the healthy history."""
    return {
        "_id": RUN_ID,
        "status": HEALTHY_STATUS,
        "revision": 3,
        "attempt": 1,
        "lastEventSeq": 3,
        "lease": {"tokenHash": "hash", "until": None, "renewals": 2},
        "failures": NOTHING_CHARGED,
        "logIncomplete": None,
        "settled": None,
        "createdAt": LONG_AGO,
        "journal": [],
        **fields,
    }


MENDED: Final = f": `podfleet repair {RUN_ID}` closes the log"
SUBMIT: Final = make_entry(
    1, "submit", None, "QUEUED", attempt=0, sets={"priority": 0, "failures": NOTHING_CHARGED}
)
CLAIM: Final = make_claim(2, 1)
END: Final = make_entry(
    3,
    "end: completed",
    "RUNNING",
    HEALTHY_STATUS,
    seq=3,
    by=f"{POD}#a1",
    sets={"settled": {"outcome": "completed", "last": 3}, "finishedAt": LONG_AGO},
)
DECISIONS: Final = (SUBMIT, CLAIM, END)
EVENTS: Final = (make_event(1, RunStarted()), make_event(2), make_event(3, RunCompleted()))


def make_evidence(
    *,
    run: dict[str, Any] | None = None,
    decisions: Sequence[Entry] = DECISIONS,
    events: Sequence[dict[str, Any]] = EVENTS,
    **documents: Any,
) -> Evidence:
    """Return the evidence of a run that was submitted, claimed, ran and completed."""
    beside = {
        "attempts": [{"_id": f"{RUN_ID}/a1", "attempt": 1, "pod": POD, "lastEventSeq": 3}],
        "stages": [],
        "artifacts": [],
        "validations": [],
        "dead_letters": [],
        **documents,
    }
    log = [*map(logged, decisions), *events]
    return Evidence(collection="runs", run=run or make_run(), log=log, now=NOW, **beside)


def found(name: str, evidence: Evidence, told: Replayed | None = None) -> list[str]:
    """Return what an invariant finds."""
    if told is None:
        told = replay(evidence.run_id, evidence.decisions, evidence.events)
    return list(INVARIANTS[name](Case(evidence, told)))


def test_every_invariant_has_the_name_of_its_function() -> None:
    assert list(INVARIANTS) == [each.__name__.replace("_", "-") for each in INVARIANTS.values()]
    assert len(set(INVARIANTS.values())) == len(INVARIANTS) == 18


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_healthy_run_is_no_finding(name: str) -> None:
    assert found(name, make_evidence()) == []


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_run_that_was_just_submitted_is_no_finding(name: str) -> None:
    run = make_run(status="QUEUED", revision=1, attempt=0, lastEventSeq=0, lease=None)
    evidence = make_evidence(run=run, decisions=[SUBMIT], events=[], attempts=[])
    assert found(name, evidence) == []


def test_what_a_healthy_fleet_passes_through_is_given_this_long() -> None:
    graces = (JOURNAL_GRACE, GAP_GRACE, WATCH_GRACE)
    assert [each.total_seconds() for each in graces] == [60, 120, 60]


def test_every_decision_is_a_row_of_the_table_and_no_other_is() -> None:
    legal = {
        (cause.value, source.value, target.value)
        for cause, row in TRANSITIONS.items()
        for source, targets in row.items()
        for target in targets
    }
    causes = [cause.value for cause in Cause if cause is not Cause.SUBMIT]
    every = list(product(causes, [None, *Status], Status))
    decisions = [make_entry(n, *each) for n, each in enumerate(every, 1)]
    problems = found("status-path", make_evidence(decisions=decisions, events=[]), Replayed())
    assert problems == [
        f"decision {n} ({cause}) led from {source} to {target}"
        for n, (cause, source, target) in enumerate(every, 1)
        if (cause, source, target) not in legal
    ]
    assert len(every) - len(problems) == len(legal)


@pytest.mark.parametrize("source", [None, Status.QUEUED])
@pytest.mark.parametrize("target", list(Status))
def test_a_run_begins_from_nothing_in_an_initial_status(source: str | None, target: Status) -> None:
    evidence = make_evidence(decisions=[make_entry(1, "submit", source, target)], events=[])
    is_legal = source is None and target in INITIAL
    expected = [] if is_legal else [f"decision 1 (submit) led from {source} to {target}"]
    assert found("status-path", evidence, Replayed()) == expected


@pytest.mark.parametrize(
    ("cause", "source", "target"),
    [("magic", "QUEUED", "SCHEDULED"), ("claim", "LIMBO", "SCHEDULED"), ("claim", "QUEUED", "LIMBO")],
)
def test_a_word_that_is_none_of_ours_is_no_decision(cause: str, source: str, target: str) -> None:
    evidence = make_evidence(decisions=[make_entry(4, cause, source, target)], events=[])
    expected = [f"decision 4 ({cause}) led from {source} to {target}", "as the replay says"]
    assert found("status-path", evidence, Replayed(contradictions=["as the replay says"])) == expected


def test_a_decision_follows_from_the_one_before() -> None:
    paused = make_entry(2, "pause", "RUNNING", "RUNNING", attempt=0)
    evidence = make_evidence(decisions=[SUBMIT, paused], events=[])
    assert found("status-path", evidence) == ["decision 2 left RUNNING, but the log stands at QUEUED"]


def test_a_run_stays_as_it_first_ended() -> None:
    decisions = [
        *DECISIONS,
        make_entry(4, "settled", "COMPLETED", "COMPLETED"),
        make_entry(5, "end: failed", "COMPLETED", "FAILED"),
        make_entry(6, "settled", "FAILED", "FAILED"),
    ]
    evidence = make_evidence(run=make_run(status="QUEUED"), decisions=decisions)
    assert found("final-status-changed", evidence, Replayed()) == [
        "decision 3 ended the run as COMPLETED, decision 5 made it FAILED",
        "decision 3 ended the run as COMPLETED, decision 6 made it FAILED",
        "decision 3 ended the run as COMPLETED, stored is QUEUED",
    ]


def test_a_run_that_has_not_ended_may_stand_anywhere() -> None:
    evidence = make_evidence(run=make_run(status="FAILED"), decisions=DECISIONS[:2])
    assert found("final-status-changed", evidence, Replayed()) == []


def test_a_person_who_revises_a_verdict_changes_how_a_run_ended() -> None:
    revised = make_entry(4, "revise", HEALTHY_STATUS, "FAILED")
    later = make_entry(5, "settled", "FAILED", HEALTHY_STATUS)
    evidence = make_evidence(run=make_run(status="FAILED"), decisions=[*DECISIONS, revised])
    assert found("final-status-changed", evidence, Replayed()) == []
    evidence = make_evidence(decisions=[*DECISIONS, revised, later])
    assert found("final-status-changed", evidence, Replayed()) == [
        "decision 4 ended the run as FAILED, decision 5 made it COMPLETED",
        "decision 4 ended the run as FAILED, stored is COMPLETED",
    ]


def test_the_stored_status_is_where_the_log_leads() -> None:
    evidence = make_evidence(run=make_run(status="RUNNING"))
    assert found("status-unexplained", evidence) == ["stored is RUNNING, the log leads to COMPLETED"]
    assert found("status-unexplained", evidence, Replayed()) == ["stored is RUNNING, the log leads to None"]


def owners(*decisions: Entry, attempts: Sequence[dict[str, Any]] = ()) -> list[str]:
    return found("two-owners", make_evidence(decisions=decisions, events=[], attempts=attempts), Replayed())


@pytest.mark.parametrize(
    ("cause", "to"),
    [
        ("end: completed", "COMPLETED"),
        ("end: failed", "DELAYED"),
        ("end: preempted", "QUEUED"),
        ("end: canceled", "QUEUED"),
        ("rescue", "DELAYED"),
    ],
)
def test_an_end_or_a_rescue_frees_a_run_for_the_next_attempt(cause: str, to: str) -> None:
    left = make_entry(3, cause, "RUNNING", to)
    assert owners(make_claim(2, 1), left, make_claim(4, 2)) == []


@pytest.mark.parametrize("cause", ["cancel", "pause", "note", "settled", "promote"])
def test_nothing_else_frees_a_run(cause: str) -> None:
    between = make_entry(3, cause, "RUNNING", "RUNNING")
    expected = ["attempt 2 was claimed while attempt 1 owned the run"]
    assert owners(make_claim(2, 1), between, make_claim(4, 2)) == expected


def test_the_latest_claim_owns_a_run() -> None:
    assert owners(make_claim(2, 1), make_claim(3, 2), make_claim(4, 3)) == [
        "attempt 2 was claimed while attempt 1 owned the run",
        "attempt 3 was claimed while attempt 2 owned the run",
    ]


def test_an_attempt_is_claimed_once() -> None:
    left = make_entry(3, "rescue", "RUNNING", "DELAYED")
    assert owners(make_claim(2, 1), left, make_claim(4, 1)) == ["attempt 1 was claimed twice"]


def test_a_claim_that_names_no_attempt_is_one_all_the_same() -> None:
    nameless = make_entry(3, "claim", "QUEUED", "SCHEDULED", sets={"attempt": None})
    expected = ["attempt 0 was claimed while attempt 1 owned the run"]
    assert owners(make_claim(2, 1), nameless) == expected


def test_a_pod_that_nobody_saw_claim_is_named() -> None:
    attempts = [
        {"_id": "a1", "attempt": 1, "pod": POD},
        {"_id": "a2", "attempt": 2, "pod": "pod/2"},
        {"_id": "a3", "attempt": 3, "pod": None},
        {"_id": "a4", "attempt": 4},
    ]
    expected = ["attempt 2 has the pod pod/2, but nobody claimed it"]
    assert owners(make_claim(2, 1), attempts=attempts) == expected


@pytest.mark.parametrize(
    ("by", "attempt", "is_own"),
    [
        ("user:me", 3, True),
        ("pod/1#a3", 3, True),
        ("pod#a1/1#a3", 3, True),
        ("pod/1#a1", 3, False),
        ("pod/1#a3", 33, False),
        ("pod#a3/1#a33", 3, False),
        ("pod/1#a", 3, False),
        ("#a3", 3, True),
    ],
)
def test_a_worker_decides_for_its_own_attempt_only(by: str, attempt: int, is_own: bool) -> None:
    decision = make_entry(7, "end: failed", "RUNNING", "FAILED", attempt=attempt, by=by)
    expected = [] if is_own else [f"decision 7 of attempt {attempt} was made by {by}"]
    assert found("actor-term", make_evidence(decisions=[decision], events=[]), Replayed()) == expected


def gaps(numbers: Sequence[int], revision: int) -> list[str]:
    decisions = [make_entry(n, "note", "QUEUED", "QUEUED") for n in numbers]
    evidence = make_evidence(run=make_run(revision=revision), decisions=decisions, events=[])
    return found("revision-gap", evidence, Replayed())


@pytest.mark.parametrize(
    ("numbers", "revision", "problems"),
    [
        ([1, 2, 3], 3, []),
        ([], 0, []),
        ([1, 2], 3, ["of 3 decisions the log lacks 3"]),
        ([2, 3], 3, ["of 3 decisions the log lacks 1"]),
        ([1, 4, 6], 9, ["of 9 decisions the log lacks 2–3, 5, 7–9"]),
        ([1, 2, 3, 4], 3, ["the run is at revision 3, the log goes on to 4"]),
        (
            [1, 4, 5, 7],
            3,
            ["of 3 decisions the log lacks 2–3", "the run is at revision 3, the log goes on to 4–5, 7"],
        ),
    ],
)
def test_decisions_are_numbered_without_a_gap_up_to_the_revision(
    numbers: list[int], revision: int, problems: list[str]
) -> None:
    assert gaps(numbers, revision) == problems


@given(missing=st.sets(st.integers(1, 12), min_size=1, max_size=12))
def test_numbers_are_told_as_ranges_that_name_each_of_them_once(missing: set[int]) -> None:
    (problem,) = gaps(sorted(set(range(1, 13)) - missing), 12)
    told: list[int] = []
    parts = problem.removeprefix("of 12 decisions the log lacks ").split(", ")
    for part in parts:
        first, _, last = part.partition("–")
        told += range(int(first), int(last or first) + 1)
    assert told == sorted(missing)
    assert len(parts) == sum(n - 1 not in missing for n in missing)


def test_decisions_that_wait_in_the_journal_leave_no_gap() -> None:
    run = make_run(journal=[journaled(END)])
    assert found("revision-gap", make_evidence(run=run, decisions=DECISIONS[:2])) == []


def sequence_gaps(
    events: Sequence[dict[str, Any]], *, cursor: int, attempt: int = 1, attempts: Sequence[Any] = ()
) -> list[str]:
    run = make_run(attempt=attempt, lastEventSeq=cursor)
    return found("sequence-gap", make_evidence(run=run, events=events, attempts=attempts), Replayed())


@pytest.mark.parametrize(
    ("held", "cursor", "gone"),
    [
        ([], 0, None),
        ([1, 2, 3], 3, None),
        ([1, 2, 3], 2, None),
        ([1, 3], 3, "2"),
        ([1, 3], 2, "2"),
        ([2, 3], 3, "1"),
        ([1, 2], 3, "3"),
        ([], 1, "1"),
        ([1, 3], 6, "2, 4–6"),
    ],
)
def test_what_was_applied_is_in_the_log(held: list[int], cursor: int, gone: str | None) -> None:
    expected = [] if gone is None else [f"attempt 1: events {gone} were applied and are not in the log"]
    assert sequence_gaps([make_event(n, at=NOW) for n in held], cursor=cursor) == expected


@pytest.mark.parametrize(("age", "is_late"), [(GAP_GRACE, False), (GAP_GRACE + TICK, True)])
def test_what_waits_behind_a_gap_waits_only_for_a_while(age: timedelta, is_late: bool) -> None:
    events = [make_event(1), make_event(4, at=NOW), make_event(6, at=NOW - age)]
    expected = (
        ["attempt 1: events 2–3, 5 never came, later ones wait behind them" + MENDED] if is_late else []
    )
    assert sequence_gaps(events, cursor=1) == expected


def test_only_what_stands_behind_the_first_gap_waits() -> None:
    events = [make_event(1), make_event(2, attempt=2), make_event(9), make_event(4, at=NOW)]
    assert sequence_gaps([events[0], events[3]], cursor=1) == []
    assert sequence_gaps([events[0], events[2]], cursor=1) == [
        "attempt 1: events 2–8 never came, later ones wait behind them" + MENDED
    ]
    assert sequence_gaps([events[1], events[3]], cursor=0) == [
        "attempt 2: events 1 never came, later ones wait behind them" + MENDED
    ]


@pytest.mark.parametrize(("stretch", "is_late"), [((1, 5, 9), True), ((1, 1, 3), False), ((2, 5, 9), False)])
def test_a_stretch_behind_a_gap_of_its_attempt_waits_only_for_a_while(
    stretch: tuple[int, int, int], is_late: bool
) -> None:
    """The event behind the gap came just now, the stretch an hour ago."""
    recent = make_event(6, at=NOW)
    quiet = [Quiet(*stretch, LONG_AGO, LONG_AGO)]
    evidence = make_evidence(events=[*EVENTS, recent], quiet=quiet)
    waits = [each for each in found("sequence-gap", evidence, Replayed()) if each.startswith("attempt 1")]
    assert bool(waits) == is_late


def test_a_log_can_lack_what_was_applied_and_what_was_not() -> None:
    events = [make_event(1), make_event(3), make_event(6)]
    assert sequence_gaps(events, cursor=3) == [
        "attempt 1: events 2 were applied and are not in the log",
        "attempt 1: events 4–5 never came, later ones wait behind them" + MENDED,
    ]


def test_each_attempt_has_a_cursor_of_its_own() -> None:
    attempts = [
        {"_id": "a3", "attempt": 3, "lastEventSeq": 4},
        {"_id": "a1", "attempt": 1, "lastEventSeq": 2},
        {"_id": "a2", "attempt": 2, "lastEventSeq": None},
    ]
    assert sequence_gaps([make_event(2, attempt=2)], cursor=3, attempt=3, attempts=attempts) == [
        "attempt 1: events 1–2 were applied and are not in the log",
        "attempt 2: events 1 never came, later ones wait behind them" + MENDED,
        "attempt 3: events 1–4 were applied and are not in the log",
    ]


@pytest.mark.parametrize("recorded", [None, 0, 2])
def test_the_run_and_the_record_of_its_attempt_share_the_further_cursor(recorded: int | None) -> None:
    attempts = [{"_id": "a1", "attempt": 1, "lastEventSeq": recorded}]
    expected = ["attempt 1: events 1–3 were applied and are not in the log"]
    assert sequence_gaps([], cursor=3, attempts=attempts) == expected


def test_a_decision_that_saw_what_the_log_lacks_is_a_gap() -> None:
    evidence = make_evidence(events=EVENTS[:2])
    assert found("sequence-gap", evidence) == [
        "decision 3 saw event 3, which the log does not reach",
        "attempt 1: events 3 were applied and are not in the log",
    ]


def test_an_attempt_that_nobody_recorded_has_applied_nothing() -> None:
    events = [*EVENTS, make_event(2, attempt=5)]
    evidence = make_evidence(events=events)
    assert found("sequence-gap", evidence, Replayed()) == [
        "attempt 5: events 1 never came, later ones wait behind them" + MENDED
    ]


def unapplied(event: dict[str, Any], *, cursor: int = 3, attempt: int = 1) -> list[str]:
    run = make_run(attempt=attempt, lastEventSeq=cursor)
    return found("not-applied", make_evidence(run=run, events=[*EVENTS, event]), Replayed())


@pytest.mark.parametrize(("age", "is_late"), [(GAP_GRACE, False), (GAP_GRACE + TICK, True)])
def test_what_has_no_gap_before_it_is_applied_in_a_while(age: timedelta, is_late: bool) -> None:
    expected = ["attempt 1: event 4 is in the log and was never applied"] if is_late else []
    assert unapplied(make_event(4, at=NOW - age)) == expected


def test_what_stands_behind_a_gap_or_in_another_attempt_is_not_late() -> None:
    assert unapplied(make_event(5)) == []
    assert unapplied(make_event(4, attempt=2)) == []
    assert unapplied(make_event(9), cursor=2) == ["attempt 1: event 3 is in the log and was never applied"]


def test_what_a_verdict_has_sealed_is_not_applied_any_more() -> None:
    sealed = make_run(sealed={"attempt": 1, "last": 3, "whole": True})
    evidence = make_evidence(run=sealed, events=[*EVENTS, make_event(4)])
    assert found("not-applied", evidence, Replayed()) == []
    assert len(found("not-applied", make_evidence(events=[*EVENTS, make_event(4)]), Replayed())) == 1


def test_a_run_that_nobody_has_claimed_applies_nothing() -> None:
    event = {**make_event(1), "attempt": 0}
    assert unapplied(event, attempt=0, cursor=0) == []


def after_end(last: int | None, numbers: Sequence[int], *, attempt: int = 1) -> list[str]:
    settled = None if last is None else {"outcome": "completed", "last": last}
    end = make_entry(3, "end: completed", "RUNNING", "COMPLETED", attempt=attempt, sets={"settled": settled})
    events = [make_event(n) for n in numbers]
    evidence = make_evidence(decisions=[SUBMIT, CLAIM, end], events=events)
    return found("event-after-end", evidence, Replayed())


@pytest.mark.parametrize(
    ("last", "numbers", "beyond"),
    [
        (3, [1, 2, 3], None),
        (3, [1, 2, 3, 4, 6], "4, 6"),
        (2, [2, 3], "3"),
        (1, [2], "2"),
        (0, [1, 2], "1–2"),
        (None, [1, 2], None),
    ],
)
def test_no_event_stands_behind_the_last_that_a_settle_named(
    last: int | None, numbers: list[int], beyond: str | None
) -> None:
    expected = [] if beyond is None else [f"attempt 1 settled at {last}, the log holds {beyond}"]
    assert after_end(last, numbers) == expected


def test_a_settle_speaks_of_its_own_attempt() -> None:
    assert after_end(1, [1, 2, 3], attempt=2) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"message": "x"}},
        {"data": {}},
        {"attempt": 2},
        {"sequence": 9},
        {"time": None},
        {"hash": "0"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_stored_event_is_what_was_taken_in(changed: dict[str, Any]) -> None:
    event = {**EVENTS[1], **changed}
    evidence = make_evidence(events=[EVENTS[0], event, EVENTS[2]])
    expected = [f"event {EVENTS[1]['_id']} is not what was taken in"]
    assert found("event-tampered", evidence, Replayed()) == expected


def test_an_event_without_a_digest_cannot_be_held_against_it() -> None:
    event = {**EVENTS[1], "data": {}, "hash": ""}
    bare = {name: value for name, value in event.items() if name != "hash"}
    assert found("event-tampered", make_evidence(events=[event, bare]), Replayed()) == []


@pytest.mark.parametrize(
    ("root", "is_found"), [(None, False), ("r", False), ("another", True)], ids=["none", "same", "another"]
)
def test_a_verdict_rests_on_the_lines_that_it_was_given_on(root: str | None, is_found: bool) -> None:
    run = make_run(sealed={"attempt": 1, "last": 3, "whole": True, "root": root})
    evidence = make_evidence(run=run, sealed_root="r")
    problem = (
        "events 1 to 3 of attempt 1 are not those that the verdict was given on: "
        f"their root is r, and was {root}"
    )
    assert found("seal-broken", evidence, Replayed()) == ([problem] if is_found else [])


@pytest.mark.parametrize(
    ("root", "applied", "is_found"),
    [(None, 3, False), ("r", 3, False), ("another", 2, False), ("another", 3, True)],
    ids=["none", "same", "not whole", "another"],
)
def test_a_whole_record_holds_the_lines_that_its_attempt_settled_with(
    root: str | None, applied: int, is_found: bool
) -> None:
    run = make_run(settled={"outcome": "completed", "last": 3, "root": root}, lastEventSeq=applied)
    evidence = make_evidence(run=run, settled_root="r")
    problem = (
        "events 1 to 3 of attempt 1 are not those that it settled with: their root is r, and was another"
    )
    assert found("settle-broken", evidence, Replayed()) == ([problem] if is_found else [])


@pytest.mark.parametrize(("age", "is_stuck"), [(JOURNAL_GRACE, False), (JOURNAL_GRACE + TICK, True)])
def test_a_decision_is_in_the_log_a_minute_later(age: timedelta, is_stuck: bool) -> None:
    at = NOW - age
    waits = make_entry(4, "note", "COMPLETED", "COMPLETED", at=at)
    run = make_run(journal=[journaled(END), journaled(waits)])
    problem = f"decision 4 (note) of {at:%H:%M:%S} is not in the log"
    assert found("journal-stuck", make_evidence(run=run), Replayed()) == ([problem] if is_stuck else [])


def leased(status: Status, until: datetime | None) -> list[str]:
    run = make_run(status=status, lease={"tokenHash": "hash", "until": until, "renewals": 2})
    return found("lease-leaked", make_evidence(run=run), Replayed())


@pytest.mark.parametrize("status", sorted(HELD))
def test_a_held_run_has_a_lease_that_somebody_renews_or_takes_back(status: Status) -> None:
    nobody = [f"the run is {status} without a lease: nobody can take it back"]
    assert leased(status, None) == nobody
    evidence = make_evidence(run=make_run(status=status, lease=None))
    assert found("lease-leaked", evidence, Replayed()) == nobody
    assert leased(status, NOW + timedelta(minutes=1)) == []
    assert leased(status, LONG_AGO) == [], "while nobody serves, however long, none is taken back"


GRACE_S: Final = WATCH_GRACE.total_seconds()
UNSEEN: Final = "control planes that look at leases have not seen it"
SERVED: Final = LEASE_TTL_S + GRACE_S + 1


@pytest.mark.parametrize(
    ("looked_s", "overdue", "why"),
    [
        (GRACE_S, None, None),
        (GRACE_S + 1, None, UNSEEN),
        (3_600.0, Overdue(1, 1, 0.0), UNSEEN),
        (3_600.0, Overdue(2, 2, 0.0), UNSEEN),
        (3_600.0, Overdue(1, 2, 1.0), None),
        (3_600.0, Overdue(1, 2, 0.0), "nobody took the run back in 61 s of served time"),
    ],
)
def test_a_lease_leaks_when_it_was_over_for_longer_than_served_time_allows(
    looked_s: float, overdue: Overdue | None, why: str | None
) -> None:
    run = make_run(status="RUNNING", lease={"tokenHash": "hash", "until": LONG_AGO, "renewals": 2})
    known = {} if overdue is None else {RUN_ID: overdue}
    watch = Watch(LONG_AGO + timedelta(seconds=looked_s), SERVED, known)
    evidence = replace(make_evidence(run=run), lease_watch=watch)
    problem = f"the lease of attempt 1 ended at {LONG_AGO:%H:%M:%S}, and {why}"
    assert found("lease-leaked", evidence, Replayed()) == ([problem] if why else [])


def test_a_record_whose_lost_lines_are_marked_is_not_the_one_that_its_attempt_settled_with() -> None:
    lost = [{"attempt": 1, "from": 2, "to": 2}]
    run = make_run(settled={"outcome": "completed", "last": 3, "root": "another"}, lostEvents=lost)
    assert found("settle-broken", make_evidence(run=run, settled_root="r"), Replayed()) == []
    assert log_incomplete(make_evidence(run=run)) == "events 2–2 of attempt 1 are marked as lost"
    lost[0]["attempt"] = 2
    assert found("settle-broken", make_evidence(run=run, settled_root="r"), Replayed()) != []


@pytest.mark.parametrize("status", sorted(set(Status) - HELD))
def test_a_run_that_nobody_holds_has_no_lease_that_runs(status: Status) -> None:
    assert leased(status, None) == []
    evidence = make_evidence(run=make_run(status=status, lease=None))
    assert found("lease-leaked", evidence, Replayed()) == []
    assert leased(status, LONG_AGO) == [f"the run is {status}, and its lease runs until 23:00:00"]


BUDGETS: Final = {
    "end: failed": "app",  # from before there was blame
    "rescue": "infra",
    "end: preempted": "preempted",
    "end: canceled": "preempted",
}
FAULTS: Final = {"run": "app", "pod": "infra", "outside": "outside"}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("cause", list(Cause))
def test_each_failure_is_charged_once_to_the_budget_of_its_cause(cause: Cause, times: int) -> None:
    decisions = [make_entry(n, cause.value, "RUNNING", "QUEUED") for n in range(times)]
    decisions.append(make_entry(8, "end: preempted", "RUNNING", "DELAYED"))  # other nodes are missing
    decisions.append(make_entry(9, cause.value, "CANCELING", "CANCELED"))  # nobody pays for a cancel
    must_charge(BUDGETS.get(cause), times, decisions)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("cause", ["end: failed", "rescue"])
def test_a_failure_is_charged_to_whose_fault_it_was(cause: str, fault: str) -> None:
    blamed = replace(make_entry(1, cause, "RUNNING", "QUEUED"), sets={"error": {"fault": fault}})
    must_charge(FAULTS[fault], 1, [blamed])


def must_charge(budget: str | None, times: int, decisions: list[Entry]) -> None:
    """Hold what `decisions` charge against a run that stores it, and one that stores more."""
    charged = {name: times if budget == name else 0 for name in NOTHING_CHARGED}
    wrong = {**charged, "app": charged["app"] + 1}
    right = make_evidence(run=make_run(failures=charged), decisions=decisions, events=[])
    assert found("wrong-budget", right, Replayed()) == []
    other = make_evidence(run=make_run(failures=wrong), decisions=decisions, events=[])
    told = {name: count for name, count in charged.items() if count}
    assert found("wrong-budget", other, Replayed()) == [f"the log charges {told}, stored is {wrong}"]


@pytest.mark.parametrize(
    ("group", "collection"),
    [
        ("attempts", "attempts"),
        ("stages", "stages"),
        ("artifacts", "artifacts"),
        ("validations", "validations"),
        ("of_kinds", "ideas"),
        ("dead_letters", "dead_letters"),
    ],
)
def test_a_field_of_nobody_is_found_in_every_collection(group: str, collection: str) -> None:
    document = {"_id": "x", "attempt": 1, "shape": "round", "color": "blue"}
    documents = [{"_id": "y", "attempt": 1}, document]
    evidence = make_evidence(**{group: {collection: documents} if group == "of_kinds" else documents})
    expected = [f"{collection} x: nobody writes color, shape"]
    assert found("field-without-writer", evidence, Replayed()) == expected


@pytest.mark.parametrize("collection", ["runs", "ideation_requests"])
def test_a_field_of_nobody_is_found_in_a_run_and_in_its_log(collection: str) -> None:
    evidence = make_evidence(run=make_run(color="blue"), events=[{**EVENTS[0], "color": "red"}])
    parts = {name: getattr(evidence, name) for name in Evidence.__dataclass_fields__}
    assert found("field-without-writer", Evidence(**{**parts, "collection": collection}), Replayed()) == [
        f"{collection} {RUN_ID}: nobody writes color",
        f"events {EVENTS[0]['_id']}: nobody writes color",
    ]


def test_an_artifacts_object_lies_below_its_own_attempt() -> None:
    def artifact(key: Any) -> dict[str, Any]:
        return {"_id": key, "runId": RUN_ID, "attempt": 1, "name": "model.pt", "key": key}

    keys = [f"runs/{RUN_ID}/a1/model.pt", f"runs/{RUN_ID}/a11/model.pt", f"runs/{RUN_ID}/a1", None]
    evidence = make_evidence(artifacts=[artifact(key) for key in keys])
    assert found("artifact-foreign", evidence, Replayed()) == [
        f"artifact model.pt of attempt 1 lies at {key}" for key in keys[1:]
    ]


def test_a_line_was_refused_for_a_reason_that_holds() -> None:
    line = make_line(RunLog(message="hello"), sequence=3, run_id=RUN_ID, attempt=1).decode()
    letters = [
        {"_id": "L1", "code": "bad_json", "line": "{", "attempt": 1},
        {"_id": "L2", "code": "bad_json", "line": line, "attempt": 1},
    ]
    expected = ["dead letter L2 (bad_json): the line can be read"]
    assert found("wrong-refusal", make_evidence(dead_letters=letters), Replayed()) == expected


def test_what_a_lost_disk_took_is_a_note() -> None:
    assert log_incomplete(make_evidence()) is None
    run = make_run(logIncomplete={"from": 4, "to": 9})
    assert log_incomplete(make_evidence(run=run)) == "incomplete, events 4–9 are missing"
