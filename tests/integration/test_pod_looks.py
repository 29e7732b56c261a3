"""Who looks at a pod has it report every second for a while, at a bounded price."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from control_plane.runs.pods.looks import FOR_MAX_S, KNOWN_MAX, LOOK_EVERY_S, PodLooks
from control_plane.server.deps import Deps
from control_plane.store.pods import Pods
from events.queue.roster import LOOKED_AT_EVERY_S, REPORT_EVERY_S, sample
from events.testing import ManualClock
from tests.integration.in_process import control_plane
from tests.integration.test_quarantiner import LONG_AGO, report


async def told(deps: Deps, pod: str, **more: Any) -> float:
    """Report as a pod does; return how often it shall."""
    orders = await report(deps, pod, **more)
    return float(orders["reportEveryS"])


async def test_pods_that_somebody_looks_at_report_every_second_and_are_written_once_in_ten_seconds(
    database_url: str,
) -> None:
    async with control_plane(database_url) as deps:
        clock = ManualClock()
        looks, others = PodLooks(deps.pod_looks.pods, clock), PodLooks(deps.pod_looks.pods, ManualClock())
        for pod in ("a/1", "a/2", "ab/1", "b/1", "c/1"):
            assert await told(deps, pod) == REPORT_EVERY_S
        await told(deps, "a/1", state="stopped")
        await looks.look(["a", "b/1", "nobody", *map(str, range(1000))], for_s=1e9)
        stored = {each["_id"]: each.get("lookedUntil") async for each in deps.db.pods.find()}
        assert {pod for pod, until in stored.items() if until is not None} == {"a/2", "b/1"}
        assert [await told(deps, pod) for pod in ("a/2", "b/1", "ab/1")] == [
            LOOKED_AT_EVERY_S, LOOKED_AT_EVERY_S, REPORT_EVERY_S
        ]  # fmt: skip
        (line,) = [each async for each in deps.db.pods.find({"_id": "b/1"})]
        assert line["lookedUntil"] - line["reportedAt"] <= timedelta(seconds=FOR_MAX_S)

        async def until(pod: str) -> Any:
            return (await deps.db.pods.find_one({"_id": pod}))["lookedUntil"]

        await others.look(["b/1"], for_s=FOR_MAX_S)  # another replica: the mark is fresh
        assert await until("b/1") == line["lookedUntil"]
        await deps.db.pods.update_one({"_id": "b/1"}, {"$set": {"lookedUntil": LONG_AGO}})
        assert await told(deps, "b/1") == REPORT_EVERY_S
        await looks.look(["b/1"])
        assert await told(deps, "b/1") == REPORT_EVERY_S, "this process has just asked for that"
        clock.advance(LOOK_EVERY_S)
        await looks.look(["b/1"])
        assert await told(deps, "b/1") == LOOKED_AT_EVERY_S
        for number in range(KNOWN_MAX // 32):
            await looks.look([f"n{number}-{each}" for each in range(64)])
        assert len(looks._until) == KNOWN_MAX


async def test_the_samples_of_several_pods_are_read_at_once_and_those_of_an_hour_ago_too(
    database_url: str,
) -> None:
    now = datetime(2026, 1, 1, 12, 3, 4, tzinfo=UTC)
    async with control_plane(database_url) as deps:
        for pod, minutes in (("a/1", 70), ("a/1", 4), ("a/1", 1), ("a/10", 1), ("b/1", 2)):
            at = now - timedelta(minutes=minutes)
            wanted, update = sample(pod, at, {"cpuUtil": minutes / 100, "memoryMib": 1.0})
            await deps.db.pod_telemetry.update_one(wanted, update, upsert=True)
        old = {"_id": "b/1/2026-01-01T12", "podId": "b/1", "samples": [{"at": now, "cpuUtil": 0.5}]}
        await deps.db.pod_telemetry.insert_one(old)  # by a worker of the last release: of a whole hour
        pods = Pods(deps.db)
        found = await pods.samples_of(["a/1", "b/1", "c/1"], now - timedelta(minutes=5))
        assert {pod: [each["cpuUtil"] for each in samples] for pod, samples in found.items()} == {
            "a/1": [0.04, 0.01], "b/1": [0.02, 0.5], "c/1": []
        }  # fmt: skip
        assert len(await pods.samples("a/1", now - timedelta(minutes=71))) == 3
        recent = await deps.reading.samples(["a/1"] * 100, datetime(2020, 1, 1, tzinfo=UTC))
        assert recent == {"a/1": []}, "at most those of a day"
