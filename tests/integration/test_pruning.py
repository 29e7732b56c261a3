"""Members of studies that are pruned or infeasible, on a real MongoDB."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control_plane.model.groups.study import study_of
from control_plane.store.queue.pruning import PruneReads
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events.catalog import StageMetric, type_of
from events.text.attempt_id import AttemptId
from tests.integration.test_groups import Replica, asking, replicas

PLAN: dict[str, Any] = {
    "kind": "study", "sampler": "random", "goal": "min:value", "max_runs": 8, "parallel": 8,
    "space": {"x": {"type": "uniform", "low": -1, "high": 1}},
    "constraints": ["radius <= 1"],
    "prune": {"by": "min:loss", "min_members": 3, "after_step": 2},
    "stop_after_failures": 1,
}  # fmt: skip


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


def place(number: int) -> str:
    """Return a position in a log: a text, whose order is that of the arrival."""
    return f"{number:026}"


async def measure(replica: Replica, run: dict[str, Any], *values: Any, attempt: int = 1) -> None:
    """Let an attempt have said these values of `loss`, among other things."""
    last = await replica.db.events.count_documents({"runId": run["_id"]})
    lines = [
        {
            "_id": f"{run['_id']}/{last + number}",
            "runId": run["_id"],
            "attempt": attempt,
            "type": type_of(StageMetric),
            "position": place(last + number),
            "sequence": last + number,
            "data": {"stage": "s", "name": name, "value": value, "step": number // 2},
        }
        for number, (name, value) in enumerate(
            [pair for value in values for pair in (("other", -9.0), ("loss", value))], 1
        )
    ]
    await replica.db.events.insert_many(lines)


async def work(replica: Replica, *runs: dict[str, Any]) -> None:
    for run in runs:
        lease = {"until": None, "renewals": 0, "tokenHash": run["_id"]}
        sets = {"status": "RUNNING", "attempt": 1, "lease": lease}
        await replica.db.runs.update_one({"_id": run["_id"]}, {"$set": sets})


async def succeed(replica: Replica, run: dict[str, Any], **summary: float) -> None:
    sets = {"status": "COMPLETED", "summary": summary, "attempt": 1, "logOpen": False}
    await replica.db.runs.update_one({"_id": run["_id"]}, {"$set": sets})


async def test_members_are_pruned_once_over_replicas_and_are_no_failures(database_url: str) -> None:
    async with replicas(database_url, 3) as every:
        only = every[0]
        await only.add(plan=PLAN)
        await only.advance()
        runs = await only.runs()
        bad, good, short, other, done, *three = runs
        for run, value in zip(three, (1.0, 2.0, 3.0), strict=True):
            await measure(only, run, value, value, value)
            await succeed(only, run, value=value, radius=0.5)
        await work(only, bad, good, short, other)
        await measure(only, bad, 9.0, 9.0, 8.0)
        await measure(only, good, 9.0, 1.5, 9.0)
        await measure(only, short, 9.0)
        await measure(only, other, 9.0, 9.0, 9.0, attempt=2)  # said by an attempt that has not got it
        await measure(only, done, 9.0, 9.0, 9.0)
        await succeed(only, done, value=0.25, radius=2.0)  # it ended meanwhile, and breaks the constraint
        looks = await asyncio.gather(*(each.deps.groups.pruner.run_once() for each in every))
        assert sum(looks) >= 1
        found = {run["_id"]: run for run in await only.runs()}
        assert [run["_id"] for run in found.values() if run["status"] == "CANCELING"] == [bad["_id"]]
        entries = [each["cause"] for each in found[bad["_id"]]["journal"]]
        assert entries == ["submit", "cancel"]
        pruned = found[bad["_id"]]["cancelRequested"]["pruned"]
        assert pruned == {"metric": "loss", "step": 3, "value": 8.0, "bound": 2.0, "members": 3}
        await only.end("CANCELED", bad["_id"])
        await only.end("CANCELED", good["_id"], short["_id"], other["_id"])
        await only.advance()
        group = await only.group()
        assert (group["status"], group["counts"]["canceled"], group["counts"]["failed"]) == (
            "COMPLETED",
            4,
            0,
        )
        async with asking(only) as client:
            told = (await client.get("/api/groups/g")).json()
            assert (told["pruned"], told["infeasible"]) == (1, 1)
            members = (await client.get("/api/groups/g/members")).json()["items"]
            assert [each["slot"] for each in members] == list(range(8))
            assert "8 at step 3" in members[0]["pruned"]
            assert members[4]["infeasible"] == "radius <= 1 (it is 2)"
            assert [each["pruned"] for each in members[1:4]] == [None, None, None]
            run = (await client.get(f"/api/runs/{bad['_id']}")).json()
            assert run["cancelRequested"]["pruned"]["bound"] == 2.0
            why = (await client.get(f"/api/runs/{bad['_id']}/explain")).json()
            assert "pruned" in why["reasons"][0]["message"]
            page = (await client.get("/groups/g")).text
            for words in ("1 of these were pruned", "infeasible: radius &lt;= 1", "never as good as 2"):
                assert words in page, words
            best = page[page.index("Best so far") : page.index("Members")]
            assert (done["_id"] in best, three[0]["_id"] in best) == (False, True)
        trials = await only.deps.groups.reading.groups.trials("g", 0, study_of(PLAN))
        assert [each.stop is not None for each in trials] == [True, *[False] * 7]


async def test_what_pods_say_of_a_metric_is_read_once_and_in_bounded_parts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control_plane.store.queue.pruning.SAID_MAX", 4)
    async with replicas(database_url, 1) as (only,):
        reads, run = PruneReads(only.db), {"_id": "R"}
        attempt_id = AttemptId("R", 1)
        assert await reads.said(attempt_id, "loss", "") == ("", [])
        await measure(only, run, 3.0, "text", None, [1])
        assert await reads.said(attempt_id, "loss", "") == (place(4), [(1, 3.0), (2, "text")])
        assert await reads.said(attempt_id, "loss", place(4)) == (place(8), [(3, None), (4, [1])])
        assert await reads.said(attempt_id, "loss", place(8)) == (place(8), [])
        assert await reads.said(attempt_id, "$data.name", "") == (place(4), [])
        told = await only.db.command(
            {"explain": {"find": "events", "sort": {"position": 1}, "filter": {
                "runId": "R", "type": type_of(StageMetric), "position": {"$gt": place(4)}}},
             "verbosity": "executionStats"}
        )  # fmt: skip
        assert told["executionStats"]["totalKeysExamined"] <= 5


async def test_a_pruned_member_agrees_with_its_log_however_many_studies_are_before_its_own(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("store.queue.pruning", "runs.groups.pruner"):
        monkeypatch.setattr(f"control_plane.{module}.STUDIES_MAX", 1)
    async with replicas(database_url, 1) as (only,):
        await only.add("before", plan=PLAN, paused=True)
        await only.add(plan={**PLAN, "prune": {"by": "min:loss", "min_members": 1}, "max_runs": 2})
        await only.advance()
        one, two = await only.runs()
        await measure(only, one, 1.0)
        await succeed(only, one, value=1.0, radius=0.5)
        await work(only, two)
        await measure(only, two, 2.0)
        assert [await only.deps.groups.pruner.run_once() for _ in range(4)] == [0, 1, 0, 0]
        auditor = Verifier(VerifyReads(only.db), second_look_s=0.0)
        found = [each async for each in auditor.audit(rebuilds=True) if each.run_id == two["_id"]]
        assert not [each for each in found if "cancelRequested" in each.message]
