"""Races on a real MongoDB: one start, whoever decides, dies or comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from control_plane.model.views.readable import UnreadableDocument
from control_plane.runs.decisions import Decider
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.standing import with_race
from control_plane.store.database import Document
from control_plane.store.queue.groups import Entry, Groups
from events.answers.plans.races import RaceStanding
from events.runtime.errors import Conflict, Rejected
from tests.integration.dying import Died, DiesAt
from tests.integration.test_groups import Replica, asking, replicas

PODS = ("a", "b", "c")
RACE: dict[str, Any] = {
    "kind": "race", "lanes": [{"pod": pod} for pod in PODS], "ready_s": 600.0, "limit_s": 600.0,
}  # fmt: skip


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


class Track:
    """A race whose pods are played."""

    def __init__(self, replica: Replica) -> None:
        self.replica, self.db = replica, replica.db

    async def begin(self, **plan: Any) -> list[str]:
        """Make a race of pods that report, and let its lanes be submitted."""
        for pod in PODS:
            said = {"pod": pod, "state": "idle", "kinds": ["probe"], "region": None, "checks": []}
            update = {"$set": said, "$currentDate": {"reportedAt": True}}
            await self.db.pods.update_one({"_id": f"{pod}/1"}, update, upsert=True)
        await self.replica.add(plan={**RACE, **plan})
        assert await self.replica.advance() == len(PODS)
        return [run["_id"] for run in await self.replica.runs()]

    async def hold(self, *run_ids: str, ready: bool = True) -> None:
        """Let pods hold lanes, which are ready or not."""
        changed = {"$set": {"status": "RUNNING", "attempt": 1}}
        await self.db.runs.update_many({"_id": {"$in": run_ids}}, changed)
        for run_id in run_ids if ready else ():
            said = {"runId": run_id, "attempt": 1, "hearsS": 0.5, "offsetS": 0.0, "boundS": 0.001}
            pipeline = [{"$set": {**said, "readyAt": "$$NOW"}}]
            await self.db.lanes.update_one({"_id": f"{run_id}/a1/lane"}, pipeline, upsert=True)

    async def late_by(self, seconds: float) -> None:
        """Let the lanes have been submitted, and the race have started, so long ago."""
        back = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(seconds)}}
        await self.db.runs.update_many({}, [{"$set": {"createdAt": back}}])

    async def start(self) -> datetime | None:
        start = (await self.replica.group()).get("start")
        return None if start is None else start["at"]

    async def told(self) -> set[datetime | None]:
        return {run.get("startAt") for run in await self.replica.runs()}

    async def standing(self) -> RaceStanding:
        reading = self.replica.deps.groups.reading
        group = await with_race(self.replica.deps.reading, reading.groups, await reading.group("g"))
        assert isinstance(group.race, RaceStanding)
        return group.race


async def test_lanes_are_pinned_and_start_at_one_moment_whoever_decides(database_url: str) -> None:
    async with replicas(database_url, 4) as every:
        track = Track(every[0])
        lanes = await track.begin()
        runs = await every[0].runs()
        assert [run["classKey"] for run in runs] == [f"~{pod}/probe/cpu/any" for pod in PODS]
        specs = await track.db.run_specs.find({}).to_list()
        assert [each["barrier"] for each in specs] == [True] * 3
        await track.hold(*lanes[:2])
        await track.hold(lanes[2], ready=False)
        await every[1].advance()
        assert await track.start() is None
        assert [each.state for each in (await track.standing()).lanes] == ["ready", "ready", "preparing"]
        await track.hold(lanes[2])
        await asyncio.gather(*(each.advance() for each in every))
        start = await track.start()
        assert start is not None
        now = await track.db.client.admin.command("hello")
        assert abs(start.replace(tzinfo=None) - now["localTime"]) < timedelta(seconds=600)
        await asyncio.gather(*(each.advance() for each in every))
        assert await track.told() == {start} == {await track.start()}
        group = await every[0].group()
        assert [(each["action"], each["reason"]) for each in group["journal"]] == [
            ("start", "3 of 3 lanes are ready")
        ]


async def test_a_dead_lane_holds_nobody_and_a_missing_one_until_the_deadline(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        lanes = await track.begin(ready_s=60.0)
        await track.hold(lanes[0])
        await only.end("FAILED", lanes[1])
        await only.advance()
        assert await track.start() is None
        await track.late_by(61)
        await only.advance()
        start = await track.start()
        assert start is not None
        group = await only.group()
        assert group["start"]["missing"] == [2]
        assert group["journal"][0]["reason"] == "1 of 3 lanes are ready, 1 ended before; 60 s are over"
        told = {run["slot"]: run.get("startAt") for run in await only.runs()}
        assert told == {0: start, 1: None, 2: start}
        await track.db.groups.update_one({}, [{"$set": {"start.at": {"$subtract": ["$start.at", 10_000]}}}])
        assert [each.state for each in (await track.standing()).lanes] == ["ready", "dead", "dead"]


async def test_lanes_over_the_limit_are_given_up_and_the_race_ends(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        lanes = await track.begin(limit_s=60.0)
        await track.hold(*lanes[:2])
        await only.end("FAILED", lanes[2])
        await only.advance()
        await only.end("COMPLETED", lanes[0])
        await track.db.groups.update_one({}, [{"$set": {"start.at": {"$subtract": ["$start.at", 70_000]}}}])
        await track.db.runs.update_one({"_id": lanes[1]}, {"$set": {"status": "QUEUED"}})  # its pod is gone
        for _ in range(3):
            await only.advance()
        group = await only.group()
        assert [run["status"] for run in await only.runs()] == ["COMPLETED", "CANCELED", "FAILED"]
        assert (group["status"], group["counts"]["canceled"]) == ("COMPLETED", 1)
        assert "60 s after its start are over" in [each["reason"] for each in group["journal"]]


async def test_a_lane_whose_pod_is_gone_is_given_up_and_one_whose_pod_reports_is_not(
    database_url: str,
) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        lanes = await track.begin()
        await track.hold(*lanes)
        await only.advance()
        await track.db.groups.update_one({}, [{"$set": {"start.at": {"$subtract": ["$start.at", 10_000]}}}])
        await only.end("COMPLETED", lanes[0])
        await track.db.runs.update_many({"_id": {"$in": lanes[1:]}}, {"$set": {"status": "QUEUED"}})
        silent = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": 90}}
        await track.db.pods.update_one({"pod": PODS[2]}, [{"$set": {"reportedAt": silent}}])
        for _ in range(2):
            await only.advance()
        assert [run["status"] for run in await only.runs()] == ["COMPLETED", "QUEUED", "CANCELED"]
        await track.db.lanes.update_many({}, [{"$set": {"startedAt": "$$NOW", "lateS": 0.001}}])
        assert [each.state for each in (await track.standing()).lanes] == ["started", "dead", "dead"]
        assert (await only.group())["status"] == "OPEN"
        await track.db.pods.update_one(
            {"pod": PODS[1]}, {"$set": {"reportedAt": "just now"}}
        )  # as a hand may
        for _ in range(3):
            await only.advance()
        assert (await only.group())["status"] == "COMPLETED"


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("step", ["decide", "start"])
async def test_a_replica_that_dies_at_the_start_leaves_one_moment_to_the_next(
    database_url: str, step: str, answered: bool
) -> None:
    async with replicas(database_url, 2) as (first, second):
        track = Track(first)
        await track.hold(*await track.begin())
        known = first.deps
        groups: Any = DyingGroups(first.db, answered=answered) if step == "decide" else Groups(first.db)
        decider: Any = known.decider
        if step == "start":
            decider = Dying(known.decider, answered=answered)
        with pytest.raises(Died):
            await Advancer(groups, known.submitter, decider).run_once()
        decided = await track.start()
        assert (decided is None) is (step == "decide" and not answered)
        await second.advance()
        await second.advance()
        start = await track.start()
        assert start is not None
        assert decided in (None, start)
        assert await track.told() == {start}
        assert [each["action"] for each in (await second.group())["journal"]] == ["start"]


class DyingGroups(Groups):
    """Groups whose owner dies as it decides."""

    def __init__(self, db: Any, *, answered: bool) -> None:
        super().__init__(db)
        object.__setattr__(self, "answered", answered)

    async def decide(
        self, group: Document, entry: Entry, sets: Mapping[str, Any], guard: Mapping[str, Any] | None = None
    ) -> Document | None:
        dying: Any = DiesAt(Groups(self.db), "decide", answered=vars(self)["answered"])
        found: Document | None = await dying.decide(group, entry, sets, guard)
        return found


class Dying:
    """A decider whose owner dies as it tells a lane when it starts."""

    def __init__(self, decider: Decider, *, answered: bool) -> None:
        self.clock = decider.clock
        self.start = DiesAt(decider, "start", answered=answered).start


async def test_the_next_round_has_a_start_of_its_own(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        await track.hold(*await track.begin())
        await only.advance()
        first = await track.start()
        await only.end("COMPLETED", *(run["_id"] for run in await only.runs()))
        await only.advance()
        await only.service.again("g", revision=None, by="ada")
        assert (await track.standing()).start_at is None
        await only.advance()
        again = [run["_id"] for run in await only.runs()][3:]
        await track.hold(*again)
        await only.advance()
        second = await track.start()
        assert first is not None
        assert second is not None
        assert second > first
        runs = await only.runs()
        assert [run["startAt"] for run in runs] == [first] * 3 + [second] * 3


async def test_what_makes_no_sense_for_a_race_is_refused_with_words(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        lanes = await track.begin()
        with pytest.raises(Conflict, match="cancel it instead"):
            await only.service.pause("g", by="ada")
        await only.end("FAILED", lanes[0])
        with pytest.raises(Conflict, match="run all of them again, `podfleet groups again g`"):
            await only.deps.submitter.retry(lanes[0], by="ada")
        with pytest.raises(Rejected, match="there is no pod 'nobody'"):
            await only.add("other", plan={**RACE, "lanes": [{"pod": "a"}, {"pod": "nobody"}]})
        run = {"kind": "probe", "spec": {}, "requires": {"pod": "a"}}
        with pytest.raises(Rejected, match="say their pods"):
            await only.add("other", run=run, plan=RACE)
        await track.db.pods.update_one({"_id": "b/1"}, {"$set": {"kinds": ["experiment"]}})
        problems = [each.problem for each in (await track.standing()).lanes]
        assert problems[2] is None
        assert problems[1] is not None
        assert "b" in problems[1]
        await only.service.cancel("g", by="ada")
        await only.advance()
        await only.advance()
        assert (await only.group())["status"] == "CANCELED"


async def test_a_race_stands_in_lists_and_on_its_pages(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,), asking(only) as client:
        await Track(only).begin()
        listed = (await client.get("/api/groups")).json()
        assert ([each["id"] for each in listed["items"]], "unreadable" in listed) == (["g"], False)
        page = await client.get("/groups")
        assert (page.status_code, "<td>race</td>" in page.text) == (200, True)
        for part in ("", "/curves"):
            shown = await client.get(f"/groups/g{part}")
            assert (shown.status_code, "race" in shown.text) == (200, True)


async def test_a_race_whose_documents_are_damaged_is_refused_in_words(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        track = Track(only)
        await track.hold(*await track.begin())
        lies: list[tuple[str, str, Any]] = [
            ("groups", "start", {}), ("groups", "start", {"round": 1, "at": 5}),
            ("groups", "run.requires", 7), ("lanes", "readyAt", "soon"), ("lanes", "offsetS", []),
            ("runs", "status", "NOPE"),
        ]  # fmt: skip
        for collection, path, lie in lies:
            sound = await track.db[collection].find_one({})
            assert sound is not None
            await track.db[collection].update_one({"_id": sound["_id"]}, {"$set": {path: lie}})
            with pytest.raises(UnreadableDocument, match="group g cannot be read"):
                await track.standing()
            await track.db[collection].replace_one({"_id": sound["_id"]}, sound)
        assert [each.state for each in (await track.standing()).lanes] == ["ready"] * len(PODS)
