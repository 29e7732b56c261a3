"""Each invariant by itself: evidence of a fleet where all is well, broken in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_plane.model.run import Entry
from control_plane.verify.verifier import Finding
from events.queue.requirements import class_key, read_requirements
from testing.chaos.checking.checker import check
from testing.chaos.checking.evidence import Evidence, OutboxLeft, StoredEvent, StoredObject
from testing.chaos.checking.invariants import artifacts, audit, groups, log, options, owners, results, runs
from testing.chaos.records.journal import Line
from testing.chaos.records.ledger import Given

RUN = "01K1"
POD = "pod-1/boot"
KEY = f"runs/{RUN}/a1/abc/probe.bin"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TTL_S = 6.0


def entry(n: int, cause: str, came_from: str | None, to: str, by: str, term: int, **sets: Any) -> Entry:
    return Entry(n, cause, by, NOW, came_from, to, term, 0, sets)


def line(at_s: float, what: str, phase: Any = "note", call: int = 0, **data: Any) -> Line:
    is_of_run = (what not in ("begun", "beat", "died") and phase != "invoke") or what == "settle"
    run, attempt = (RUN, 1) if is_of_run else (None, None)
    return Line(at_s, at_s, "pod-1", what, phase, call, run, attempt, data)


def healthy() -> Evidence:
    """One run, claimed, completed and settled by one worker, with three events and one file."""
    run = {
        "_id": RUN, "status": "COMPLETED", "revision": 3, "attempt": 1, "lastEventSeq": 3, "journal": [],
        "lease": {"tokenHash": "x", "until": None, "renewals": 1}, "claimedBy": POD, "logOpen": False,
        "failures": {"app": 0, "infra": 0, "preempted": 0, "outside": 0}, "logIncomplete": None,
        "settled": {"outcome": "completed", "last": 3}, "idempotency": {"key": "k1"},
    }  # fmt: skip
    decisions = [
        entry(1, "submit", None, "QUEUED", "user", 0),
        entry(2, "claim", "QUEUED", "SCHEDULED", POD, 0, attempt=1),
        entry(3, "end: completed", "RUNNING", "COMPLETED", f"{POD}#a1", 1, settled={"last": 3}),
    ]
    lines = [
        Line(0.0, 0.0, "user", "submit", "ok", 1, RUN, None, {"key": "k1"}),
        line(1.0, "begun", rate=1.0),
        line(1.5, "claim", "invoke", 1, token="t1", pod=POD, ttl_s=TTL_S),
        line(1.6, "claim", "ok", 1),
        line(1.7, "child started"),
        line(2.0, "child ended"),
        line(2.1, "settle", "invoke", 2, outcome="completed", last=3),
        line(2.2, "settle", "ok", 2),
    ]
    return Evidence(
        runs={RUN: run},
        attempts={f"{RUN}/a1": {"lastEventSeq": 3}},
        decisions={RUN: decisions},
        events=[StoredEvent(RUN, 1, n, f"e{n}", "ai.run.log", NOW, NOW) for n in (1, 2, 3)],
        artifacts=[{"runId": RUN, "attempt": 1, "key": KEY, "size": 4, "sha256": "cafe"}],
        objects={KEY: StoredObject(4, "cafe")},
        lines=lines,
        outboxes=[OutboxLeft("pod-1", False, [Given(RUN, 1, n, f"e{n}", "t", False) for n in (1, 2, 3)], [])],
    )


MEMBER = {"kind": "probe", "groupId": "sweep", "parentRunId": None, "createdAt": NOW, "labels": {}}
GROUP = {
    "_id": "sweep", "status": "COMPLETED", "first": 0, "next": 1, "counts": {"succeeded": 1, "failed": 0},
    "journal": [{"n": 2, "action": "close", "at": NOW + timedelta(seconds=9)}],
}  # fmt: skip


def with_group(*more: dict[str, Any], **fields: Any) -> Evidence:
    """A group of one slot, whose run is that of `healthy`; `more` runs are copies of it with other fields."""
    good = healthy()
    first = {**good.runs[RUN], **MEMBER, "slot": 0}
    others = {each["_id"]: {**first, **each} for each in more}
    made = Line(0.1, 0.1, "group-user", "group", "ok", 1, None, None, {"group": "sweep"})
    return replace(
        good,
        runs={RUN: first, **others},
        decisions=dict.fromkeys((RUN, *others), good.decisions[RUN]),
        groups={"sweep": {**GROUP, **fields}},
        lines=[made, *good.lines],
    )


def with_rows(*keys: str, declared: int = 2) -> Evidence:
    rows = [{"runId": RUN, "attempt": 1, "key": key} for key in keys]
    return replace(healthy(), rows=rows, specs={RUN: {"results": declared}})


def asking(class_key: str, *more: Line) -> Evidence:
    """The run waited in this class, and was claimed by a pod of rack r1."""
    good = healthy()
    first = replace(good.decisions[RUN][0], sets={"classKey": class_key})
    decisions = {RUN: [first, *good.decisions[RUN][1:]]}
    changed = {RUN: {**good.runs[RUN], "labels": {}}}
    lines = [*more, *good.lines]
    return replace(good, runs=changed, decisions=decisions, labels={POD: {"rack": "r1"}}, lines=lines)


def with_run(**fields: Any) -> Evidence:
    good = healthy()
    return replace(good, runs={RUN: {**good.runs[RUN], **fields}})


def with_decisions(*more: Entry) -> Evidence:
    good = healthy()
    decisions = [*good.decisions[RUN], *more]
    return replace(
        good, decisions={RUN: decisions}, runs={RUN: {**good.runs[RUN], "revision": len(decisions)}}
    )


def with_lines(*more: Line) -> Evidence:
    good = healthy()
    return replace(good, lines=sorted([*good.lines, *more], key=lambda each: each.at_s))


def without_event(sequence: int, *, disk_is_lost: bool = False) -> Evidence:
    good = healthy()
    waiting = [(RUN, 1, sequence)] if disk_is_lost else []
    return replace(
        good,
        events=[event for event in good.events if event.sequence != sequence],
        outboxes=[replace(good.outboxes[0], is_lost=disk_is_lost, waiting=waiting)],
        runs={RUN: {**good.runs[RUN], "lastEventSeq": 2, "logIncomplete": {"from": 3, "to": 3}}},
        attempts={f"{RUN}/a1": {"lastEventSeq": 2}},
    )


def with_moments(off: timedelta) -> Evidence:
    good = healthy()
    return replace(good, events=[replace(each, said_at=NOW + off, received_at=NOW) for each in good.events])


def as_second_owner(at_s: float) -> list[Line]:
    return [
        replace_actor(line(at_s, "begun", rate=1.0)),
        replace_actor(line(at_s, "claim", "invoke", 1, token="t2", pod="pod-2/boot", ttl_s=TTL_S)),
        replace_actor(line(at_s + 0.1, "claim", "ok", 1)),
        replace_actor(line(at_s + 0.2, "beat")),
    ]


def replace_actor(one: Line) -> Line:
    attempt = None if one.attempt is None else 2
    return Line(one.at_s, one.wall_s, "pod-2", one.what, one.phase, one.call, one.run, attempt, one.data)


def test_a_healthy_fleet_is_green() -> None:
    assert check(healthy()) == []


@pytest.mark.parametrize(
    ("key", "is_test"),
    [
        (".podfleet/uploads/0042", True),
        (".podfleet/trial", True),
        (".podfleet/signing", True),
        (".podfleet/uploads/x", False),
    ],
)
def test_the_objects_by_which_the_storage_is_tested_are_of_no_attempt(key: str, is_test: bool) -> None:
    good = healthy()
    assert good.objects is not None
    other = next(iter(good.objects.values()))
    found = check(replace(good, objects={**good.objects, key: other}))
    assert [each.invariant for each in found] == ([] if is_test else [artifacts.OWN_PLACE])


OWN, OF_POD = {"fault": "run"}, {"fault": "pod"}


def as_failed(*asked: str) -> Evidence:
    """The run's attempt failed, after its worker asked for these ends, one after the other."""
    good = healthy()
    settles = [line(2.1 + at, "settle", "invoke", 2, outcome=outcome) for at, outcome in enumerate(asked)]
    return replace(
        good,
        runs={RUN: {**good.runs[RUN], "failures": {"app": 1, "infra": 0, "preempted": 0}}},
        decisions={
            RUN: [*good.decisions[RUN][:2], entry(3, "end: failed", "RUNNING", "FAILED", POD, 1, error=OWN)]
        },
        lines=[*good.lines[:-2], *settles],
    )


