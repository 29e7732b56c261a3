"""Schedules that begin rounds of a group: one for each slot, whoever races or dies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from control_plane.runs.groups.service import GroupService, WantedGroup
from control_plane.runs.schedules.scheduler import Scheduler
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.queue.groups import Groups
from events.runtime.errors import Conflict, Rejected, Transient
from tests.integration import test_groups
from tests.integration.dying import Died, DiesAt
from tests.integration.test_groups import PLAN, RUN, asking
from tests.integration.test_schedules import RARE, Replica, replicas


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


async def closed_group(replica: Replica) -> None:
    """Make a group that has closed, and a schedule of it."""
    await replica.deps.groups.service.create(WantedGroup(id="sweep", run=RUN, plan=PLAN, by="test"))
    await close(replica)
    await replica.add("nightly", run=None, group="sweep")


async def close(replica: Replica) -> None:
    await replica.db.groups.update_one({"_id": "sweep"}, {"$set": {"status": "COMPLETED"}})


async def group(replica: Replica) -> dict[str, Any]:
    found = await replica.db.groups.find_one({"_id": "sweep"})
    assert found is not None
    return found


async def test_replicas_begin_one_round_for_each_slot(database_url: str) -> None:
    async with replicas(database_url, 6) as every:
        only = every[0]
        await closed_group(only)
        slot = await only.make_due("nightly")
        fired = await asyncio.gather(*(each.scheduler.run_once() for each in every))
        assert sum(fired) == 1
        found = await group(only)
        assert (found["round"], found["status"]) == (2, "OPEN")
        assert (found["journal"][-1]["by"], found["tick"]) == (
            "schedule:nightly",
            {"schedule": "nightly", "slot": slot},
        )
        schedule = await only.schedule("nightly")
        assert schedule["last"] == {
            "slot": slot, "outcome": "fired", "runId": None, "groupId": "sweep", "round": 2,
        }  # fmt: skip
        assert schedule["nextAt"] > slot
        late = await only.make_due("nightly")  # the round goes on: the next slot is left out
        assert late == slot or await only.scheduler.run_once() == 0
        await close(only)
        await only.make_due("nightly")  # the same slot, by a replica that comes late
        assert await only.scheduler.run_once() == (late != slot)
        assert await only.scheduler.run_once() == 0


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(("port", "step"), [("groups", "decide"), ("schedules", "change")])
async def test_a_replica_that_dies_leaves_one_round_to_the_next(
    database_url: str, port: str, step: str, answered: bool
) -> None:
    async with replicas(database_url, 2) as (first, second):
        await closed_group(first)
        slot = await first.make_due("nightly", ago=timedelta(minutes=5))
        groups: Any = Groups(first.db)
        schedules: Any = Schedules(first.db)
        if port == "groups":
            groups = DiesAt(groups, step, answered=answered)
        else:
            schedules = DiesAt(schedules, step, answered=answered)
        service = GroupService(groups, first.deps.submitter, first.deps.clock)
        with pytest.raises(Died):
            await Scheduler(schedules, first.deps.submitter, service).run_once()
        if (await group(first))["round"] == 2:
            await close(first)  # the round is short, and over before another replica looks
        await second.scheduler.run_once()
        found = await group(second)
        assert (found["round"], len(found["rounds"])) == (2, 1)
        schedule = await second.schedule("nightly")
        assert (schedule["last"]["slot"], schedule["last"]["outcome"]) == (slot, "fired")


async def test_a_slot_is_left_out_while_a_round_goes_on_and_refused_without_its_group(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,):
        with pytest.raises(Rejected, match="no group 'sweep'"):
            await only.add("nightly", run=None, group="sweep")
        with pytest.raises(Rejected, match="a run or a group"):
            await only.add("nightly", run=None)
        await closed_group(only)
        with pytest.raises(Conflict, match="rounds of group 'sweep'"):
            await only.service.run_now("nightly", by="ada")
        await only.db.groups.update_one({"_id": "sweep"}, {"$set": {"status": "PAUSED"}})
        await only.make_due("nightly")
        assert await only.scheduler.run_once() == 0
        assert (await only.schedule("nightly"))["last"]["outcome"] == "overlapping"
        await only.db.groups.update_one({"_id": "sweep"}, {"$set": {"plan": "damaged"}})
        await refused(only, "unreadable_document")
        await only.db.groups.delete_many({})
        await refused(only, "unknown_group")


async def refused(replica: Replica, code: str) -> None:
    await replica.make_due("nightly")
    assert await replica.scheduler.run_once() == 0
    schedule = await replica.schedule("nightly")
    assert (schedule["last"]["outcome"], schedule["error"]["code"]) == ("refused", code)


async def test_a_slot_waits_for_a_group_that_somebody_changes_in_the_same_moment(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await closed_group(only)
        slot = await only.make_due("nightly")
        service = GroupService(Overtaken(only.db), only.deps.submitter, only.deps.clock)
        with pytest.raises(Transient, match="concurrently"):
            await Scheduler(Schedules(only.db), only.deps.submitter, service).run_once()
        assert await only.scheduler.run_once() == 1
        last = (await only.schedule("nightly"))["last"]
        assert (last["slot"], last["outcome"], last["round"]) == (slot, "fired", 2)


class Overtaken(Groups):
    """Groups of which each has changed before a decision about it is written."""

    async def decide(self, group: dict[str, Any], *rest: Any, **named: Any) -> dict[str, Any] | None:
        await self.db.groups.update_one({"_id": group["_id"]}, {"$inc": {"revision": 1}})
        return await super().decide(group, *rest, **named)


async def test_a_schedule_of_a_group_over_http_and_on_its_pages(database_url: str) -> None:
    async with test_groups.replicas(database_url, 1) as (only,), asking(only) as client:
        await only.add("sweep")
        await only.db.groups.update_one({}, {"$set": {"status": "COMPLETED"}})
        both = {"cron": RARE, "group": "sweep", "run": {"kind": "probe"}}
        for wrong in (
            both,
            {"cron": RARE},
            {"cron": RARE, "group": "No Slug"},
            {"cron": RARE, "group": "none"},
        ):
            answer = await client.post("/api/schedules", json={"id": "nightly", **wrong})
            assert answer.status_code == 422, (wrong, answer.text)
        made = await client.post("/api/schedules", json={"id": "nightly", "cron": RARE, "group": "sweep"})
        assert (made.status_code, made.json()["group"], made.json()["run"]) == (201, "sweep", None)
        now = await client.post("/api/schedules/nightly/run")
        assert (now.status_code, now.json()["code"]) == (409, "schedule_of_group")
        past = await Schedules(only.db).now() - timedelta(minutes=1)
        await only.db.schedules.update_one({"_id": "nightly"}, {"$set": {"nextAt": past}})
        assert await only.deps.scheduler.run_once() == 1
        last = (await client.get("/api/schedules/nightly")).json()["last"]
        assert (last["groupId"], last["round"], last["runId"]) == ("sweep", 2, None)
        page = (await client.get("/schedules/nightly")).text
        assert '<a href="/groups/sweep">sweep</a>, round 2' in page
        assert "Run now" not in page
        assert "group sweep" in (await client.get("/schedules")).text
        form = {"cron": RARE, "time_zone": "UTC", "missed": "one", "overlap": "allow", "do": "add"}
        added = await client.post("/schedules", data={**form, "id": "daily", "group": "sweep"})
        assert (added.status_code, added.headers["location"]) == (303, "/schedules/daily")
        assert 'name="group" maxlength="63" value="sweep"' in (await client.get("/schedules/daily/edit")).text
        doubled = await client.post(
            "/schedules", data={**form, "id": "other", "group": "sweep", "spec": "{}"}
        )
        assert (doubled.status_code, "a group has its own" in doubled.text) == (422, True)
        changed = await client.post("/schedules/daily", data={**form, "kind": "probe", "group": ""})
        assert changed.status_code == 303
        told = (await client.get("/api/schedules/daily")).json()
        assert (told["run"]["kind"], told["group"]) == ("probe", None)
