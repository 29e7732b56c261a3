"""Groups on a real MongoDB: one run for each slot, whoever races, dies, or loses an answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from control_plane.config import read_settings
from control_plane.runs.groups import advancer
from control_plane.runs.groups import spending as spending_module
from control_plane.runs.groups.advancer import FILL_MAX, Advancer
from control_plane.runs.groups.service import GroupService, WantedGroup
from control_plane.runs.groups.spending import Spending
from control_plane.runs.submission import Submitter
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.queue import group_numbers
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.submissions import Submissions
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events.catalog import StageMetric, type_of
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Conflict, Rejected
from tests.integration.dying import Died, DiesAt
from tests.integration.in_process import application
from tests.integration.research import IDEA

RUN = {"kind": "probe", "spec": {"events": 1}, "labels": {"team": "vision"}}
PLAN = {"kind": "matrix", "values": {"seconds": [1, 2, 3], "artifact_bytes": [1, 2]}, "parallel": 4}


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


class Replica:
    """A control plane of its own on the shared database."""

    def __init__(self, url: str) -> None:
        self.client = store.connect(url)
        self.db = store.database(self.client, url)
        names = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
        values = {"MONGODB_URL": url, **dict.fromkeys(names, "127.0.0.1:1")}
        settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
        self.deps: Deps = wire(settings, self.db, SystemClock(), SystemIds())

    @property
    def service(self) -> GroupService:
        return self.deps.groups.service

    async def add(self, name: str = "g", **overrides: Any) -> None:
        await self.service.create(
            WantedGroup(**{"id": name, "run": RUN, "plan": PLAN, "by": "test", **overrides})
        )

    async def group(self, name: str = "g") -> dict[str, Any]:
        found = await self.db.groups.find_one({"_id": name})
        assert found is not None
        return found

    async def runs(self, name: str = "g") -> list[dict[str, Any]]:
        return await self.db.runs.find({"groupId": name}).sort([("slot", 1), ("_id", 1)]).to_list()

    async def specs(self, runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        found = await self.db.run_specs.find({"_id": {"$in": [run["_id"] for run in runs]}}).to_list()
        return {each["_id"]: each["spec"] for each in found}

    async def end(self, status: str, *run_ids: str) -> None:
        """Let runs stand at their end, as if pods had brought them there."""
        changed = await self.db.runs.update_many({"_id": {"$in": run_ids}}, {"$set": {"status": status}})
        assert changed.matched_count == len(run_ids)

    async def advance(self) -> int:
        return await self.deps.groups.advancer.run_once()


@asynccontextmanager
async def replicas(url: str, count: int) -> AsyncIterator[list[Replica]]:
    every = [Replica(url) for _ in range(count)]
    await schema.migrate(every[0].db)
    try:
        yield every
    finally:
        for each in every:
            await each.deps.close()
            await each.client.close()


def slots(runs: list[dict[str, Any]]) -> list[int]:
    return [run["slot"] for run in runs]


async def test_replicas_that_advance_a_group_at_once_submit_each_slot_once(database_url: str) -> None:
    async with replicas(database_url, 6) as every:
        plan = {"kind": "matrix", "values": {"events": list(range(250))}, "parallel": 230}
        await every[0].add(plan=plan)
        fresh = await asyncio.gather(*(each.advance() for each in every))
        runs = await every[0].runs()
        assert slots(runs) == list(range(230))
        assert sum(fresh) == 230
        assert [run["revision"] for run in runs] == [1] * 230
        specs = await every[0].db.run_specs.find({}).to_list()
        assert {each["spec"]["events"] for each in specs} == set(range(230))
        assert len(specs) == 230
        await every[0].end("COMPLETED", *(run["_id"] for run in runs[:20]))
        await asyncio.gather(*(each.advance() for each in every))
        assert slots(await every[0].runs()) == list(range(250))


STEPS = [
    ("groups", "members"), ("groups", "reserve"), ("groups", "fill"), ("queue", "put_specs"),
    ("queue", "enqueue_all"), ("groups", "close"),
]  # fmt: skip


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(("port", "step"), STEPS)
async def test_a_replica_that_dies_at_any_step_leaves_each_slot_once_to_the_next(
    database_url: str, port: str, step: str, answered: bool
) -> None:
    async with replicas(database_url, 2) as (first, second):
        await first.add(plan={**PLAN, "budget_usd": 6.0})
        if step == "close":
            await second.advance()
            for _ in range(2):
                await second.end("COMPLETED", *(run["_id"] for run in await second.runs()))
                await second.advance() if len(await second.runs()) < 6 else None
        groups: Any = Groups(first.db)
        queue: Any = Submissions(first.db)
        if port == "queue":
            queue = DiesAt(queue, step, answered=answered)
        else:
            groups = DiesAt(groups, step, answered=answered)
        known = first.deps.submitter
        submitter = Submitter(known.runs, queue, known.ids, known.reads, known.groups)
        spending = Spending(groups, first.deps.ledgers)
        with pytest.raises(Died):
            await Advancer(groups, submitter, first.deps.decider, spending=spending).run_once()
        await second.advance()
        runs = await second.runs()
        assert slots(runs) == list(range(6 if step == "close" else 4))
        for run in runs:
            assert await second.db.run_specs.count_documents({"_id": run["_id"]}) == 1
        specs = await second.specs(runs)
        parts = [specs[run["_id"]]["budget_usd"] for run in runs]
        assert parts[:4] == [1.0] * 4
        assert parts[4:] == ([3.0] * 2 if step == "close" else []), "those that ended had cost nothing"
        group = await second.group()
        assert group["filled"] == group["next"] == len(runs)
        assert group["status"] == ("COMPLETED" if step == "close" else "OPEN")


async def test_members_share_the_budget_of_their_group_and_what_one_leaves_is_for_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending_module, "LOOKED_AT_ONCE", 1)  # of many members all are looked up in one turn
    async with replicas(database_url, 2) as (one, two):

        async def cost(run_id: str, hours: float, status: str = "COMPLETED") -> None:
            at = datetime(2026, 11, 1, tzinfo=UTC)
            held = {"claimedAt": at, "endedAt": at + timedelta(hours=hours)}
            await one.db.attempts.insert_one(
                {"_id": f"{run_id}/a1", "runId": run_id, "attempt": 1, "pod": "dear/1/1", **held}
            )
            await one.db.runs.update_one({"_id": run_id}, {"$set": {"attempt": 1}})
            await one.end(status, run_id)

        async def parts() -> list[float]:
            runs = await one.runs()
            specs = await one.specs(runs)
            return [specs[run["_id"]]["budget_usd"] for run in runs]

        await one.db.pods.insert_one({"_id": "dear/1/1", "usdPerHour": 2.0})
        await one.add(plan={**PLAN, "budget_usd": 6.0, "parallel": 2})
        await asyncio.gather(one.advance(), two.advance())
        first, second = [run["_id"] for run in await one.runs()]
        assert await parts() == [1.0, 1.0]
        await cost(first, 0.1)
        with pytest.raises(Conflict, match="its group has a budget"):
            await one.deps.submitter.retry(first, by="ada")
        await asyncio.gather(one.advance(), two.advance())
        assert await parts() == [1.0, 1.0, pytest.approx((6 - 1 - 0.2) / 4)], "the second one keeps its own"
        async with application(two.deps) as asking:
            told = (await asking.get("/api/groups/g")).json()["budget"]
            page = (await asking.get("/groups/g")).text
        rest = (6 - 1 - 0.2) / 4
        assert told == {
            "usd": 6.0, "spentUsd": 0.2, "reservedUsd": pytest.approx(1 + rest), "isPartial": False,
        }  # fmt: skip
        assert "Budget: $0.2 of $6.00 spent; $2.20 are reserved" in page
        await cost(second, 3.0, "FAILED")
        third = (await one.runs())[2]["_id"]
        await cost(third, 0.0, "CANCELED")
        await two.advance()
        group = await one.group()
        assert (group["status"], len(await parts())) == ("COMPLETED", 3)
        assert group["journal"][0]["reason"] == "6.2 of the 6 USD of its budget are spent"


async def test_a_slot_that_was_decided_before_the_pause_is_filled_after_it_and_no_other(
    database_url: str,
) -> None:
    async with replicas(database_url, 2) as (first, second):
        await first.add()
        dying: Any = DiesAt(Submissions(first.db), "put_specs", answered=False)
        known = first.deps.submitter
        submitter = Submitter(known.runs, dying, known.ids, known.reads, known.groups)
        with pytest.raises(Died):
            await Advancer(Groups(first.db), submitter, first.deps.decider).run_once()
        await second.service.pause("g", by="ada", note="no budget")
        assert await second.advance() == 0
        assert await second.runs() == []
        await second.service.cancel("g", by="ada")
        await second.advance()
        await second.advance()
        runs = await second.runs()
        assert [(run["slot"], run["status"]) for run in runs] == [(slot, "CANCELED") for slot in range(4)]
        group = await second.group()
        assert (group["status"], group["counts"]["canceled"]) == ("CANCELED", 4)
        assert [each["action"] for each in group["journal"]] == ["pause", "cancel", "close"]
        assert group["journal"][0]["reason"] == "no budget"
        assert await first.advance() == 0
        assert len(await first.runs()) == 4


async def test_a_member_fails_and_the_others_go_on_until_all_have_ended(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add()
        await only.advance()
        members = [run["_id"] for run in await only.runs()]
        await only.end("FAILED", members[0])
        await only.deps.decider.cancel(members[1], by="user:ada")
        await only.end("COMPLETED", *members[2:])
        await only.advance()
        last = [run["_id"] for run in await only.runs()][4:]
        await only.end("HUMAN_REJECTED", *last)
        await only.advance()
        group = await only.group()
        assert group["status"] == "COMPLETED"
        assert group["counts"] == {
            "waiting": 0, "running": 0, "reviewing": 0, "succeeded": 4, "failed": 1, "canceled": 1,
        }  # fmt: skip


async def test_a_group_stops_after_failures(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add(plan={**PLAN, "parallel": 2, "stop_after_failures": 1})
        await only.advance()
        one, two = [run["_id"] for run in await only.runs()]
        await only.end("FAILED", one)
        await only.advance()
        assert (await only.group())["status"] == "CLOSING"
        await only.end("FAILED", two)
        await only.advance()
        group = await only.group()
        assert (group["status"], group["next"]) == ("FAILED", 2)
        assert "1 members failed" in group["journal"][0]["reason"]


async def test_a_retry_keeps_its_slot_is_made_once_and_opens_a_closed_group_until_it_ends(
    database_url: str,
) -> None:
    async with replicas(database_url, 2) as (one, two):
        await one.add(plan={"kind": "matrix", "rows": [{"seconds": 1}], "parallel": 1})
        await one.advance()
        (member,) = await one.runs()
        await one.end("FAILED", member["_id"])
        await one.advance()
        assert (await one.group())["status"] == "FAILED"
        with pytest.raises(Conflict, match="whose plan says what runs there"):
            await one.deps.submitter.retry(member["_id"], by="ada", patch={"seconds": 9})
        made = await asyncio.gather(
            *(each.deps.submitter.retry(member["_id"], by="ada") for each in (one, two, one, two))
        )
        assert len({each.run_id for each in made}) == 1
        assert sum(each.is_new for each in made) == 1
        runs = await one.runs()
        assert slots(runs) == [0, 0]
        assert runs[1]["parentRunId"] == member["_id"]
        assert (await one.group())["status"] == "CLOSING"
        await one.advance()
        assert (await one.group())["counts"]["waiting"] == 1
        await one.end("COMPLETED", runs[1]["_id"])
        await one.advance()
        assert (await one.group())["status"] == "CLOSING"  # the retry might still be on its way
        await one.db.groups.update_one({}, [{"$set": {"holdUntil": {"$dateSubtract": {
            "startDate": "$$NOW", "unit": "second", "amount": 1}}}}])  # fmt: skip
        await one.advance()
        group = await one.group()
        assert (group["status"], group["counts"]["succeeded"], group["counts"]["failed"]) == (
            "COMPLETED",
            1,
            0,
        )
        assert await one.db.run_specs.count_documents({}) == 2


async def test_a_group_does_not_close_between_the_steps_of_a_retry(database_url: str) -> None:
    async with replicas(database_url, 2) as (one, two):
        await one.add(plan={"kind": "matrix", "rows": [{"seconds": 1}], "parallel": 1})
        await one.advance()
        (member,) = await one.runs()
        await one.end("FAILED", member["_id"])

        class Slow(Submissions):
            async def enqueue(self, *wanted: Any) -> dict[str, Any] | None:
                await two.advance()
                return await super().enqueue(*wanted)

        known = one.deps.submitter
        slow = Submitter(known.runs, Slow(one.db), known.ids, known.reads, known.groups)
        assert (await slow.retry(member["_id"], by="ada")).is_new
        await two.advance()
        group = await one.group()
        assert (group["status"], group["counts"]["waiting"]) == ("OPEN", 1)


async def test_a_new_round_has_slots_of_its_own_and_the_earlier_one_stays(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add(plan={"kind": "matrix", "rows": [{"seconds": 1}, {"seconds": 2}], "parallel": 2})
        await only.advance()
        await only.end("COMPLETED", *(run["_id"] for run in await only.runs()))
        await only.advance()
        with pytest.raises(Conflict, match="at revision 2, not 1"):
            await only.service.again("g", revision=1, by="ada")
        await only.service.again("g", revision=2, by="ada")
        with pytest.raises(Conflict, match="the group is OPEN"):
            await only.service.again("g", revision=None, by="ada")
        await only.advance()
        assert slots(await only.runs()) == [0, 1, 2, 3]
        group = await only.group()
        assert (group["round"], group["first"], group["next"]) == (2, 2, 4)
        assert group["rounds"][0]["status"] == "COMPLETED"
        assert group["rounds"][0]["counts"]["succeeded"] == 2


async def test_an_edit_is_for_the_revision_that_was_read_and_for_a_group_that_does_not_run(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add()
        with pytest.raises(Conflict, match="edit is for a group that is"):
            await only.service.edit("g", revision=1, by="ada", plan={**PLAN, "parallel": 1})
        await only.advance()
        await only.service.pause("g", by="ada")
        with pytest.raises(Conflict, match="only budget_usd, max_cost_usd, max_runs, "):
            await only.service.edit("g", revision=2, by="ada", plan={**PLAN, "values": {"seconds": [9]}})
        edits = [only.service.edit("g", revision=2, by=by, plan={**PLAN, "parallel": 6}) for by in "ab"]
        refused = await asyncio.gather(*edits, return_exceptions=True)
        assert Counter(type(each).__name__ for each in refused) == {"NoneType": 1, "OutOfDate": 1}
        await only.service.resume("g", by="ada")
        await only.advance()
        assert slots(await only.runs()) == list(range(6))


async def test_a_kind_that_takes_a_specification_no_more_pauses_the_group_with_the_reason(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add()
        await only.db.groups.update_one({}, {"$set": {"run.spec": {"gone": 1}}})
        assert await only.advance() == 0
        group = await only.group()
        assert group["status"] == "PAUSED"
        assert "gone" in group["journal"][-1]["reason"]
        await only.service.cancel("g", by="ada")
        await only.advance()
        assert (await only.group())["status"] == "CANCELED"
        assert await only.runs() == []


async def test_a_row_that_its_kind_refuses_is_named_and_nothing_is_stored(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        plan = {"kind": "matrix", "values": {"seconds": [1, 2], "events": [1, -1]}, "parallel": 1}
        with pytest.raises(Rejected, match=r"row 2 of 4 \(seconds=1, events=-1\): .*`\$\.events`"):
            await only.add(plan=plan)
        with pytest.raises(Rejected, match="bytes"):
            await only.add(plan={"kind": "matrix", "rows": [{"end": "x" * (1 << 20)}], "parallel": 1})
        assert await only.db.groups.count_documents({}) == 0


async def test_a_large_matrix_is_filled_in_parts(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        count = 3 * FILL_MAX + 7
        plan = {"kind": "matrix", "values": {"events": list(range(count))}, "parallel": count}
        await only.add(plan=plan)
        assert await only.advance() == count
        group = await only.group()
        assert (group["next"], group["filled"]) == (count, count)
        assert group["counts"]["waiting"] == count


async def test_a_study_tries_its_space_until_its_target_over_any_number_of_replicas(
    database_url: str,
) -> None:
    plan = {
        "kind": "study", "sampler": "random", "goal": "min:value", "max_runs": 60, "parallel": 4,
        "space": {
            "seconds": {"type": "uniform", "low": 0, "high": 4},
            "events": {"type": "int", "low": 1, "high": 9},
        },
        "baseline": {"seconds": 3.5, "events": 9}, "target": 0.5, "seed": 7,
    }  # fmt: skip
    async with replicas(database_url, 3) as every:
        only = every[0]
        await only.add(plan=plan)
        for _ in range(30):
            await asyncio.gather(*(each.advance() for each in every))
            going = [run for run in await only.runs() if run["status"] == "QUEUED"]
            if not going:
                break
            assert len(going) <= 4
            specs = await only.specs(going)
            for run in going:
                value = abs(specs[run["_id"]]["seconds"] - 1)
                sets = {"status": "COMPLETED", "summary": {"value": value}}
                await only.db.runs.update_one({"_id": run["_id"]}, {"$set": sets})
        await only.advance()
        group, runs = await only.group(), await only.runs()
        assert group["status"] == "COMPLETED"
        assert "reached" in group["journal"][0]["reason"]
        assert slots(runs) == list(range(len(runs)))
        specs = await only.specs(runs)
        assert specs[runs[0]["_id"]]["seconds"] == 3.5
        assert specs[runs[0]["_id"]]["events"] == 9
        tried = {(each["seconds"], each["events"]) for each in specs.values()}
        assert len(tried) == len(runs)
        assert len([1 for run in runs if run["summary"]["value"] <= 0.5]) >= 1


async def test_a_study_ends_when_nothing_else_is_left_and_edits_keep_its_space(database_url: str) -> None:
    plan = {
        "kind": "study", "sampler": "grid", "goal": "min:value", "max_runs": 9, "parallel": 9,
        "space": {"end": {"type": "values", "values": ["completed", "exit"]}},
    }  # fmt: skip
    async with replicas(database_url, 1) as (only,):
        await only.add(plan=plan)
        await only.advance()
        assert slots(await only.runs()) == [0, 1]
        assert (await only.group())["status"] == "CLOSING"
        assert (await only.group())["journal"][0]["reason"] == "nothing else is left to try"
        await only.end("FAILED", *(run["_id"] for run in await only.runs()))
        await only.advance()
        assert (await only.group())["status"] == "FAILED"
        with pytest.raises(Rejected, match=r"row 1 of 1 \(end='never'\)"):
            await only.add("h", plan={**plan, "space": {"end": {"type": "values", "values": ["never"]}}})


SPOILED: list[tuple[dict[str, Any], str]] = [
    ({"counts.succeeded": 5}, "group-counts"),
    ({"status": "FAILED"}, "group-closed"),
    ({"filled": 1}, "group-closed"),
    ({"next": 1, "filled": 1}, "group-slots"),
    ({"next": 3, "filled": 3}, "group-slots"),
    ({"more": 1}, "field-without-writer"),
    ({"status": "LOST"}, "unreadable"),
    ({"first": "x"}, "unreadable"),
]


async def test_a_group_that_cannot_be_served_keeps_no_later_one_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advancer, "BATCH_MAX", 1)
    async with replicas(database_url, 1) as (only,):
        await only.add("a")
        await only.add("b")
        await only.db.groups.update_one({"_id": "a"}, {"$unset": {"since": 1}})
        with pytest.raises(KeyError):
            await only.advance()
        assert slots(await only.runs("b")) == [0, 1, 2, 3]


async def test_numbers_beyond_32_bits_come_back_as_they_were(database_url: str) -> None:
    spec = {"idea": IDEA, "max_cost_usd": 2**40}
    space = {"max_tokens": {"type": "int", "low": 2**40, "high": 2**40 + 1}}
    plan = {"kind": "study", "sampler": "random", "goal": "min:nodes", "max_runs": 2, "parallel": 1}
    async with replicas(database_url, 1) as (only,):
        await only.add(run={"kind": "experiment", "spec": spec}, plan={**plan, "space": space}, paused=True)
        await only.service.edit("g", revision=1, by="ada", plan={**plan, "space": space, "parallel": 2})
        await only.service.resume("g", by="ada")
        for _ in range(2):
            await only.advance()
            await only.end("FAILED", *[run["_id"] for run in await only.runs()])
        specs = await only.specs(await only.runs())
        assert sorted(each["max_tokens"] for each in specs.values()) == [2**40, 2**40 + 1]
        names = ["idea", "max_tokens", "max_tokens.inner"]  # the store takes no two places that overlap
        found = await Groups(only.db).values([run["_id"] for run in await only.runs()], names)
        assert {type(each["max_tokens"]) for each in found.values()} == {int}


async def test_an_audit_compares_groups_with_their_members(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add(plan={"kind": "matrix", "rows": [{"seconds": 1}, {"seconds": 2}], "parallel": 2})

        async def found() -> set[str]:
            auditor = Verifier(VerifyReads(only.db), second_look_s=0.0)
            every = [each async for each in auditor.audit(rebuilds=True)]
            return {each.invariant for each in every if each.run_id.startswith("group ")}

        await only.advance()
        assert await found() == set()
        members = [run["_id"] for run in await only.runs()]
        await only.end("COMPLETED", *members)
        await only.advance()
        assert await found() == set()
        whole = await only.group()
        for spoiled, invariant in SPOILED:
            await only.db.groups.update_one({}, {"$set": spoiled})
            assert invariant in await found(), spoiled
            await only.db.groups.replace_one({}, whole)
        await only.db.runs.drop_index("by_slot")
        await only.db.runs.update_one({"_id": members[0]}, {"$set": {"slot": 1}})
        assert await found() >= {"slot-shared", "group-slots"}
        await only.db.groups.delete_one({})
        assert await found() == {"group-missing"}
        await only.db.runs.delete_many({})
        await schema.migrate(only.db)


@asynccontextmanager
async def asking(replica: Replica) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(replica.deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_a_group_over_http_from_its_creation_to_its_end(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        body = {"id": "sweep", "run": RUN, "plan": PLAN}
        made = await client.post("/api/groups", json=body, headers={"Idempotency-Key": "k"})
        assert (made.status_code, made.headers["location"]) == (201, "/api/groups/sweep")
        assert made.headers["etag"] == '"1"'
        told = made.json()
        assert (told["status"], told["slots"], told["plan"]["values"]) == ("OPEN", 6, PLAN["values"])
        assert told["run"]["max_attempts"] == 3
        same = await client.post("/api/groups", json=body, headers={"Idempotency-Key": "k"})
        assert (same.status_code, same.json()["revision"]) == (200, 1)
        other = await client.post("/api/groups", json=body, headers={"Idempotency-Key": "other"})
        assert (other.status_code, other.json()["code"]) == (409, "group_exists")
        await only.advance()
        members = (await client.get("/api/runs", params={"group": "sweep", "status": "QUEUED"})).json()
        assert sorted(each["slot"] for each in members["items"]) == [0, 1, 2, 3]
        assert {each["groupId"] for each in members["items"]} == {"sweep"}
        (row,) = (await client.get("/api/groups")).json()["items"]
        assert (row["id"], row["next"], "values" in row["plan"]) == ("sweep", 4, False)
        paused = await client.post("/api/groups/sweep/pause", json={"note": "wait"})
        assert (paused.json()["status"], paused.json()["journal"][-1]["reason"]) == ("PAUSED", "wait")
        assert (await client.post("/api/groups/sweep/pause")).status_code == 200
        edit = {"plan": {**PLAN, "parallel": 6}}
        lacking = await client.patch("/api/groups/sweep", json=edit)
        assert lacking.status_code == 422
        stale = await client.patch("/api/groups/sweep", json=edit, headers={"If-Match": '"1"'})
        assert stale.status_code == 412
        edited = await client.patch(
            "/api/groups/sweep", json=edit, headers={"If-Match": paused.headers["etag"]}
        )
        assert (edited.status_code, edited.json()["plan"]["parallel"]) == (200, 6)
        assert (await client.post("/api/groups/sweep/resume")).json()["status"] == "OPEN"
        assert (await client.post("/api/groups/sweep/cancel")).json()["status"] == "CANCELING"
        again = await client.post("/api/groups/sweep/again")
        assert (again.status_code, again.json()["code"]) == (409, "illegal_group_action")
        assert (await client.get("/api/groups/unknown")).status_code == 404


async def test_the_pages_of_a_group_show_its_members_its_best_and_its_failures(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        assert "No groups yet" in (await client.get("/groups")).text
        await only.add("sweep")
        empty = await client.get("/groups/sweep")
        assert "No member is submitted yet" in empty.text
        await only.advance()
        runs = await only.runs("sweep")
        await only.end("COMPLETED", *(run["_id"] for run in runs[:3]))
        for run, value in zip(runs, (0.5, 0.25, 0.75), strict=False):
            summary = {"loss": value, "note": "text"}
            await only.db.runs.update_one({"_id": run["_id"]}, {"$set": {"summary": summary}})
        await only.end("FAILED", runs[3]["_id"])
        error = {"code": "OUT_OF_<MEMORY>", "message": "it was too much"}
        await only.db.runs.update_one({"_id": runs[3]["_id"]}, {"$set": {"error": error}})
        await only.advance()
        page = (await client.get("/groups/sweep")).text
        for words in (
            "Best so far",
            "OUT_OF_&lt;MEMORY&gt;",
            "<th>artifact_bytes</th>",
            "6 of 6 slots submitted",
        ):
            assert words in page, words
        lowest, highest = page.index("0.25"), page.index("0.75")
        assert lowest < highest
        other = (await client.get("/groups/sweep", params={"by": "max:loss"})).text
        assert other.index("0.75") < other.index("0.25")
        for words in ("best so far", "Axes: seconds, artifact_bytes, loss.", "2 others", "the lowest loss"):
            assert words in page, words
        for by in ("max:a.b", "loss", "min:$where", "min:" + "x" * 70):
            assert (await client.get("/groups/sweep", params={"by": by})).status_code == 422
        part = (await client.get("/groups/sweep", params={"limit": 4})).text
        assert "Further slots" in part
        assert "sweep" in (await client.get("/groups")).text
        assert "by_group" in await plan_of_members(only)
        done = await client.post("/groups/sweep/pause", data={"note": "no <b>budget</b>"})
        assert (done.status_code, done.headers["location"]) == (303, "/groups/sweep")
        assert "no &lt;b&gt;budget&lt;/b&gt;" in (await client.get("/groups/sweep")).text
        assert (await client.post("/groups/sweep/again", data={"revision": "2"})).status_code == 409
        assert (await client.post("/groups/sweep/resume")).status_code == 303
        assert (await client.post("/groups/sweep/cancel")).status_code == 303
        await only.advance()
        await only.advance()
        group = await only.group("sweep")
        assert group["status"] == "CANCELED"
        again = await client.post("/groups/sweep/again", data={"revision": str(group["revision"])})
        assert again.status_code == 303
        assert "Earlier rounds" in (await client.get("/groups/sweep")).text


async def test_the_curves_of_a_group_are_one_metric_of_its_members_whatever_its_log_says(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_numbers, "POINTS_MAX", 4)
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        await only.add("sweep")
        assert "No member has measured anything" in (await client.get("/groups/sweep/curves")).text
        await only.advance()
        first, second, *_ = (run["_id"] for run in await only.runs("sweep"))
        await only.db.runs.update_many({"groupId": "sweep"}, {"$set": {"attempt": 1}})
        lies: list[Any] = [{"value": "high"}, {"value": [1]}, {"step": {"$gt": 1}}, {"value": float("nan")}]
        measured = [{"value": 10.0 - step, "step": step} for step in range(10)] + [{"value": 7.5}]
        events = [
            {"_id": f"{run_id}-{number}", "runId": run_id, "type": type_of(StageMetric), "position": number,
             "data": {"stage": "<b>", "name": "loss", **data}}
            for run_id, told in ((first, measured), (second, lies))
            for number, data in enumerate(told)
        ]  # fmt: skip
        await only.db.events.insert_many(events)
        page = (await client.get("/groups/sweep/curves")).text
        assert "&lt;b&gt;: loss" in page
        assert "<b>" not in page
        assert "10 last" not in page
        # eleven numbers, three of them apart: the last, and then each third before it
        assert [f'data-x="{step}.0"' in page for step in range(11)] == [
            at in (1, 4, 7, 10) for at in range(11)
        ]
        other = await client.get("/groups/sweep/curves", params={"metric": "<b>: other", "log": "on"})
        assert "No member that was looked at measured &lt;b&gt;: other" in other.text
        for wrong in ({"metric": "x" * 1_001}, {"log": "yes"}):
            assert (await client.get("/groups/sweep/curves", params=wrong)).status_code == 422
        assert (await client.get("/groups/unknown/curves")).status_code == 404


def form_of(html: str) -> dict[str, str]:
    """Return what the form of the edit page would send, as a browser reads it."""
    (form,) = re.findall(r'<form class="stack panel".*?</form>', html, re.DOTALL)
    texts = dict(re.findall(r'<input[^>]*? name="([^"]+)"[^>]*? value="([^"]*)"', form))
    texts |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL))
    return {name: unescape(text) for name, text in texts.items()}


async def test_a_group_is_changed_by_its_form_and_the_second_browser_is_told_what_changed(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        await only.add("sweep")
        address = "/groups/sweep/edit"
        assert "Change…" not in (await client.get("/groups/sweep")).text
        open_still = await client.get(address)
        assert (open_still.status_code, "pause it before" in open_still.text) == (409, True)
        await only.service.pause("sweep", by="ada")
        assert address in (await client.get("/groups/sweep")).text
        first = second = form_of((await client.get(address)).text)
        assert {"revision", "parallel", "stop_after_failures", "budget_usd", "plan", "run"} == {*first}
        plan = {"kind": "matrix", "values": {"seconds": [7, 8]}}
        saved = await client.post(address, data={**first, "plan": json.dumps(plan), "parallel": "9"})
        assert (saved.status_code, saved.headers["location"]) == (303, "/groups/sweep")
        assert (await only.group("sweep"))["plan"] == {**plan, "parallel": 9}
        late = await client.post(address, data={**second, "stop_after_failures": "3"})
        assert late.status_code == 412
        for words in ("edit by loopback", "plan.parallel", "plan.values.seconds", "[7, 8]", "[1, 2, 3]"):
            assert words in unescape(late.text), words
        kept = form_of(late.text)
        assert (kept["stop_after_failures"], kept["parallel"], kept["revision"]) == ("3", "4", "3")
        assert (await client.post(address, data=kept)).status_code == 303, "whoever was told saves over it"
        assert (await only.group("sweep"))["plan"] == {**PLAN, "stop_after_failures": 3}
        await only.service.resume("sweep", by="ada")
        await only.advance()
        await only.service.pause("sweep", by="ada")
        begun = form_of((await client.get(address)).text)
        assert {*begun} == {"revision", "parallel", "stop_after_failures", "budget_usd"}
        changed = await client.post(address, data={**begun, "parallel": "1", "stop_after_failures": ""})
        assert changed.status_code == 303
        assert (await only.group("sweep"))["plan"] == {**PLAN, "parallel": 1}


LIES: list[tuple[dict[str, str], str]] = [
    ({"revision": ""}, "The page is too old"),
    ({"revision": "9" * 31}, "The page is too old"),
    ({"parallel": "0"}, "parallel: at least 1"),
    ({"parallel": "[" * 500}, "Runs at once:"),
    ({"parallel": "1.5"}, "parallel: a whole number"),
    ({"plan": "{"}, "Plan:"),
    ({"plan": "[]"}, "Plan: a JSON object"),
    ({"plan": '{"kind": ["matrix"]}'}, "plan:"),
    ({"plan": '{"kind": "matrix", "values": {"$where": [1]}}'}, "values:"),
    ({"plan": '{"kind": "matrix", "values": {"unknown": [1]}}'}, "unknown"),
    ({"run": "null"}, "What each slot runs: a JSON object"),
    ({"run": '{"kind": "<b>nothing"}'}, "&lt;b&gt;nothing"),
    ({"run": '{"kind": "probe", "secrets": ["NOT_THERE"]}'}, "NOT_THERE"),
]


async def test_a_form_that_lies_changes_no_group(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        await only.add("sweep", paused=True)
        before = await only.group("sweep")
        typed = form_of((await client.get("/groups/sweep/edit")).text)
        for lie, words in LIES:
            answer = await client.post("/groups/sweep/edit", data={**typed, **lie})
            assert (answer.status_code, words in answer.text) == (422, True), (lie, answer.text)
        assert await only.group("sweep") == before
        assert (await client.post("/groups/unknown/edit", data=typed)).status_code == 404


async def test_the_best_and_the_causes_of_a_group_are_those_of_its_slots_as_they_stand(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add(plan={"kind": "matrix", "values": {"seconds": [1, 2, 3]}, "parallel": 3})
        await only.advance()
        good, bad, retried = (run["_id"] for run in await only.runs())
        error = {"code": "OUT_OF_LUCK", "message": "it failed after its number was known"}
        for run_id, loss in ((good, 0.5), (bad, 0.1), (retried, 0.2)):
            told = {
                "summary": {"loss": loss},
                "summaryAttempt": 1,
                "error": None if run_id == good else error,
            }
            await only.db.runs.update_one({"_id": run_id}, {"$set": told})
        await only.end("COMPLETED", good)
        await only.end("FAILED", bad, retried)
        again = await only.deps.submitter.retry(retried, by="ada")
        await only.db.runs.update_one(
            {"_id": again.run_id}, {"$set": {"summary": {"loss": 0.7}, "summaryAttempt": 1}}
        )
        await only.end("HUMAN_REJECTED", again.run_id)
        best = await only.deps.groups.reading.groups.best("g", 0, "loss", 1)
        assert best == [
            {"_id": good, "slot": 0, "value": 0.5},
            {"_id": again.run_id, "slot": 2, "value": 0.7},
        ]
        causes = await only.deps.groups.reading.groups.causes("g", 0)
        assert [(each["_id"], each["count"], each["run"]) for each in causes] == [("OUT_OF_LUCK", 1, bad)]


async def plan_of_members(replica: Replica) -> str:
    """Return how MongoDB counts the members of a group: which index, and that it looks at no document."""
    match = {"$match": {"groupId": "sweep", "slot": {"$gte": 0}}}
    stages = [match, {"$sort": {"_id": -1}}, {"$group": {"_id": "$slot", "status": {"$first": "$status"}}}]
    told = await replica.db.command(
        {"explain": {"aggregate": "runs", "pipeline": stages, "hint": "by_group", "cursor": {}},
         "verbosity": "executionStats"}
    )  # fmt: skip
    text = str(told)
    assert "FETCH" not in text
    assert "'totalDocsExamined': 0" in text
    return text


STUDY: dict[str, Any] = {
    "kind": "study", "sampler": "random", "goal": "min:value", "max_runs": 4,
    "space": {"seconds": {"type": "log", "low": 0.1, "high": 1}},
}  # fmt: skip
WRONG_STUDIES: list[dict[str, Any]] = [
    {"sampler": "magic"},
    {"goal": "loss"},
    {"goal": "min:a.b"},
    {"goal": "min:$where"},
    {"max_runs": 0},
    {"max_runs": 2_001},
    {"repeats": 5},
    {"space": {}},
    {"space": {"seconds": {"type": "log", "low": 0, "high": 1}}},
    {"space": {"seconds": {"type": "int", "low": 0.5, "high": 1.5}}},
    {"space": {"seconds": {"type": "values", "values": []}}},
    {"space": {"seconds": {"type": "uniform", "low": 0, "high": 1e301}}},
    {"space": {"seconds": {"type": "uniform", "low": 0, "high": 1e9}}},
    {"space": {"seconds": {"type": "values", "values": [1], "low": 1}}},
    {"baseline": {"events": 1}},
    {"target": "low"},
    {"baseline_every": 2},
    {"confirm": {"top": 0}},
    {"confirm": {"top": 2, "repeats": 2}},
    {"max_seconds": 0},
    {"max_cost_usd": 1.0},
    {"goal": ["min:value", "min:value"]},
]
WRONG: list[dict[str, Any]] = [
    {"id": "Not A Slug"},
    {"plan": {"kind": "race"}},
    {"plan": {**PLAN, "rows": [{"seconds": 1}]}},
    {"plan": {"kind": "matrix"}},
    {"plan": {"kind": "matrix", "values": {}}},
    {"plan": {"kind": "matrix", "values": {"seconds": []}}},
    {"plan": {"kind": "matrix", "values": {"$where": [1]}}},
    {"plan": {"kind": "matrix", "values": {".": [1]}}},
    {"plan": {"kind": "matrix", "values": {"seconds": "1"}}},
    {"plan": {"kind": "matrix", "values": {"seconds.deep": [1]}},
     "run": {"kind": "probe", "spec": {"seconds": 1}}},
    {"plan": {"kind": "matrix", "values": {f"p{n}": [1] for n in range(21)}}},
    {"plan": {"kind": "matrix", "rows": [{"seconds": 1}] * 10_001}},
    {"plan": {"kind": "matrix", "rows": [{}]}},
    {"plan": {"kind": "matrix", "rows": [{"end": "\x00"}]}},
    {"plan": {**PLAN, "parallel": 0}},
    {"plan": {**PLAN, "parallel": 10_001}},
    {"plan": {**PLAN, "stop_after_failures": True}},
    {"plan": {**PLAN, "more": 1}},
    *({"plan": {**STUDY, **wrong}} for wrong in WRONG_STUDIES),
    {"run": {"kind": "nothing"}},
    {"run": {"kind": "probe", "spec": {"unknown": 1}}},
    {"run": {"kind": "probe", "priority": 1_000}},
    {"run": {"kind": "probe", "requires": {"gpu_gib": "much"}}},
]  # fmt: skip


async def test_what_is_no_group_is_refused(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        for wrong in WRONG:
            body = {"id": "g", "run": RUN, "plan": PLAN, **wrong}
            answer = await client.post("/api/groups", json=body)
            assert answer.status_code == 422, (wrong, answer.text)
        for match in ("x", "-1", "1" * 31, '"²"'):
            sent = {"If-Match": match.encode()}
            answer = await client.patch("/api/groups/g", json={}, headers=sent)
            assert answer.status_code == 422, (match, answer.text)
        assert await only.db.groups.count_documents({}) == 0


async def test_the_secrets_of_members_are_those_that_whoever_named_them_may_name(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        sealed = {"kinds": [], "keys": ["ada"], "sealed": {}}
        await only.db.secrets.insert_one({"_id": "TOKEN", **sealed})
        run = {"kind": "probe", "spec": {}, "secrets": ["TOKEN"]}
        with pytest.raises(Rejected, match="TOKEN"):
            await only.add("theirs", run=run, by="bob")
        await only.add(run=run, by="ada")
        await only.service.pause("g", by="ada")
        with pytest.raises(Rejected, match="TOKEN"):
            await only.service.edit("g", revision=2, by="bob", run={**run, "priority": 1})
        other = {**PLAN, "values": {"seconds": [7]}}
        with pytest.raises(Rejected, match="TOKEN"):  # values are what the secret is used for
            await only.service.edit("g", revision=2, by="bob", plan=other)
        await only.service.edit("g", revision=2, by="bob", plan={**PLAN, "parallel": 2})
        await only.service.resume("g", by="bob")
        await only.advance()
        members = await only.db.runs.find({"groupId": "g"}).to_list()
        assert {tuple(each["secrets"]) for each in members} == {("TOKEN",)}
        await only.add("later", run=run, by="ada")
        await only.db.secrets.delete_one({"_id": "TOKEN"})  # while the group is about to submit
        await only.advance()
        assert await only.db.runs.count_documents({"groupId": "later"}) == 0
        stopped = await only.db.groups.find_one({"_id": "later"})
        assert (stopped["status"], "TOKEN" in stopped["journal"][-1]["reason"]) == ("PAUSED", True)