def test_a_preemption_is_not_charged_but_a_failure_after_one_that_was_never_made_is() -> None:
    assert list(runs.budgets(as_failed("failed"))) == []
    assert list(runs.budgets(as_failed("preempted", "failed"))) == []
    assert [each.invariant for each in runs.budgets(as_failed("failed", "preempted"))] == [runs.CHARGED]


BROKEN: dict[str, tuple[Callable[[], Evidence], str]] = {
    "a run that never ended": (lambda: with_run(status="RUNNING"), runs.FINAL_STATUS),
    "a final status that changed": (
        lambda: with_decisions(entry(4, "cancel", "COMPLETED", "CANCELED", "user", 1)),
        runs.FINAL_STATUS,
    ),
    "two decisions that end a run": (
        lambda: with_decisions(entry(4, "end: failed", "RUNNING", "FAILED", f"{POD}#a1", 1, error=OWN)),
        runs.FINAL_STATUS,
    ),
    "an attempt that ended twice": (
        lambda: with_decisions(entry(4, "rescue", "RUNNING", "QUEUED", "rescuer", 1, error=OF_POD)),
        runs.CHARGED,
    ),
    "a budget that was charged without a decision": (
        lambda: with_run(failures={"app": 1, "infra": 0, "preempted": 0}),
        runs.CHARGED,
    ),
    "a submission that is gone": (
        lambda: with_lines(Line(0.1, 0.1, "user", "submit", "ok", 2, "01K2", None, {"key": "k2"})),
        runs.SUBMISSION,
    ),
    "a cancel that did not hold": (
        lambda: with_lines(Line(0.1, 0.1, "user", "cancel", "ok", 2, RUN, None, {"status": "CANCELING"})),
        runs.CANCEL,
    ),
    "a lease that runs on": (lambda: with_run(lease={"until": NOW}), runs.LEASED),
    "a journal that was not swept": (lambda: with_run(journal=[{"n": 3}]), runs.SWEPT),
    "a decision that is not in the log": (lambda: with_run(revision=4), runs.GAPLESS),
    "an event that was lost": (lambda: without_event(3), log.STORED),
    "an event in the middle that a lost disk does not excuse": (
        lambda: without_event(2, disk_is_lost=True),
        log.STORED,
    ),
    "an event that nobody said": (
        lambda: replace(healthy(), events=[*healthy().events, StoredEvent(RUN, 1, 4, "e4", "ai.run.log")]),
        log.STORED,
    ),
    "an event under two positions": (
        lambda: replace(
            healthy(), events=[*healthy().events[:2], StoredEvent(RUN, 1, 3, "e1", "ai.run.log")]
        ),
        log.STORED,
    ),
    "a run's cursor that lags": (lambda: with_run(lastEventSeq=2), log.APPLIED),
    "an attempt's cursor that lags": (
        lambda: replace(healthy(), attempts={f"{RUN}/a1": {"lastEventSeq": 2}}),
        log.APPLIED,
    ),
    "an outbox that is not empty": (
        lambda: replace(healthy(), outboxes=[replace(healthy().outboxes[0], waiting=[(RUN, 1, 3)])]),
        log.DELIVERED,
    ),
    "a refusal": (
        lambda: replace(healthy(), dead_letters=[{"runId": RUN, "code": "conflict", "message": "taken"}]),
        log.REFUSED,
    ),
    "a log that stays open": (lambda: with_run(logOpen=True), log.COMPLETE),
    "a mark without a lost disk": (lambda: with_run(logIncomplete={"from": 4, "to": 4}), log.COMPLETE),
    "a short log without a mark": (lambda: with_run(settled={"last": 9}), log.COMPLETE),
    "a replay that differs": (
        lambda: replace(healthy(), findings=[Finding(RUN, "stages: progress")]),
        audit.REPLAYED,
    ),
    "a finding of the product's own audit": (
        lambda: replace(healthy(), findings=[Finding(RUN, "twice", "duplicate-token")]),
        audit.VERIFIED,
    ),
    "two owners at once": (lambda: with_lines(*as_second_owner(1.8)), owners.OWNER),
    "a claim that is not in the log": (lambda: with_lines(*as_second_owner(9.0)), owners.CLAIM),
    "a claim that nobody made": (
        lambda: with_decisions(entry(4, "claim", "QUEUED", "SCHEDULED", "pod-9/x", 1, attempt=2)),
        owners.CLAIM,
    ),
    "a settlement that is not in the log": (
        lambda: with_lines(Line(3.0, 3.0, "pod-1", "settle", "ok", 9, RUN, 2, {})),
        owners.SETTLE,
    ),
    "a fenced worker's write": (
        lambda: with_decisions(entry(4, "settled", "COMPLETED", "COMPLETED", f"{POD}#a1", 2)),
        owners.FENCED,
    ),
    "a worker that died": (lambda: with_lines(line(3.0, "died", error="OSError: no room")), owners.ALIVE),
    "an artifact that is missing": (lambda: replace(healthy(), objects={}), artifacts.PRESENT),
    "an artifact with another hash": (
        lambda: replace(healthy(), objects={KEY: StoredObject(4, "beef")}),
        artifacts.PRESENT,
    ),
    "an event of an hour later": (lambda: with_moments(timedelta(hours=1)), log.TIMED),
    "an event of an hour before its run": (lambda: with_moments(timedelta(hours=-1)), log.TIMED),
    "a group that is gone": (lambda: replace(with_group(), groups={}), groups.MADE),
    "a group that never closed": (lambda: with_group(status="OPEN"), groups.MADE),
    "two runs in a slot": (lambda: with_group({"_id": "01K2"}), groups.SLOT),
    "two retries of a member": (
        lambda: with_group({"_id": "01K2", "parentRunId": RUN}, {"_id": "01K3", "parentRunId": RUN}),
        groups.SLOT,
    ),
    "a slot that nobody decided": (lambda: with_group({"_id": "01K2", "slot": 1}), groups.SLOT),
    "a slot without a run": (lambda: with_group(next=2), groups.SLOT),
    "counters that nobody updated": (lambda: with_group(counts={"running": 1}), groups.COUNTERS),
    "a run of a group that had closed": (
        lambda: with_group({"_id": "01K2", "slot": 1, "createdAt": NOW + timedelta(seconds=10)}, next=2),
        groups.NOTHING_NEW,
    ),
    "a cancel of a group that did not hold": (
        lambda: replace(
            with_group(),
            lines=[Line(0.1, 0.1, "u", "cancel group", "ok", 1, None, None, {"group": "sweep"})],
        ),
        groups.GROUP_CANCEL,
    ),
    "a change that is lost": (
        lambda: asking("probe/cpu/any", Line(0.1, 0.1, "user", "change", "ok", 1, RUN, None, {"label": "c"})),
        options.CHANGED,
    ),
    "a claim of a run that is pinned elsewhere": (
        lambda: asking("~pod-2/probe/cpu/any"),
        options.ASKED_FOR,
    ),
    "a claim by a pod without the label": (
        lambda: asking(class_key("probe", read_requirements({"labels": {"rack": "r0"}}))),
        options.ASKED_FOR,
    ),
    "a row that is doubled": (lambda: with_rows("row-000000", "row-000001", "row-000001"), results.ROWS),
    "a row that nobody declared": (lambda: with_rows("row-000000", "row-000001", "row-000002"), results.ROWS),
    "a row that is missing": (lambda: with_rows("row-000000"), results.ROWS),
    "a row of no attempt": (
        lambda: replace(with_rows(declared=0), rows=[{"runId": RUN, "attempt": 2, "key": "row-000000"}]),
        results.ROWS,
    ),
    "an object in nobody's place": (
        lambda: replace(
            healthy(), objects={**(healthy().objects or {}), f"runs/{RUN}/a2/x/y": StoredObject(1, None)}
        ),
        artifacts.OWN_PLACE,
    ),
}


