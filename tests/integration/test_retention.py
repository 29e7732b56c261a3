"""Retention: what rules take of old runs, what they leave, and what finishes a sweep that was cut off."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import pytest
from minio import Minio

from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps
from control_plane.store.log import retention as store
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.keeping import retainer as loop
from control_plane.upkeep.keeping.retainer import Retainer
from control_plane.upkeep.keeping.retention import Rule
from control_plane.verify.verifier import Finding, Verifier
from events.catalog import ArtifactRegistered, RunStarted
from events.queue.settlement import End
from events.runtime.clock import SystemClock
from tests.integration.conftest import Fleet, HandDriven
from tests.integration.dying import Died, DiesAt
from tests.integration.in_process import control_plane
from tests.integration.test_deletion import Shelf, ended

pytestmark = pytest.mark.slow("real servers and processes")

ByHand = Callable[[str, str], HandDriven]
CHECKPOINT: Final = "checkpoints/Stage_1/manifest.json"
PAPER: Final = "paper.pdf"
FILES: Final = Rule("old-files", "files", 90)
RUNS: Final = Rule("old-runs", "runs", 365)


@dataclass
class Later:
    """The machine's clock, some days ahead."""

    days: int = 400

    def now(self) -> datetime:
        return SystemClock().now() + timedelta(days=self.days)

    def monotonic_s(self) -> float:
        return SystemClock().monotonic_s()

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return flag.wait(seconds)


def retainer_of(deps: Deps, shelf: Shelf | None = None, days: int = 400) -> Retainer:
    deleter = deps.deleter if shelf is None else replace(deps.deleter, storage=shelf)
    return replace(deps.retainer, deleter=deleter, clock=Later(days), rest=0.0)


def bucket_of(s3: Any) -> Minio:
    address = s3.endpoint.removeprefix("http://")
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    return Minio(address, **keys, secure=False)


def with_files(fleet: Fleet, by_hand: ByHand, s3: Any, outcome: str = "completed") -> str:
    """Return a run that has ended, with a checkpoint and a paper in the storage."""
    run_id = fleet.submit(max_attempts=1)
    attempt = by_hand("runs", "probe/cpu/any")
    attempt.say(RunStarted(pod="p"))
    for name in (CHECKPOINT, PAPER):
        content, key = name.encode(), f"runs/{run_id}/a1/{name}"
        bucket_of(s3).put_object(s3.bucket, key, io.BytesIO(content), len(content))
        digest = hashlib.sha256(content).hexdigest()
        attempt.say(ArtifactRegistered(name=name, key=key, size=len(content), sha256=digest))
    attempt.settle(End(outcome))  # type: ignore[arg-type] # one of the two that tests name
    fleet.wait_for(run_id, outcome.upper())
    return run_id


async def findings(deps: Deps) -> list[Finding]:
    audit = Verifier(VerifyReads(deps.db), deps.blobs, second_look_s=0.0).audit(rebuilds=True)
    return [each async for each in audit]


@pytest.mark.common_fleet
async def test_by_default_the_checkpoints_of_what_succeeded_go_after_a_month_and_nothing_else(
    fleet: Fleet, by_hand: ByHand, s3: Any
) -> None:
    done = await asyncio.to_thread(with_files, fleet, by_hand, s3)
    failed = await asyncio.to_thread(with_files, fleet, by_hand, s3, "failed")
    files = {each["name"]: each["id"] for each in fleet.run(done)["artifacts"]}
    async with control_plane(fleet.database_url, **s3.environment) as deps:
        assert await retainer_of(deps, days=29).run_once() == 0
        shown = await retainer_of(deps, days=31).preview("checkpoints")
        assert (shown.runs, shown.bytes, shown.needed) == (1, len(CHECKPOINT), 0)
        assert await retainer_of(deps, days=31).run_once() == 1
        assert await retainer_of(deps).run_once() == 0
        left = bucket_of(s3).list_objects(s3.bucket, "runs/", recursive=True)
        names = {str(each.object_name) for each in left}
        kept = {f"runs/{done}/a1/{PAPER}", f"runs/{failed}/a1/{PAPER}", f"runs/{failed}/a1/{CHECKPOINT}"}
        assert {each for each in names if done in each or failed in each} == kept
        assert await findings(deps) == []
        assert await deps.reading.run_reads.checkpoints(done, None) == []
    gone = fleet.client.get(f"/api/artifacts/{files[CHECKPOINT]}")
    assert (gone.status_code, gone.json()["code"]) == (httpx.codes.GONE, "taken")
    assert "retention rule checkpoints" in gone.json()["detail"]
    assert fleet.client.get(f"/api/artifacts/{files[PAPER]}").status_code == httpx.codes.FOUND
    assert fleet.run(done)["taken"]["checkpoints"]["by"] == "checkpoints"
    assert "removed by the retention rule checkpoints" in fleet.client.get(f"/runs/{done}").text
    (rule,) = fleet.client.get("/api/retention").json()["items"]
    assert (rule["taken"], rule["isDefault"], rule["days"]) == (1, True, 30)


