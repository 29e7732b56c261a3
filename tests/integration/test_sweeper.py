"""What time moves, at size: delayed runs, runs that waited too long, decisions on their way into the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.queue import runs
from control_plane.store.queue.runs import BATCH_MAX
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep import sweeper
from control_plane.verify.verifier import Verifier
from events.queue.matching import WaitingClass
from events.queue.settlement import End, end_decision, rescue_decision
from events.testing import CROCKFORD
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.in_process import control_plane

Document = dict[str, Any]
WEEK = timedelta(days=7)


async def submit(deps: Deps, **overrides: Any) -> str:
    wanted = {"kind": "probe", "spec": {}, "by": "test", **overrides}
    return (await deps.submitter.submit(Submission(**wanted))).run_id


async def run(deps: Deps, run_id: str) -> Document:
    found = await deps.db.runs.find_one({"_id": run_id})
    assert found is not None
    return found


async def populate(deps: Deps, count: int, change: Callable[[int], Document]) -> list[str]:
    """Store `count` runs that differ from one submitted run as `change` says."""
    model = await run(deps, await submit(deps))
    await deps.db.runs.delete_one({"_id": model["_id"]})
    prefix = model["_id"][:-4]
    documents = [{**model, "_id": prefix + _digits(number), **change(number)} for number in range(count)]
    await deps.db.runs.insert_many(documents)
    return [document["_id"] for document in documents]


def _digits(number: int) -> str:
    text = ""
    for _ in range(4):
        number, digit = divmod(number, 32)
        text = CROCKFORD[digit] + text
    return text


async def must_equal_its_log(deps: Deps, run_id: str) -> None:
    await deps.sweeper.run_once()
    assert (await run(deps, run_id))["journal"] == []
    assert await Verifier(VerifyReads(deps.db)).examine("runs", run_id) == []


async def finds(deps: Deps) -> list[Document]:
    """Return the profile of every search in the runs."""
    query = {"ns": {"$regex": r"\.runs$"}, "op": "query"}
    return [each async for each in deps.db["system.profile"].find(query)]


@pytest.mark.parametrize(
    ("page", "due", "overdue", "journals", "delayed"),
    [
        (40, 81, 41, 41, 1_000),
        pytest.param(
            BATCH_MAX, 1_000, 500, 500, 10_000,
            marks=pytest.mark.long("small pages, and a bit more than one of each, beside 1,000 others"),
        ),
    ],
)  # fmt: skip
async def test_one_tick_moves_every_run_whose_time_has_come_and_looks_at_no_other(
    database_url: str, monkeypatch: pytest.MonkeyPatch, page: int, due: int, overdue: int, journals: int,
    delayed: int,
) -> None:  # fmt: skip
    for reader in (runs, sweeper):
        monkeypatch.setattr(reader, "BATCH_MAX", page)
    async with control_plane(database_url) as deps:
        now = await Schedules(deps.db).now()

        def change(number: int) -> Document:
            if number < due:
                return {"status": "DELAYED", "notBefore": now - timedelta(seconds=1), "journal": []}
            if number < due + overdue:
                return {"queueDeadline": now - timedelta(seconds=1), "journal": []}
            if number < due + overdue + journals:
                return {}
            later = {"notBefore": now + timedelta(hours=1), "queueDeadline": now + WEEK}
            return {"status": "DELAYED", "journal": [], **later}

        ids = await populate(deps, due + overdue + journals + delayed, change)
        await deps.db.command("profile", 1, slowms=0, filter={"op": "query"})
        await deps.sweeper.run_once()
        await deps.db.command("profile", 0)
        counts = {
            status: await deps.db.runs.count_documents({"status": status})
            for status in ("QUEUED", "DELAYED", "FAILED")
        }
        assert counts == {"QUEUED": due + journals, "DELAYED": delayed, "FAILED": overdue}
        assert await deps.db.runs.count_documents({"journal.n": {"$gte": 0}}) == 0
        assert await deps.db.runs.count_documents({"error.code": "QUEUE_TIMEOUT"}) == overdue
        searches = await finds(deps)
        assert len(searches) > due / page
        for each in searches:
            # one document more than is found: the end of a page
            assert each["docsExamined"] <= each["nreturned"] + 1, each["planSummary"]
            assert each["keysExamined"] <= 2 * each["nreturned"] + 2, each["planSummary"]
        await must_equal_its_log(deps, ids[due + overdue])  # one whose submission was still in its journal


async def test_a_run_that_cannot_be_decided_keeps_no_other_waiting(emptied_url: str) -> None:
    async with control_plane(emptied_url) as deps:
        now = await Schedules(deps.db).now()
        past = {"status": "DELAYED", "notBefore": now - timedelta(seconds=9)}
        ids = await populate(deps, 3, lambda number: past)
        # no program of ours writes this; the decision that counts it up fails on the server
        await deps.db.runs.update_one({"_id": ids[0]}, {"$set": {"revision": "many"}})
        with pytest.raises(OperationFailure, match="numeric"):
            await deps.sweeper.run_once()
        assert [(await run(deps, each))["status"] for each in ids[1:]] == ["QUEUED", "QUEUED"]


@pytest.mark.parametrize("limit_s", [600, 3_600, 30 * 24 * 3600])
async def test_a_run_waits_as_long_as_its_submitter_said_by_the_stores_clock(
    emptied_url: str, limit_s: int
) -> None:
    async with control_plane(emptied_url) as deps:
        run_id = await submit(deps, queue_limit_s=limit_s)
        stored = await run(deps, run_id)
        assert stored["queueDeadline"] - stored["createdAt"] == timedelta(seconds=limit_s)
        later = stored["createdAt"] + timedelta(hours=1)
        delayed = await run(deps, await submit(deps, queue_limit_s=limit_s, not_before=later))
        assert delayed["queueDeadline"] - later == timedelta(seconds=limit_s)
        await deps.sweeper.run_once()
        assert (await run(deps, run_id))["status"] == "QUEUED"


async def test_a_run_that_nobody_took_in_time_fails_with_its_own_code(
    emptied_url: str,
) -> None:
    async with control_plane(emptied_url) as deps:
        run_id = await submit(deps, queue_limit_s=1)

        async with asyncio.timeout(60):
            while (await run(deps, run_id))["status"] != "FAILED":
                await deps.sweeper.run_once()
        failed = await run(deps, run_id)
        assert failed["error"]["code"] == "QUEUE_TIMEOUT"
        assert "probe/cpu/any" in failed["error"]["message"]
        assert failed["finishedAt"] >= failed["queueDeadline"]
        await must_equal_its_log(deps, run_id)


async def claim_at(deps: Deps, url: str, run_id: str, *, waited: timedelta) -> None:
    """Let a pod take a run that was submitted `waited` ago."""
    old: datetime = (await run(deps, run_id))["queueDeadline"] - waited
    await deps.db.runs.update_one({"_id": run_id}, {"$set": {"queueDeadline": old}})
    db = connect(url)
    try:
        queue = MongoQueue(db)
        claim = queue.take(WaitingClass("runs", "probe/cpu/any", 0), token=f"t-{run_id}", pod="pod/1")
        assert claim is not None
        assert claim.run_id == run_id
    finally:
        db.client.close()


@pytest.mark.parametrize("how", ["preempted", "retryable", "lost"])
async def test_a_run_that_worked_for_longer_than_its_queue_limit_waits_anew(
    emptied_url: str, how: str
) -> None:
    async with control_plane(emptied_url) as deps:
        run_id = await submit(deps)
        await claim_at(deps, emptied_url, run_id, waited=WEEK + timedelta(days=1))
        found = await deps.runs.find(run_id)
        assert found is not None
        standing = found.run.standing
        by = "pod/1#a1"
        if how == "lost":
            decision = rescue_decision(standing, 1, by="rescuer", jitter=0.0)
        elif how == "preempted":
            decision = end_decision(standing, 1, End("preempted"), by=by, jitter=0.0)
        else:
            again = End("failed", "X", "x", retryable=True)
            decision = end_decision(standing, 1, again, by=by, jitter=0.0)
        assert await deps.runs.decide(found, decision) is not None  # type: ignore[arg-type]
        await deps.sweeper.run_once()
        waiting = await run(deps, run_id)
        assert waiting["status"] in ("QUEUED", "DELAYED")
        left = waiting["queueDeadline"] - await Schedules(deps.db).now()
        assert timedelta(days=6, hours=23) < left <= WEEK + timedelta(seconds=2)
        await must_equal_its_log(deps, run_id)


async def test_a_deadline_that_was_changed_by_hand_is_found(emptied_url: str) -> None:
    async with control_plane(emptied_url) as deps:
        run_id = await submit(deps)
        await must_equal_its_log(deps, run_id)
        moved = (await run(deps, run_id))["queueDeadline"] + WEEK
        await deps.db.runs.update_one({"_id": run_id}, {"$set": {"queueDeadline": moved}})
        findings = await Verifier(VerifyReads(deps.db)).examine("runs", run_id)
        assert any("queueDeadline" in finding.message for finding in findings)


async def test_a_retry_waits_as_long_as_its_parent_would(emptied_url: str) -> None:
    async with control_plane(emptied_url) as deps:
        run_id = await submit(deps, queue_limit_s=77)
        await deps.decider.cancel(run_id, by="user")
        again = await deps.submitter.retry(run_id, by="user")
        assert (await run(deps, again.run_id))["queueLimitS"] == 77


async def test_a_retry_of_an_experiment_has_the_seed_of_its_parent(emptied_url: str) -> None:
    async with control_plane(emptied_url) as deps:

        async def seed(run_id: str) -> int | None:
            spec = await deps.db.run_specs.find_one({"_id": run_id})
            return spec["spec"].get("seed")  # type: ignore[index]

        wanted = Submission(kind="experiment", spec={"idea": "Dropout helps"}, by="user")
        one, other = [await deps.submitter.submit(wanted) for _ in range(2)]
        assert await seed(one.run_id) != await seed(other.run_id)
        await deps.db.run_specs.update_one({"_id": other.run_id}, {"$unset": {"spec.seed": ""}})  # as before
        for parent, expected in ((one.run_id, await seed(one.run_id)), (other.run_id, 0)):
            await deps.decider.cancel(parent, by="user")
            again = await deps.submitter.retry(parent, by="user")
            assert await seed(again.run_id) == expected


def test_a_queue_limit_is_from_a_second_to_thirty_days(fleet: Any) -> None:
    for wrong in (0, -1, 30 * 24 * 3600 + 1, 1.5, "60", None):
        answer = fleet.client.post("/api/runs", json={"kind": "probe", "queue_limit_s": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    run_id = fleet.submit(queue_limit_s=1)
    failed = fleet.wait_for(run_id, "FAILED")
    assert (failed["error"]["code"], failed["queueLimitS"]) == ("QUEUE_TIMEOUT", 1)
