"""How ends of attempts become quarantines in a real store, whoever else looks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps
from events.queue.abilities import Abilities
from events.queue.matching import Seeker
from events.queue.settlement import End
from events.text.key_text import RunToken, letters
from tests.integration.in_process import control_plane

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
WRONG_KEY = End("failed", "MODEL_UNAUTHORISED", "401", retryable=True)
DONE = End("completed")


async def report(deps: Deps, pod: str, key_id: str | None = None, **more: Any) -> dict[str, Any]:
    """Report as a pod does; return its orders."""
    line = {
        "id": pod, "pod": pod.partition("/")[0], "mode": "hybrid", "region": None, "kinds": ["probe"],
        "state": "idle", "version": "0", "capabilities": {"cpus": 1, "memoryMib": 1, "gpus": []},
        "telemetry": {"memoryMib": 1.0}, "startedAt": LONG_AGO, **more,
    }  # fmt: skip
    return await deps.claimer.report(line, key_id=key_id)


async def serve(deps: Deps, pod: str, how: End, key_id: str | None = None) -> bool:
    """Claim a new run and end it so; False where the pod got nothing."""
    run = await deps.submitter.submit(Submission(kind="probe", spec={}, by="test", max_attempts=1))
    token = letters(deps.ids.token())
    seeker = Seeker(pod, "hybrid", Abilities(frozenset({"probe"}), 0.0, None))

    async def is_here() -> bool:
        return False

    claim = await deps.claimer.claim(seeker, token=token, key_id=key_id, wait_s=0.0, is_gone=is_here)
    if claim is None:
        await deps.decider.cancel(run.run_id, by="test")
        return False
    await deps.claimer.claims.settle(RunToken(claim.run_id, claim.attempt, token), how, 0, jitter=0.0)
    return True


async def look(deps: Deps) -> list[str]:
    """Decide as upkeep does; return the pods in quarantine."""
    await deps.sweeper.run_once()
    await deps.quarantiner.run_once()
    deps.reading.pod_rules.changed()
    return (await deps.reading.pod_rules.in_force()).held_back()["quarantine"]


async def test_a_trial_that_fails_puts_a_pod_back_for_twice_the_time(database_url: str) -> None:
    async with control_plane(database_url) as deps:
        for pod in ("bad/1", "good/1", "fine/1"):
            await report(deps, pod)
        for _ in range(3):
            assert await look(deps) == []
            assert await serve(deps, "bad/1", WRONG_KEY)
            assert await serve(deps, "good/1", DONE)
        assert await look(deps) == ["bad"]
        assert not await serve(deps, "bad/2", WRONG_KEY)

        async def run_time_out() -> None:
            past = {"$set": {"pods.0.tryAt": LONG_AGO}, "$inc": {"revision": 1}}
            await deps.db.quarantines.update_one({"_id": "fleet"}, past)

        await run_time_out()
        assert await look(deps) == []
        await report(deps, "bad/2")
        assert await serve(deps, "bad/2", WRONG_KEY)
        assert await look(deps) == ["bad"]
        (stored,) = (await deps.db.quarantines.find_one({}))["pods"]
        assert (stored["spellS"], stored["reason"]) == (120, "1 failure of its own (MODEL_UNAUTHORISED)")

        failing = [{"name": "model:api", "ok": False}]
        await report(deps, "bad/2", checks=failing)
        await run_time_out()
        assert await look(deps) == ["bad"]  # its own check says why
        await report(deps, "bad/2", checks=[{"name": "model:api", "ok": True}])
        assert await look(deps) == []


async def test_what_a_foreign_key_does_under_a_pods_name_is_not_the_pods(database_url: str) -> None:
    async with control_plane(database_url) as deps:
        for pod, key in (("bad/1", "its own"), ("good/1", None), ("bad/9", "a thief's")):
            await report(deps, pod, key)
        for _ in range(4):
            assert await serve(deps, "bad/9", WRONG_KEY, "a thief's")
            assert await serve(deps, "bad/8", WRONG_KEY, "a thief's")  # which never reported
        assert await look(deps) == ["bad"]
        orders = [(await report(deps, "bad/1", "its own")), (await report(deps, "bad/9", "a thief's"))]
        assert [each["quarantine"] is None for each in orders] == [True, False]
        assert await serve(deps, "bad/1", DONE, "its own")


async def test_of_two_replicas_that_look_at_once_one_decides(database_url: str) -> None:
    async with control_plane(database_url) as deps, control_plane(database_url) as other:
        lost = {"memoryMib": 1.0, "gpuFaults": ["Xid 79"]}
        for number in (1, 2):
            for pod in ("a", "b", "c", "d"):
                await report(
                    deps, f"{pod}/b00t/{number}", telemetry=lost if number == 1 else {"memoryMib": 1.0}
                )
        assert await look(deps) == [], "of each pod one slot has lost its card, and leaves runs to the others"
        for pod in ("a", "b", "c", "d"):
            await report(deps, f"{pod}/b00t/2", telemetry=lost)
        for _ in range(3):
            await asyncio.gather(deps.quarantiner.run_once(), other.quarantiner.run_once())
        assert len((await deps.db.quarantines.find_one({}))["pods"]) == 2
        assert (await deps.db.quarantines.find_one({}))["revision"] == 1


async def test_the_ends_of_attempts_are_read_along_an_index(database_url: str) -> None:
    async with control_plane(database_url) as deps:
        plan = await deps.db.attempts.find({"endedAt": {"$gte": LONG_AGO}}).sort("endedAt", -1).explain()
        stages = str(plan["queryPlanner"]["winningPlan"])
        assert "by_end" in stages
        assert "SORT" not in stages
