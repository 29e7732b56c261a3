"""What a group does next, which rows a matrix has, and what its slots submit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.model.groups.matrix import SLOTS_MAX, matrix_of
from control_plane.model.groups.members import COUNTED_AS, COUNTS, Members, counted, member_id
from control_plane.model.groups.parameters import assigned
from control_plane.model.groups.plan import (
    BATCH_MAX,
    Close,
    Group,
    Submit,
    Wait,
    next_slots,
    plan_of,
    require_budget,
)
from control_plane.model.groups.status import ACTIVE, CLOSED, TRANSITIONS, Action, GroupStatus, usual
from control_plane.runs.groups.members import submission
from control_plane.runs.submission import check
from events.kinds.declaring.spec import value_at
from events.lifecycle import FINAL, Status
from events.runtime.errors import Conflict, Rejected

S = GroupStatus
SINCE = datetime(2026, 11, 21, tzinfo=UTC)
COUNT = st.integers(0, 40)


def make_group(
    status: GroupStatus = S.OPEN,
    *,
    next: int = 0,
    first: int = 0,
    member_usd: float | None = None,
    **plan: Any,
) -> Group:
    matrix = matrix_of({"values": {"seconds": [1, 2, 3], "events": [1, 2]}, "parallel": 4, **plan})
    return Group(
        id="g",
        status=status,
        plan=matrix,
        first=first,
        next=next,
        filled=next,
        since=SINCE,
        is_canceled=False,
        member_usd=member_usd,
    )


def test_the_slots_of_a_matrix_are_the_product_of_its_values_the_last_fastest() -> None:
    matrix = matrix_of({"values": {"a": [1, 2], "b.c": ["x", "y", "z"]}, "parallel": 1})
    rows = [matrix.values(slot) for slot in range(matrix.slots)]
    assert rows == [{"a": a, "b.c": c} for a in (1, 2) for c in ("x", "y", "z")]
    assert matrix.names == ["a", "b.c"]


def test_rows_are_slots_as_they_stand() -> None:
    matrix = matrix_of({"rows": [{"a": 1}, {"b": 2, "a": 3}], "parallel": 1})
    assert [matrix.slots, matrix.values(1), matrix.names] == [2, {"b": 2, "a": 3}, ["a", "b"]]


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        ({}, "give one of them"),
        ({"values": {"a": [1]}, "rows": [{"a": 1}]}, "give one of them"),
        ({"values": {"a": [1], "b": []}}, "'b' has no value"),
        ({"values": {"a": list(range(101)), "b": list(range(100))}}, "10,100 slots"),
    ],
)
def test_a_matrix_without_slots_or_with_too_many_is_refused(plan: dict[str, Any], word: str) -> None:
    with pytest.raises(Rejected, match=word):
        matrix_of({**plan, "parallel": 1})


def test_the_largest_matrix_is_taken() -> None:
    assert matrix_of({"values": {"a": [*range(100)], "b": [*range(100)]}, "parallel": 1}).slots == SLOTS_MAX


def test_a_value_is_put_where_its_name_leads_and_nothing_else_changes() -> None:
    spec = {"seconds": 1, "model": {"lr": 0.1, "depth": 2}}
    made = assigned(spec, {"model.lr": 0.2, "data.name": "digits", "seconds": 3})
    assert made == {"seconds": 3, "model": {"lr": 0.2, "depth": 2}, "data": {"name": "digits"}}
    assert spec == {"seconds": 1, "model": {"lr": 0.1, "depth": 2}}
    assert [value_at(made, "model.lr"), value_at(made, "model.no"), value_at(made, "seconds.x")] == [
        0.2,
        None,
        None,
    ]


def test_a_name_that_leads_into_a_number_is_refused() -> None:
    with pytest.raises(Rejected, match="'seconds' is 1"):
        assigned({"seconds": 1}, {"seconds.x": 2})


def test_every_status_of_a_run_is_counted_and_only_those_that_end_count_as_ended() -> None:
    assert set(COUNTED_AS) == set(Status)
    for status in Status:
        assert counted({status: 3}).live == (0 if status in FINAL else 3)
    assert counted({"QUEUED": 2, "DELAYED": 1, "RUNNING": 4}) == Members(waiting=3, running=4)


def test_the_id_of_a_slot_follows_from_group_round_and_slot_and_sorts_by_slot() -> None:
    ids = [member_id("g", SINCE, slot) for slot in range(300)]
    assert ids == sorted(set(ids))
    assert member_id("g", SINCE, 7) == ids[7]
    others = {member_id("h", SINCE, 7), member_id("g", SINCE.replace(year=2027), 7)}
    assert not others & set(ids)


def test_an_open_group_fills_its_room_and_no_more() -> None:
    group = make_group()
    assert next_slots(group, Members()) == Submit(4)
    assert next_slots(group, Members(waiting=2, running=1)) == Submit(1)
    assert next_slots(group, Members(waiting=4)) == Wait()
    assert next_slots(replace(group, next=5, filled=5), Members(succeeded=5)) == Submit(1)
    # whoever waits for a person holds no pod
    assert next_slots(replace(group, next=4, filled=4), Members(reviewing=4)) == Submit(2)


def test_a_decision_takes_a_bounded_number_of_slots() -> None:
    group = make_group(values={"a": list(range(5_000))}, parallel=SLOTS_MAX)
    assert next_slots(group, Members()) == Submit(BATCH_MAX)


def test_a_group_closes_when_all_have_ended_and_completes_only_with_one_that_succeeded() -> None:
    whole = make_group(next=6)
    assert next_slots(whole, Members(succeeded=5, reviewing=1)) == Wait()
    assert next_slots(whole, Members(succeeded=1, failed=4, canceled=1)) == Close(S.COMPLETED)
    assert next_slots(whole, Members(failed=5, canceled=1)) == Close(S.FAILED)


def test_a_group_stops_after_failures_and_waits_for_those_that_go_on() -> None:
    group = make_group(next=4, stop_after_failures=2)
    assert next_slots(group, Members(failed=1, running=1, succeeded=2)) == Submit(2)
    stopped = next_slots(group, Members(failed=2, running=1, succeeded=1))
    assert isinstance(stopped, Close)
    assert stopped.status is S.CLOSING
    assert "2 members failed" in str(stopped.reason)
    closing = replace(group, status=S.CLOSING)
    assert next_slots(closing, Members(failed=2, running=1, succeeded=1)) == Wait()
    assert next_slots(closing, Members(failed=2, succeeded=2)) == Close(S.COMPLETED)


def test_a_slot_begins_only_where_its_part_of_the_budget_is_left() -> None:
    own = make_group(budget_usd=5.0, member_usd=2.0)
    assert next_slots(own, Members()) == Submit(2, 2.0)
    begun = replace(own, next=2, filled=2)
    assert next_slots(begun, Members(running=2, used_usd=4.0)) == Wait(), (
        "one of them may give something back"
    )
    assert next_slots(begun, Members(succeeded=1, running=1, used_usd=2.5)) == Submit(1, 2.0)
    spent = next_slots(begun, Members(succeeded=2, used_usd=3.5))
    assert isinstance(spent, Close)
    assert spent.reason == "3.5 of the 5 USD of its budget are spent, and a member may cost 2"
    even = make_group(budget_usd=6.0)
    assert next_slots(even, Members()) == Submit(4, 1.0)
    later = replace(even, next=4, filled=4)
    assert next_slots(later, Members(succeeded=2, running=2, used_usd=2.0)) == Submit(2, 2.0)
    assert isinstance(next_slots(later, Members(succeeded=4, used_usd=6.1)), Close)
    assert next_slots(later, Members(running=2, succeeded=2, used_usd=inf)) == Wait()


@settings(max_examples=40)
@given(st.data())
def test_members_cost_at_most_a_twentieth_more_than_the_budget_of_their_group(data: st.DataObject) -> None:
    """Fleets that claim, are killed and end at any moment; a run passes its own budget by 0.04 at most."""
    cents = st.integers(1, 10_000).map(lambda each: each / 100)
    budget, each = data.draw(cents), data.draw(st.none() | cents)
    slots, live, ended = data.draw(st.integers(1, 12)), list[float](), list[float]()
    group = make_group(
        values={"a": [*range(slots)]},
        parallel=data.draw(st.integers(1, 5)),
        budget_usd=budget,
        member_usd=each,
    )
    for _ in range(40):
        members = Members(running=len(live), succeeded=len(ended), used_usd=sum(ended) + sum(live))
        match next_slots(group, members):
            case Submit(count, usd):
                assert usd is not None
                live += [usd] * count
                group = replace(group, next=group.next + count, filled=group.next + count)
            case Close():
                break
            case Wait():
                assert live, "a group that waits for nothing would do so for ever"
        for _ in range(data.draw(st.integers(0, len(live)))):
            ended.append(live.pop(data.draw(st.integers(0, len(live) - 1))) * data.draw(st.floats(0, 1.04)))
    assert sum(ended) + 1.04 * sum(live) <= 1.05 * budget


@pytest.mark.parametrize(
    ("plan", "spec", "why"),
    [
        ({"values": {"budget_usd": [1, 2]}}, {}, "varies"),
        ({"values": {"a": [1]}}, {"budget_usd": 3}, "2 USD are less than a member may cost, 3"),
        ({"nodes": 3}, {"budget_usd": 1}, "less than 3 members that start together may cost, 3"),
        ({"nodes": 2}, {"budget_usd": 1}, None), ({"values": {"a": [1]}}, {"budget_usd": 2}, None),
    ],
)  # fmt: skip
def test_a_budget_that_pays_for_no_member_is_refused(
    plan: dict[str, Any], spec: dict[str, Any], why: str | None
) -> None:
    made = plan_of({"kind": "matrix", "parallel": 1, "budget_usd": 2.0, **plan})
    if why is None:
        require_budget(made, spec)
        return
    with pytest.raises(Rejected, match=why):
        require_budget(made, spec)


def test_a_canceled_group_closes_as_canceled_also_after_a_retry() -> None:
    canceling = make_group(S.CANCELING, next=3)
    assert next_slots(canceling, Members(succeeded=1, running=2)) == Wait()
    assert next_slots(canceling, Members(succeeded=1, canceled=2)) == Close(S.CANCELED)
    retried = replace(canceling, status=S.CLOSING, is_canceled=True)
    assert next_slots(retried, Members(succeeded=2, canceled=1)) == Close(S.CANCELED)


@given(
    status=st.sampled_from(sorted(S)),
    counts=st.fixed_dictionaries(dict.fromkeys(COUNTS, COUNT)),
    parallel=st.integers(1, 20),
    stop=st.none() | st.integers(1, 5),
)
def test_what_is_decided_keeps_the_laws(
    status: GroupStatus, counts: dict[str, int], parallel: int, stop: int | None
) -> None:
    members = Members(**counts)
    submitted = sum(counts.values())
    slots = submitted + 5
    group = make_group(
        status, next=submitted, values={"a": [*range(slots)]}, parallel=parallel, stop_after_failures=stop
    )
    match next_slots(group, members):
        case Submit(count):
            assert status is S.OPEN
            assert 0 < count <= slots - submitted
            assert members.held + count <= parallel
        case Close(to):
            assert to in TRANSITIONS[Action.STOP if to is S.CLOSING else Action.CLOSE][status]
            assert to is S.CLOSING or not members.live
            assert to is not S.COMPLETED or members.succeeded
        case Wait():
            assert status is not S.CLOSING or members.live


def test_every_action_of_a_person_is_refused_where_it_leads_nowhere() -> None:
    for action in (Action.PAUSE, Action.RESUME, Action.CANCEL, Action.EDIT, Action.AGAIN):
        for status in S:
            if status in TRANSITIONS[action]:
                assert usual(action, status) in TRANSITIONS[action][status]
            else:
                with pytest.raises(Conflict, match=f"the group is {status}"):
                    usual(action, status)
    assert {*CLOSED} | {*ACTIVE} == {*S}
    assert all(target is S.OPEN for row in [TRANSITIONS[Action.AGAIN]] for (target,) in row.values())


def test_a_slot_submits_the_run_of_its_group_with_its_values() -> None:
    run = {"kind": "probe", "spec": {"events": 5}, "priority": 3, "labels": {"team": "vision"}}
    wanted = submission({"_id": "sweep", "run": run}, 4, {"seconds": 2})
    assert (wanted.group_id, wanted.slot, wanted.by) == ("sweep", 4, "group:sweep")
    assert wanted.spec == {"events": 5, "seconds": 2}
    assert (wanted.priority, wanted.labels) == (3, {"team": "vision"})
    assert check(wanted).wanted is wanted