@pytest.mark.common_fleet
async def test_what_a_retry_needs_waits_and_goes_once_that_has_ended(
    fleet: Fleet, by_hand: ByHand, s3: Any
) -> None:
    done = await asyncio.to_thread(with_files, fleet, by_hand, s3)
    retry = fleet.client.post(f"/api/runs/{done}/retry").json()["id"]
    async with control_plane(fleet.database_url, **s3.environment) as deps:
        retainer = retainer_of(deps)
        assert (await retainer.preview("checkpoints")).needed == 1
        assert await retainer.run_once() == 0
        assert [each.waiting for each in await retainer.rules()] == [1]
        fleet.client.post(f"/api/runs/{retry}/cancel")
        assert await retainer.run_once() == 1
        assert [each.waiting for each in await retainer.rules()] == [0]
        assert await findings(deps) == []


async def test_whole_runs_go_page_by_page_under_two_replicas(
    deps: Deps, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (store, loop):
        monkeypatch.setattr(module, "PAGE_MAX", 3)
    ids = [(await ended(deps, 0))[0] for _ in range(7)]
    kept = (await deps.submitter.submit(Submission(kind="probe", spec={}, by="test"))).run_id
    one, other = retainer_of(deps, Shelf(())), retainer_of(deps, Shelf(()))
    await one.put(RUNS, by="test")
    await asyncio.gather(one.run_once(), other.run_once())
    await one.run_once()
    assert [each["_id"] async for each in deps.db.runs.find({})] == [kept]
    stones = [each async for each in deps.db.tombstones.find({})]
    assert {each["_id"] for each in stones} == {*ids}
    assert {each["by"] for each in stones} == {"retention:old-runs"}
    for _ in range(2):
        await one.deleter.run_once()
    assert await findings(deps) == []


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize(
    ("port", "call"),
    [("store", "begin"), ("storage", "remove"), ("store", "conclude"), ("store", "move")],
)
async def test_a_sweep_that_was_cut_off_anywhere_is_finished_by_another_replica(
    deps: Deps, port: str, call: str, is_answered: bool
) -> None:
    run_id, shelf = await ended(deps)
    await deps.db.artifacts.update_many({"runId": run_id}, [{"$set": {"name": PAPER}}])
    whole = retainer_of(deps, shelf)
    await whole.put(FILES, by="test")
    if port == "store":
        dying = replace(whole, store=DiesAt(whole.store, call, answered=is_answered))  # type: ignore[arg-type]
    else:
        storage: Any = DiesAt(shelf, call, answered=is_answered)
        dying = replace(whole, deleter=replace(whole.deleter, storage=storage))
    with pytest.raises(Died):
        await dying.run_once()
    await whole.run_once()
    assert shelf.keys == set()
    assert (await whole.store.taken(run_id))["files"]["removedAt"] is not None
    assert [each.trouble for each in await whole.rules()] == [None, None]


async def test_a_storage_that_refuses_keeps_the_run_waiting_and_is_told(deps: Deps) -> None:
    run_id, shelf = await ended(deps)
    await deps.db.artifacts.update_many({"runId": run_id}, [{"$set": {"name": PAPER}}])
    shelf.is_closed = True
    retainer = retainer_of(deps, shelf)
    await retainer.put(FILES, by="test")
    for _ in range(2):
        assert await retainer.run_once() == 0
        told = {each.id: each for each in await retainer.rules()}["old-files"]
        assert (told.waiting, told.taken) == (1, 0)
        assert "storage_unreachable" in (told.trouble or "")
    shelf.is_closed = False
    assert await retainer.run_once() == 1
    assert shelf.keys == set()


async def test_a_damaged_run_holds_up_no_other(deps: Deps) -> None:
    damaged, _ = await ended(deps, 0)
    odd, _ = await ended(deps, 0)
    run_id, _ = await ended(deps, 0)
    await deps.db.runs.update_one({"_id": damaged}, {"$set": {"failures": 7}})
    await deps.db.runs.update_one({"_id": odd}, {"$set": {"status": ["COMPLETED"], "labelList": 3}})
    retainer = retainer_of(deps, Shelf(()))
    await retainer.put(RUNS, by="test")
    await retainer.run_once()
    assert {each["_id"] async for each in deps.db.tombstones.find({})} == {run_id}


async def test_rules_are_set_shown_and_removed_by_name(asking: httpx.AsyncClient) -> None:
    body = {"what": "runs", "days": 365, "kind": "probe", "label": "team=vision"}
    made = await asking.put("/api/retention/probes", json=body)
    assert made.status_code == httpx.codes.OK, made.text
    assert {name: made.json()[name] for name in body} == body
    off = await asking.put("/api/retention/checkpoints", json={"what": "checkpoints", "days": None})
    assert (off.json()["days"], off.json()["isDefault"]) == (None, False)
    assert [each["id"] for each in (await asking.get("/api/retention")).json()["items"]] == [
        "checkpoints", "probes",
    ]  # fmt: skip
    preview = (await asking.get("/api/retention/probes/preview")).json()
    assert (preview["runs"], preview["isWhole"]) == (0, True)
    for name, status in (("probes", 204), ("probes", 404), ("checkpoints", 204), ("checkpoints", 409)):
        assert (await asking.delete(f"/api/retention/{name}")).status_code == status
    for wrong in ({"what": "papers", "days": 1}, {"what": "runs", "days": 0}, {"what": "runs"}):
        assert (await asking.put("/api/retention/x", json=wrong)).status_code == 422
