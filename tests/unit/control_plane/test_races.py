"""Races: who is waited for, when they start, and what is said of each lane."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from control_plane.model.groups.members import Members
from control_plane.model.groups.races.race import (
    LANES_MAX,
    LATE_S,
    LEAD_MAX_S,
    LEAD_MIN_S,
    Entrant,
    Race,
    is_over,
    next_start,
    race_of,
    skew_s,
    state_of,
)
from control_plane.runs.groups.members import submission
from control_plane.runs.submission import check, snapshot
from control_plane.server.api.contract.group_bodies import NewGroup, posted
from control_plane.store.queue.races import entrant_of
from events.lifecycle import FINAL, HELD, Status
from events.runtime.errors import Rejected
from podfleet.commands.groups.race import lanes_of
from podfleet.parameters import Unreadable

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AGO = NOW - timedelta(seconds=10)
S = Status
LANES: list[dict[str, Any]] = [{"pod": "a", "parameters": {"seconds": 2}}, {"pod": "b"}]
PLAN: dict[str, Any] = {"kind": "race", "lanes": LANES, "ready_s": 30.0, "limit_s": 60.0}
RACE = race_of(PLAN)

statuses = st.sampled_from(list(Status))
moments = st.one_of(st.none(), st.integers(-100, 100).map(lambda each: NOW + timedelta(seconds=each)))


def entrant(slot: int = 0, status: Status = S.RUNNING, **fields: Any) -> Entrant:
    return Entrant(**{"slot": slot, "run_id": f"r{slot}", "status": status, "created_at": AGO, **fields})


def ready(slot: int = 0, **fields: Any) -> Entrant:
    return entrant(slot, **{"ready_at": AGO, **fields})


entrants = st.lists(
    st.builds(
        entrant,
        st.integers(0, 15),
        statuses,
        ready_at=moments,
        started_at=moments,
        start_at=moments,
        hears_s=st.floats(0, 1e9),
        late_s=st.floats(-10, 1e9),
        ready_late_s=st.floats(0, 1e9),
    ),
    min_size=1,
    max_size=16,
)


def test_a_race_has_a_slot_for_each_lane_and_submits_all_at_once() -> None:
    assert (RACE.slots, RACE.parallel, RACE.names) == (2, 2, ["seconds"])
    assert [RACE.values(0), RACE.values(1)] == list(RACE.examples()) == [{"seconds": 2}, {}]
    assert RACE.stopped(Members(failed=1)) is None


@pytest.mark.parametrize(
    ("lanes", "word"),
    [
        (LANES[:1], "2 to 16"),
        ([{"pod": f"p{number}"} for number in range(LANES_MAX + 1)], "not 17"),
        ([{"pod": "a"}, {"pod": "a"}], "'a' has two"),
    ],
)
def test_a_race_that_cannot_be_run_is_refused(lanes: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(Rejected, match=word):
        race_of({**PLAN, "lanes": lanes})


@pytest.mark.parametrize(
    "lie",
    [
        {"lanes": [{"pod": "a"}]},
        {"lanes": [{"pod": "a/b"}, {"pod": "c"}]},
        {"lanes": [{"pod": "x" * 201}, {"pod": "c"}]},
        {"lanes": [{"pod": "a", "parameters": {"$where": 1}}, {"pod": "b"}]},
        {"lanes": [{"pod": "a", "unknown": 1}, {"pod": "b"}]},
        {"ready_s": 0},
        {"ready_s": float("nan")},
        {"limit_s": 1e12},
        {"parallel": 2},
    ],
)
def test_a_body_that_lies_is_refused(lie: dict[str, Any]) -> None:
    body = {"id": "g", "run": {"kind": "probe", "spec": {}}, "plan": {**PLAN, **lie}}
    with pytest.raises(ValidationError):
        NewGroup.model_validate(body)


def test_a_body_is_kept_with_its_defaults() -> None:
    plan = {"kind": "race", "lanes": LANES}
    body = NewGroup.model_validate({"id": "g", "run": {"kind": "probe", "spec": {}}, "plan": plan})
    assert posted(body.plan) == {**plan, "ready_s": 60.0, "limit_s": 86_400.0}


def test_a_lane_is_pinned_and_waits_for_the_others_and_other_slots_do_not() -> None:
    group = {"_id": "g", "run": {"kind": "probe", "spec": {"events": 1}, "requires": {"gpu_gib": 8}}}
    lane = submission(group, 3, {"seconds": 2}, pod="a")
    assert (lane.requires, lane.spec) == ({"gpu_gib": 8, "pod": "a"}, {"events": 1, "seconds": 2})
    assert check(lane).requires.pod == "a"
    assert snapshot("r", lane)["barrier"] is True
    assert "barrier" not in snapshot("r", submission(group, 3, {}))


def test_the_start_is_decided_when_every_lane_that_may_come_is_ready() -> None:
    start = next_start(RACE, [ready(0), ready(1)], NOW)
    assert start is not None
    assert (start.lead_s, start.missing, start.reason) == (LEAD_MIN_S, (), "2 of 2 lanes are ready")
    assert next_start(RACE, [ready(0), entrant(1)], NOW) is None
    assert next_start(RACE, [ready(0), entrant(1, S.QUEUED)], NOW) is None


def test_what_was_ready_before_its_pod_was_lost_is_ready_no_more() -> None:
    assert next_start(RACE, [ready(0), ready(1, status=S.QUEUED)], NOW) is None


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_lane_that_ended_holds_nobody(status: Status) -> None:
    start = next_start(RACE, [ready(0), entrant(1, status)], NOW)
    assert start is not None
    assert (start.missing, start.reason) == ((), "1 of 2 lanes are ready, 1 ended before")
    assert next_start(RACE, [entrant(0, status), entrant(1, status)], NOW) is None


def test_nobody_is_waited_for_beyond_the_deadline() -> None:
    over = AGO + timedelta(seconds=RACE.ready_s)
    start = next_start(RACE, [ready(0), entrant(1, S.QUEUED)], over)
    assert start is not None
    assert (start.missing, start.reason) == ((1,), "1 of 2 lanes are ready; 30 s are over")
    assert next_start(RACE, [ready(0), entrant(1)], over - timedelta(seconds=1)) is None
    assert next_start(RACE, [entrant(0), entrant(1)], over) is not None


def test_the_lead_follows_from_what_the_lanes_measured_within_bounds() -> None:
    leads = [next_start(RACE, [ready(0), ready(1, hears_s=each)], NOW) for each in (0.1, 0.8, 1e9)]
    assert [each and each.lead_s for each in leads] == [LEAD_MIN_S, 1.6, LEAD_MAX_S]


@given(entrants, st.integers(0, 200))
def test_a_start_is_decided_for_running_lanes_only_and_never_later_than_the_deadline(
    lanes: list[Entrant], seconds: int
) -> None:
    now = AGO + timedelta(seconds=seconds)
    start = next_start(RACE, lanes, now)
    running = [each for each in lanes if not each.has_ended]
    if start is None:
        assert not running or seconds < RACE.ready_s
    else:
        assert running
        assert LEAD_MIN_S <= start.lead_s <= LEAD_MAX_S
        assert all(each.is_ready for each in running if each.slot not in start.missing)


@given(entrants, moments)
def test_a_lane_stands_somewhere_and_is_dead_only_where_nothing_runs(
    lanes: list[Entrant], start_at: datetime | None
) -> None:
    for each in lanes:
        state = state_of(each, start_at, NOW)
        assert state != "dead" or each.status not in HELD
        assert state not in ("started", "late") or each.started_at is not None or start_at is not None


@pytest.mark.parametrize(
    ("lane", "start_at", "state"),
    [
        (None, None, "waiting"),
        (entrant(status=S.QUEUED), None, "waiting"),
        (entrant(status=S.SCHEDULED), None, "preparing"),
        (ready(), None, "ready"),
        (ready(), NOW, "ready"),
        (entrant(), NOW, "late"),
        (entrant(status=S.QUEUED), NOW, "dead"),
        (entrant(status=S.FAILED), None, "dead"),
        (entrant(status=S.FAILED, log_open=True), NOW, "preparing"),
        (ready(status=S.COMPLETED, log_open=True), NOW, "ready"),
        (entrant(status=S.COMPLETED, started_at=NOW), NOW, "started"),
        (entrant(started_at=NOW, late_s=LATE_S), NOW, "late"),
        (entrant(started_at=NOW, ready_late_s=0.001), NOW, "late"),
        (entrant(status=S.QUEUED, started_at=NOW), NOW, "dead"),
        (entrant(status=S.CANCELED, started_at=NOW), NOW, "started"),
        (entrant(status=S.CANCELED, started_at=NOW, is_left=True, log_open=True), NOW, "dead"),
    ],
)
def test_a_lane_is_said_to_stand_where_it_does(
    lane: Entrant | None, start_at: datetime | None, state: str
) -> None:
    assert state_of(lane, start_at, NOW) == state


def test_the_skew_is_that_of_the_lanes_that_were_in_time() -> None:
    started = [ready(number, started_at=NOW, late_s=0.001 * number) for number in range(3)]
    late = ready(3, started_at=NOW, late_s=5.0)
    assert skew_s([*started, late, entrant(4)]) == pytest.approx(0.002)
    assert skew_s([started[0], late]) is None


def test_a_race_is_over_a_limit_after_its_start() -> None:
    race = Race(lanes=RACE.lanes, ready_s=1, limit_s=60)
    assert not is_over(race, NOW, NOW + timedelta(seconds=59))
    assert is_over(race, NOW, NOW + timedelta(seconds=60))


def test_the_command_line_reads_lanes() -> None:
    assert lanes_of("a, b", ["a:seconds=3", "a:x=1.5"]) == [
        {"pod": "a", "parameters": {"seconds": 3, "x": 1.5}},
        {"pod": "b"},
    ]
    for wrong in ("c:seconds=3", "a:seconds", "seconds=3"):
        with pytest.raises(Unreadable, match="POD:KEY=VALUE"):
            lanes_of("a,b", [wrong])
    with pytest.raises(Unreadable, match="'b/zSOx4G' is a worker: its pod is 'b'"):
        lanes_of("a,b/zSOx4G", [])


@pytest.mark.parametrize(("claimed_by", "is_left"), [(None, True), ("alpha/boot", False)])
def test_a_lane_is_left_where_it_was_canceled_while_it_waited(claimed_by: str | None, is_left: bool) -> None:
    stored = {
        "_id": "R1", "slot": 0, "status": "CANCELED", "attempt": 1, "createdAt": NOW, "claimedBy": claimed_by,
        "settled": {"outcome": "failed"},
    }  # fmt: skip
    assert entrant_of(stored, {}).is_left is is_left
