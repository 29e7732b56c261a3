"""Jobs of several nodes: all start together or none, and the others are not kept from their pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from control_plane.model.groups.matrix import Matrix
from control_plane.model.groups.members import Members
from control_plane.model.groups.plan import end, plan_of
from control_plane.model.groups.races.nodes import (
    HOLD_S,
    PREPARE_S,
    Begin,
    GiveBack,
    LetGo,
    Member,
    Stop,
    back_off_s,
    next_move,
)
from control_plane.model.groups.status import GroupStatus
from control_plane.server.api.contract.group_bodies import NewGroup, posted
from events.lifecycle import Status
from events.queue.claims import Node
from events.runtime.errors import Rejected
from events.testing import EPOCH
from pod_worker.attempt.barrier import variables_of

S = Status
READY_S: Final = 60.0
AGO: Final = EPOCH - timedelta(seconds=10)
LONG_AGO: Final = EPOCH - timedelta(seconds=61)


def node(rank: int, status: Status = S.RUNNING, **fields: Any) -> Member:
    """Return a node whose first attempt is ready."""
    usual: dict[str, Any] = {"attempt": 1, "ready_at": AGO, "address": f"pod-{rank}:4000"}
    return Member(rank=rank, run_id=f"r{rank}", status=status, **{**usual, **fields})


def queued(rank: int, **fields: Any) -> Member:
    return node(rank, S.QUEUED, **{"attempt": 0, "ready_at": None, **fields})


def move(members: Sequence[Member], started: dict[int, int] | None = None) -> Any:
    return next_move(members, started or {}, EPOCH, READY_S, "a-job")


def paused(members: Sequence[Member], started: dict[int, int] | None = None) -> Any:
    return next_move(members, started or {}, EPOCH, READY_S, "a-job", is_paused=True)


def test_nodes_begin_when_all_are_ready_and_find_the_first() -> None:
    assert move([node(0), node(1)]) == Begin({0: 1, 1: 1}, "pod-0:4000")
    assert move([node(0), node(1, ready_at=None)]) is None
    assert move([node(0), queued(1)]) is None
    assert move([node(0), node(1)], {0: 1, 1: 1}) is None  # they have begun


def test_nodes_that_wait_too_long_give_their_pods_back_and_so_wait_the_others() -> None:
    held, missing = node(0, ready_at=LONG_AGO), queued(1)
    found = move([held, missing])
    assert found == GiveBack([held], found.wait_s, [missing])
    assert READY_S / 2 <= found.wait_s <= READY_S * 1.5
    assert move([replace(held, attempt=2), missing]).wait_s != found.wait_s  # no two jobs meet for ever
    assert len({back_off_s(f"job-{number}", READY_S) for number in range(20)}) > 10
    assert move([replace(held, preempted=1), missing]) is None  # it was told
    assert move([held, node(1)]) == Begin({0: 1, 1: 1}, "pod-0:4000")  # they have come, if late


def test_a_node_that_is_being_prepared_is_awaited_and_keeps_its_pod() -> None:
    held, preparing = node(0, ready_at=LONG_AGO), node(1, ready_at=None)
    assert move([held, preparing]) is None
    assert move([preparing, queued(2)]) is None
    found = move([held, preparing, queued(2)])
    assert (found.members, found.waiting) == ([held], [queued(2)])
    hung = node(0, ready_at=EPOCH - timedelta(seconds=PREPARE_S + 1))
    assert move([hung, preparing]).members == [hung]
    paused = node(1, is_paused=True)
    assert move([node(0), paused]) is None
    assert move([held, paused]).members == [held, paused]


def test_a_paused_job_keeps_no_pods_for_its_start_and_goes_on_when_it_is_resumed() -> None:
    waiting, missing = node(0), queued(1)
    later = EPOCH + timedelta(seconds=HOLD_S)
    assert paused([waiting, missing]) == GiveBack([waiting], HOLD_S, [missing])
    assert paused([node(0, preempted=1), queued(1, not_before=later)]) is None
    ends = queued(1, not_before=EPOCH + timedelta(seconds=HOLD_S / 2))
    assert paused([ends]) == GiveBack([], HOLD_S, [ends])  # before all are submitted, too
    running = [node(0), node(1)]
    assert paused(running, {0: 1, 1: 1}) is None
    alone = [node(0, attempt=2), node(1)]
    assert paused(alone, {0: 1, 1: 1}) == GiveBack(alone, HOLD_S, [])
    held = [node(0, S.DELAYED, not_before=later), queued(1, not_before=later)]
    assert move(held) == LetGo(held)
    tried_again = node(0, S.DELAYED, not_before=EPOCH + timedelta(minutes=10))
    assert move([tried_again, held[1]]) == LetGo(held[1:])


@pytest.mark.parametrize("status", [S.QUEUED, S.DELAYED])
def test_one_that_is_lost_ends_the_attempts_of_the_others(status: Status) -> None:
    others = [node(0), node(2)]
    found = move([others[0], node(1, status), others[1]], {0: 1, 1: 1, 2: 1})
    assert found == GiveBack(others, 0.0)
    again = [node(0, attempt=2), node(1, attempt=2), node(2, attempt=2)]
    assert move([again[0], again[1], others[1]], {0: 1, 1: 1, 2: 1}) == GiveBack([others[1]], 0.0)
    assert move(again, {0: 1, 1: 1, 2: 1}) == Begin({0: 2, 1: 2, 2: 2}, "pod-0:4000")


def test_one_that_failed_for_good_ends_the_job_and_one_that_completed_does_not() -> None:
    assert move([node(0), node(1, S.FAILED)], {0: 1, 1: 1}) == Stop("node 1 is FAILED")
    assert move([node(0), node(1, S.COMPLETED)], {0: 1, 1: 1}) is None
    stopped = move([node(0, S.QUEUED), node(1, S.COMPLETED)], {0: 1, 1: 1})
    assert isinstance(stopped, Stop)
    assert move([node(0, S.FAILED), node(1, S.COMPLETED)], {0: 1, 1: 1}) is None
    members = Members(succeeded=1, failed=1)
    assert end(members, is_canceled=False, needs_all=True) is GroupStatus.FAILED
    assert end(members, is_canceled=False) is GroupStatus.COMPLETED


def test_a_plan_of_nodes_has_neither_values_nor_rows() -> None:
    body = {"id": "a", "run": {"kind": "job", "spec": {"command": "true"}}}
    plan = plan_of(posted(NewGroup.model_validate({**body, "plan": {"kind": "matrix", "nodes": 3}}).plan))
    assert isinstance(plan, Matrix)
    assert (plan.slots, plan.parallel, plan.values(2), plan.ready_s) == (3, 3, {}, READY_S)
    for more in ({"rows": [{"a": 1}]}, {"values": {"a": [1]}}):
        with pytest.raises(Rejected, match="give one"):
            plan_of({"kind": "matrix", "nodes": 3, "parallel": 10, **more})


def test_the_program_of_a_node_finds_the_others() -> None:
    found = variables_of(Node(2, 4, "10.0.0.1:4000"))
    assert (found["PODFLEET_NODE_RANK"], found["PODFLEET_NODES"]) == ("2", "4")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["RANK"]) == ("10.0.0.1", "4000", "2")
    assert (found["PET_NNODES"], found["PET_NODE_RANK"]) == ("4", "2")
    assert variables_of(None) == {}
