"""Who looks at a pod has it report every second for a while; the audit log has who reset a service of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_plane.runs.pods.looks import FOR_MAX_S, KNOWN_MAX, LOOK_EVERY_S, PodLooks
from control_plane.runs.pods.resets import KEPT_MAX
from control_plane.server.deps import Deps
from control_plane.store.pods import Pods
from events.queue.roster import LOOKED_AT_EVERY_S, REPORT_EVERY_S, sample
from events.runtime.errors import Conflict
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
            (line,) = [each async for each in deps.db.pods.find({"_id": pod})]
            return line["lookedUntil"]

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


async def test_the_outcome_of_a_reset_is_in_the_audit_log_once_and_so_is_that_nobody_answered(
    database_url: str,
) -> None:
    has = {"cpus": 1, "memoryMib": 1, "gpus": [], "services": ["ollama", "comfyui"]}
    async with control_plane(database_url) as deps, control_plane(database_url) as other:
        await report(deps, "a/1", capabilities=has)
        asked = [deps.pod_resets.order("a/1", "ollama", by="ann") for _ in range(3)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sorted(getattr(each, "code", "given") for each in answers) == [
            "given", "reset_under_way", "reset_under_way"
        ]  # fmt: skip
        await deps.pod_resets.order("a/1", "comfyui", by="bob")
        assert await deps.pod_resets.run_once() == 0
        orders = (await report(deps, "a/1", capabilities=has))["resets"]
        assert [each["service"] for each in orders] == ["ollama", "comfyui"]
        lie = {"id": "0" * 26, "ok": True, "code": None, "message": "of an order that nobody gave"}
        said = [{"id": orders[0]["id"], "ok": True, "code": None, "message": "fine", "at": LONG_AGO}, lie]
        (left,) = (await report(deps, "a/1", capabilities=has, resets=said))["resets"]
        assert left["service"] == "comfyui"
        await deps.db.pods.update_one({}, {"$set": {"orders.resets.1.until": LONG_AGO}})
        assert (await report(deps, "a/1", capabilities=has, resets=said))["resets"] == [], "its time is over"
        await asyncio.gather(deps.pod_resets.run_once(), other.pod_resets.run_once())
        assert await deps.pod_resets.run_once() == 0
        entries = {(each["by"], each["action"], each["object"], each["status"])
                   async for each in deps.db.audit.find()}  # fmt: skip
        assert entries == {
            ("ann", "reset of ollama: done", "pod/a/1", 200),
            ("bob", "reset of comfyui: unanswered", "pod/a/1", 504),
        }
        assert await deps.db.audit.count_documents({}) == len(entries)
        shown = (await deps.reading.pod("a/1")).resets
        assert [(each.service, each.state, each.message) for each in shown] == [
            ("comfyui", "unanswered", ""), ("ollama", "done", "fine")
        ]  # fmt: skip
        for number in range(KEPT_MAX):
            await deps.pod_resets.order("a/1", "ollama", by=f"ann-{number}")
            await deps.db.pods.update_one({}, {"$set": {"orders.resets.$[].until": LONG_AGO}})
        with pytest.raises(Conflict, match="still being recorded"):
            await deps.pod_resets.order("a/1", "ollama", by="ann")
        assert await deps.pod_resets.run_once() == KEPT_MAX
        await deps.pod_resets.order("a/1", "ollama", by="ann")
        assert len((await deps.reading.pod("a/1")).resets) == KEPT_MAX