@pytest.mark.parametrize(
    "good",
    [
        with_group(),
        with_group({"_id": "01K2", "parentRunId": RUN, "createdAt": NOW + timedelta(hours=1)}),
        with_rows("row-000000", "row-000001"),
        asking("~pod-1/probe/cpu/any"),
        asking(class_key("probe", read_requirements({"labels": {"rack": "r1"}}))),
    ],
)
def test_groups_rows_and_options_that_are_as_they_should_be_are_blamed_for_nothing(good: Evidence) -> None:
    of_these = (groups, options, results)
    laws = [value for module in of_these for name, value in vars(module).items() if name.isupper()]
    assert [each for each in check(good) if each.invariant in laws] == []


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_named(broken: str) -> None:
    evidence, invariant = BROKEN[broken]
    assert invariant in {violation.invariant for violation in check(evidence())}


def test_a_lost_disk_excuses_its_own_tail() -> None:
    assert check(without_event(3, disk_is_lost=True)) == []


def test_a_child_that_runs_on_without_trust_is_seen_while_its_parent_is_awake() -> None:
    awake = [line(7.0 + beat / 4, "beat") for beat in range(12)]
    unsettled = [each for each in healthy().lines if each.at_s < 2.0]
    late = replace(healthy(), lines=[*unsettled, *awake])
    assert owners.SUSPENDED in {violation.invariant for violation in check(late)}


def test_a_claim_whose_answer_came_after_its_trust_made_nobody_an_owner() -> None:
    frozen_from_the_question = [
        replace_actor(line(1.0, "begun", rate=1.0)),
        replace_actor(line(1.1, "claim", "invoke", 1, token="t2", pod="pod-2/boot", ttl_s=0.5)),
        replace_actor(line(1.8, "claim", "ok", 1)),
    ]
    found = check(with_lines(*frozen_from_the_question))
    assert owners.OWNER not in {violation.invariant for violation in found}


def test_a_frozen_worker_is_not_blamed_for_what_it_could_not_do() -> None:
    frozen = [line(7.0, "beat"), line(20.0, "beat"), line(20.1, "child suspended")]
    unsettled = [each for each in healthy().lines if each.at_s < 2.0]
    found = check(replace(healthy(), lines=[*unsettled, *frozen]))
    assert owners.SUSPENDED not in {violation.invariant for violation in found}
