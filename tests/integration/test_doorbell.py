"""A run that begins to wait is heard of by a pod that waits, through the database's own log of changes."""

from __future__ import annotations

import asyncio

import pytest

from control_plane import claiming
from control_plane.doorbell import Bell
from events.abilities import Abilities
from events.claims import Claim
from events.clock import SystemIds
from events.key_text import RunToken, letters
from events.matching import Seeker
from events.settlement import End
from tests.integration.test_sweeper import control_plane, submit

POD = Seeker("pod-1/abc", "experiment", Abilities(frozenset({"probe"}), 0.0, None))
WAIT_S = 60.0


async def is_there() -> bool:
    return False


async def test_a_pod_that_waits_is_rung_up_for_a_new_run_and_for_one_that_comes_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 2 * WAIT_S)  # nobody looks again by himself
    waits = asyncio.Event()
    usual = Bell.wait

    async def wait(bell: Bell, seconds: float) -> None:
        waits.set()
        await usual(bell, seconds)

    monkeypatch.setattr(Bell, "wait", wait)
    async with control_plane(database_url) as deps, asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(deps.watcher.run_once())

        async def asking() -> asyncio.Task[Claim | None]:
            waits.clear()
            token = letters(SystemIds().token())
            claim = deps.claimer.claim(POD, token=token, key_id=None, wait_s=WAIT_S, is_gone=is_there)
            task = tasks.create_task(claim)
            await waits.wait()
            return task

        first = await asking()
        run_id = await submit(deps)
        claim = await asyncio.wait_for(first, 20)
        assert claim is not None
        assert (claim.run_id, claim.attempt) == (run_id, 1)
        second = await asking()
        held = RunToken(run_id, 1, claim.token)
        await deps.claimer.claims.settle(held, End("preempted"), 0, jitter=0.5)
        again = await asyncio.wait_for(second, 20)
        assert again is not None
        assert (again.run_id, again.attempt) == (run_id, 2)
        watching.cancel()
