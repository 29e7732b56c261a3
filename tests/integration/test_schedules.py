"""Schedules on a real MongoDB: one run for each slot, whoever races, dies, or has a wrong clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_plane.config import read_settings
from control_plane.runs.schedules.schedule import run_id
from control_plane.runs.schedules.scheduler import BATCH_MAX, Scheduler
from control_plane.runs.schedules.service import ScheduleService, WantedRun, WantedSchedule
from control_plane.runs.submission import Submission, Submitter
from control_plane.server.deps import Deps, wire
from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.queue.submissions import Submissions
from control_plane.upkeep.spec_sweeper import SpecSweeper
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Rejected
from events.testing import ManualClock
from tests.integration.dying import Died, DiesAt

REPLICAS = 8
RARE = "0 0 29 2 *"  # no slot of its own comes due while a test runs
PROBE = WantedRun(kind="probe", spec={"seconds": 0}, labels={"team": "vision"})


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


class Replica:
    """A control plane of its own on the shared database."""

    def __init__(self, url: str, clock: Any = None) -> None:
        self.client = store.connect(url)
        self.db = store.database(self.client, url)
        names = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
        values = {"MONGODB_URL": url, **dict.fromkeys(names, "127.0.0.1:1")}
        settings = read_settings(values, host="127.0.0.1", port=8700)
        self.deps: Deps = wire(settings, self.db, clock or SystemClock(), SystemIds())

    @property
    def scheduler(self) -> Scheduler:
        return self.deps.scheduler

    @property
    def service(self) -> ScheduleService:
        return self.deps.schedules

    async def add(self, schedule_id: str, **overrides: Any) -> None:
        wanted = {"cron": RARE, "run": PROBE, "by": "test", **overrides}
        await self.service.create(WantedSchedule(id=schedule_id, **wanted))

    async def make_due(self, schedule_id: str, *, ago: timedelta = timedelta(0)) -> datetime:
        """Let the schedule stand before a slot that is past; return that slot."""
        slot = (await Schedules(self.db).now() - ago).replace(second=0, microsecond=0)
        await self.db.schedules.update_one({"_id": schedule_id}, {"$set": {"nextAt": slot}})
        return slot

    async def schedule(self, schedule_id: str) -> dict[str, Any]:
        found = await self.db.schedules.find_one({"_id": schedule_id})
        assert found is not None
        return found

    async def runs(self, schedule_id: str) -> list[dict[str, Any]]:
        cursor = self.db.runs.find({"labelList": f"schedule={schedule_id}"}).sort("_id")
        return await cursor.to_list()


@asynccontextmanager
async def replicas(url: str, count: int, clock: Any = None) -> AsyncIterator[list[Replica]]:
    every = [Replica(url, clock) for _ in range(count)]
    await schema.migrate(every[0].db)
    try:
        yield every
    finally:
        for each in every:
            await each.deps.close()
            await each.client.close()


async def test_a_slot_that_eight_replicas_fire_at_once_has_one_run(database_url: str) -> None:
    async with replicas(database_url, REPLICAS) as every:
        names = [f"s{number}" for number in range(5)]
        for name in names:
            await every[0].add(name)
        expected: dict[str, set[str]] = {name: set() for name in names}
        for turn in range(12):
            for name in names:
                slot = await every[0].make_due(name, ago=timedelta(hours=100 - turn))
                expected[name].add(run_id(name, slot))
            fired = await asyncio.gather(*(each.scheduler.run_once() for each in every))
            assert sum(fired) == len(names)
        for name in names:
            runs = await every[0].runs(name)
            assert {run["_id"] for run in runs} == expected[name]
            assert [run["revision"] for run in runs] == [1] * len(runs)
            assert all(len(run["journal"]) == 1 for run in runs)
        every_run = await every[0].db.runs.count_documents({})
        assert every_run == await every[0].db.run_specs.count_documents({}) == 12 * len(names)


STEPS = [
    ("queue", "put_spec"),
    ("queue", "enqueue"),
    ("schedules", "change"),
]


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(("port", "step"), STEPS)
async def test_a_replica_that_dies_at_any_step_leaves_one_run_to_the_next(
    database_url: str, port: str, step: str, answered: bool
) -> None:
    async with replicas(database_url, 2) as (first, second):
        await first.add("nightly")
        slot = await first.make_due("nightly")
        schedules: Any = Schedules(first.db)
        queue: Any = Submissions(first.db)
        if port == "queue":
            queue = DiesAt(queue, step, answered=answered)
        else:
            schedules = DiesAt(schedules, step, answered=answered)
        submitter = first.deps.submitter
        dying = Scheduler(
            schedules,
            Submitter(submitter.runs, queue, submitter.ids, submitter.reads, submitter.groups),
            first.deps.groups.service,
        )
        with pytest.raises(Died):
            await dying.run_once()
        await second.scheduler.run_once()
        (run,) = await second.runs("nightly")
        assert run["_id"] == run_id("nightly", slot)
        assert (run["status"], run["revision"]) == ("QUEUED", 1)
        assert await second.db.run_specs.count_documents({"_id": run["_id"], "spec": {"seconds": 0}}) == 1
        schedule = await second.schedule("nightly")
        assert schedule["nextAt"] > slot
        assert schedule["last"] == {"slot": slot, "outcome": "fired", "runId": run["_id"]}
        assert await second.scheduler.run_once() == 0


async def test_a_run_that_moved_on_is_not_begun_anew_by_a_replica_that_comes_late(database_url: str) -> None:
    async with replicas(database_url, 2) as (first, second):
        await first.add("nightly")
        slot = await first.make_due("nightly")
        late = await Schedules(second.db).due(10)
        await first.scheduler.run_once()
        identity = run_id("nightly", slot)
        await first.deps.decider.cancel(identity, by="user")
        await second.scheduler._serve(late[0])
        (run,) = await first.runs("nightly")
        assert (run["status"], run["revision"]) == ("CANCELED", 2)


async def test_a_fired_run_says_which_schedule_and_which_slot(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add("nightly")
        slot = await only.make_due("nightly")
        await only.scheduler.run_once()
        (run,) = await only.runs("nightly")
        text = slot.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert run["labels"] == {"team": "vision", "schedule": "nightly", "slot": text}
        assert run["journal"][0]["by"] == "schedule:nightly"


@pytest.mark.parametrize("away", [timedelta(hours=-9), timedelta(hours=9), timedelta(days=400)])
async def test_the_clock_of_a_replica_changes_nothing(database_url: str, away: timedelta) -> None:
    wrong = ManualClock(SystemClock().now() + away)
    async with replicas(database_url, 1, wrong) as (only,):
        await only.add("yearly", cron="@yearly")
        before = (await only.schedule("yearly"))["nextAt"]
        now = SystemClock().now()
        assert before == datetime(now.year + 1, 1, 1, tzinfo=UTC)
        assert await only.scheduler.run_once() == 0
        slot = await only.make_due("yearly")
        assert await only.scheduler.run_once() == 1
        assert [run["_id"] for run in await only.runs("yearly")] == [run_id("yearly", slot)]


async def test_an_outage_is_caught_up_as_the_schedule_wants(database_url: str) -> None:
    async with replicas(database_url, 2) as every:
        now = await Schedules(every[0].db).now()
        # in the middle of an hour and a minute, nothing else can come due while the test runs
        minute = (now - timedelta(minutes=30)).minute
        expected = {"skip": 0, "one": 1, "all": 5}
        for missed in expected:
            await every[0].add(missed, cron=f"{minute} * * * *", missed=missed)
            due = (now - timedelta(hours=4, minutes=30)).replace(second=0, microsecond=0)
            await every[0].db.schedules.update_one({"_id": missed}, {"$set": {"nextAt": due}})
        await asyncio.gather(*(each.scheduler.run_once() for each in every))
        found = {missed: len(await every[0].runs(missed)) for missed in expected}
        assert found == expected
        assert (await every[0].schedule("skip"))["last"]["outcome"] == "late"
        for missed in expected:
            assert (await every[0].schedule(missed))["nextAt"] > now


async def test_a_paused_schedule_rests_and_goes_on_with_the_next_slot(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add("nightly", cron="@daily")
        await only.service.pause("nightly", paused=True, by="test")
        assert (await only.schedule("nightly"))["nextAt"] is None
        assert await only.scheduler.run_once() == 0
        await only.service.pause("nightly", paused=False, by="test")
        assert (await only.schedule("nightly"))["nextAt"] > await Schedules(only.db).now()
        assert await only.scheduler.run_once() == 0
        await only.add("quiet", paused=True)
        assert (await only.schedule("quiet"))["nextAt"] is None


async def test_no_slot_fires_while_the_last_run_goes_on_where_that_is_wanted(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add("one-by-one", overlap="skip")
        first = await only.make_due("one-by-one", ago=timedelta(minutes=2))
        assert await only.scheduler.run_once() == 1
        await only.make_due("one-by-one", ago=timedelta(minutes=1))
        assert await only.scheduler.run_once() == 0
        assert (await only.schedule("one-by-one"))["last"]["outcome"] == "overlapping"
        await only.deps.decider.cancel(run_id("one-by-one", first), by="user")
        await only.make_due("one-by-one")
        assert await only.scheduler.run_once() == 1


async def test_a_replica_that_comes_late_does_not_wake_a_schedule_that_was_paused(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add("nightly")
        await only.make_due("nightly")
        (late,) = await Schedules(only.db).due(10)
        await only.service.pause("nightly", paused=True, by="test")
        await only.scheduler._serve(late)
        schedule = await only.schedule("nightly")
        assert (schedule["paused"], schedule["nextAt"]) == (True, None)


async def test_a_run_does_not_overlap_with_itself(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        await only.add("one-by-one", overlap="skip")
        slot = await only.make_due("one-by-one")
        (late,) = await Schedules(only.db).due(10)
        assert await only.scheduler.run_once() == 1
        await only.db.schedules.replace_one({"_id": "one-by-one"}, late)  # as if its cursor had not moved
        assert await only.scheduler.run_once() == 0
        last = (await only.schedule("one-by-one"))["last"]
        assert last == {"slot": slot, "outcome": "fired", "runId": run_id("one-by-one", slot)}


async def test_a_schedule_that_went_bad_says_so_and_keeps_no_other_from_firing(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        for name in ("bad-spec", "bad-zone", "broken", "good"):
            await only.add(name)
        spoiled = {
            "bad-spec": {"run.spec": {"secnds": 1}},
            "bad-zone": {"timeZone": "Mars/Olympus"},
            "broken": {"run": None},
            "good": {},
        }
        for age, (name, change) in enumerate(spoiled.items(), 1):
            await only.make_due(name, ago=timedelta(minutes=10 - age))
            if change:
                await only.db.schedules.update_one({"_id": name}, {"$set": change})
        with pytest.raises(TypeError):  # a document that this program never wrote: logged, and tried again
            await only.scheduler.run_once()
        assert len(await only.runs("good")) == 1
        bad = await only.schedule("bad-spec")
        assert bad["error"]["code"] == "invalid_spec"
        assert "secnds" in bad["error"]["message"]
        assert (bad["last"]["outcome"], bad["nextAt"] > bad["last"]["slot"]) == ("refused", True)
        lost = await only.schedule("bad-zone")
        assert (lost["error"]["code"], lost["nextAt"]) == ("unknown_zone", None)
        await only.db.schedules.update_one({"_id": "bad-spec"}, {"$set": {"run.spec": {"seconds": 0}}})
        await only.db.schedules.delete_one({"_id": "broken"})
        await only.make_due("bad-spec")
        assert await only.scheduler.run_once() == 1
        assert (await only.schedule("bad-spec"))["error"] is None


async def test_more_schedules_than_a_page_are_served_in_one_tick(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        for number in range(BATCH_MAX + 30):
            await only.add(f"n{number}")
        now = (await Schedules(only.db).now()).replace(second=0, microsecond=0)
        await only.db.schedules.update_many({}, {"$set": {"nextAt": now}})
        assert await only.scheduler.run_once() == BATCH_MAX + 30


async def test_replacing_pausing_and_firing_at_once_never_make_a_second_run(database_url: str) -> None:
    chance = random.Random(11)
    async with replicas(database_url, 4) as every:
        await every[0].add("busy")
        wanted = WantedSchedule(id="busy", cron=RARE, run=PROBE, by="test")
        slots = set()
        for turn in range(15):
            slots.add(await every[0].make_due("busy", ago=timedelta(hours=50 - turn)))
            steps: list[Callable[[], Awaitable[Any]]] = [each.scheduler.run_once for each in every]
            steps.append(lambda: every[0].service.replace(wanted))
            steps.append(lambda: every[1].service.pause("busy", paused=True, by="test"))
            chance.shuffle(steps)
            await asyncio.gather(*(step() for step in steps))
            await every[0].service.pause("busy", paused=False, by="test")
        runs = await every[0].runs("busy")
        assert {run["_id"] for run in runs} <= {run_id("busy", slot) for slot in slots}
        assert all(run["revision"] == 1 for run in runs)


async def test_a_specification_without_its_run_is_swept_after_its_grace_only(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        queue = Submissions(only.db)
        spec = {"kind": "probe", "spec": {}, "requires": {}, "hypothesisId": None}
        for name in ("orphan", "young", "touched"):
            await queue.put_spec(name, spec)
        used = (await only.deps.submitter.submit(Submission(kind="probe", spec={}, by="test"))).run_id
        long_ago = await Schedules(only.db).now() - timedelta(hours=2)
        old = {"_id": {"$in": ["orphan", "touched", used]}}
        await only.db.run_specs.update_many(old, {"$set": {"putAt": long_ago}})
        await queue.put_spec("touched", spec)  # somebody is about to create its run
        assert await SpecSweeper(queue).run_once() == 1
        left = {document["_id"] async for document in only.db.run_specs.find({})}
        assert left == {"young", "touched", used}
        unchecked = {document["_id"] async for document in only.db.run_specs.find({"unchecked": True})}
        assert unchecked == {"young", "touched"}
        assert await SpecSweeper(queue).run_once() == 0


async def test_a_specification_that_is_put_again_during_the_sweep_stays(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        spec = {"kind": "probe", "spec": {}, "requires": {}, "hypothesisId": None}

        class Raced(Submissions):
            async def drop_orphans(self, run_ids: set[str], grace_s: float) -> int:
                await self.put_spec("raced", spec)
                return await Submissions.drop_orphans(self, run_ids, grace_s)

        queue = Raced(only.db)
        for name in ("raced", "orphan"):
            await queue.put_spec(name, spec)
        long_ago = await Schedules(only.db).now() - timedelta(hours=2)
        await only.db.run_specs.update_many({}, {"$set": {"putAt": long_ago}})
        assert await SpecSweeper(queue).run_once() == 1
        assert [document["_id"] async for document in only.db.run_specs.find({})] == ["raced"]


async def test_a_submitter_that_slept_past_the_sweep_puts_its_specification_back(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):

        class Slow(Submissions):
            async def enqueue(self, collection: str, identity: str, creation: Any) -> Any:
                long_ago = await Schedules(self.db).now() - timedelta(hours=2)
                await self.db.run_specs.update_one({"_id": identity}, {"$set": {"putAt": long_ago}})
                assert await SpecSweeper(Submissions(self.db)).run_once() == 1
                created = await Submissions.enqueue(self, collection, identity, creation)
                if created is not None:
                    created["createdAt"] += timedelta(hours=2)
                return created

        submitter = only.deps.submitter
        slow = Submitter(submitter.runs, Slow(only.db), submitter.ids, submitter.reads, submitter.groups)
        made = await slow.submit(Submission(kind="probe", spec={"seconds": 0}, by="test"))
        stored = await only.db.run_specs.find_one({"_id": made.run_id})
        assert stored is not None
        assert stored["spec"] == {"seconds": 0}


async def test_what_could_never_fire_is_not_stored(database_url: str) -> None:
    async with replicas(database_url, 1) as (only,):
        bad: list[tuple[dict[str, Any], str]] = [
            ({"cron": "0 0 31 2 *"}, "bad_cron"),
            ({"time_zone": "Nowhere"}, "unknown_zone"),
            ({"run": WantedRun(kind="nothing")}, "unknown_kind"),
            ({"run": WantedRun(kind="probe", spec={"speed": 1})}, "invalid_spec"),
            ({"run": WantedRun(kind="probe", requires={"x": 1})}, "invalid_requirements"),
            ({"run": WantedRun(kind="probe", labels={"slot": "x"})}, "reserved_label"),
        ]
        for overrides, code in bad:
            with pytest.raises(Rejected) as refused:
                await only.add("bad", **overrides)
            assert refused.value.code == code
        assert await only.db.schedules.count_documents({}) == 0


def test_schedules_over_http(fleet: Any) -> None:
    body = {"id": "nightly", "cron": "@daily", "time_zone": "Europe/Berlin", "run": {"kind": "probe"}}
    made = fleet.client.post("/api/schedules", json=body)
    assert (made.status_code, made.headers["location"]) == (201, "/api/schedules/nightly")
    assert (made.json()["missed"], made.json()["overlap"]) == ("one", "allow")
    taken = fleet.client.post("/api/schedules", json=body)
    assert (taken.status_code, taken.json()["code"]) == (409, "schedule_exists")
    upcoming = fleet.client.get("/api/schedules/nightly/next", params={"n": 3}).json()["items"]
    assert [each["local"][11:19] for each in upcoming] == ["00:00:00"] * 3
    assert upcoming[0]["at"] == made.json()["nextAt"]
    fleet.client.post("/api/schedules", json={**body, "id": "second", "cron": "* * * * *"})
    first = fleet.client.get("/api/schedules", params={"limit": 1}).json()
    rest = fleet.client.get("/api/schedules", params={"after": first["next"]}).json()
    assert [each["id"] for page in (first, rest) for each in page["items"]] == ["second", "nightly"]
    paused = fleet.client.patch("/api/schedules/nightly", json={"paused": True}).json()
    assert (paused["paused"], paused["nextAt"]) == (True, None)
    replaced = fleet.client.put(
        "/api/schedules/nightly", json={"cron": "5 4 * * *", "run": {"kind": "probe"}}
    )
    assert (replaced.status_code, replaced.json()["cron"], replaced.json()["paused"]) == (
        200,
        "5 4 * * *",
        False,
    )
    assert fleet.client.delete("/api/schedules/nightly").status_code == 204
    for method in ("GET", "PATCH", "DELETE"):
        answer = fleet.client.request(
            method, "/api/schedules/nightly", json={"paused": True} if method == "PATCH" else None
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_schedule")
    refused = fleet.client.post("/api/schedules", json={**body, "cron": "0 0 31 2 *"})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_cron")
    for wrong in ({"id": "A b"}, {"run": {}}, {"colour": 1}, {"missed": "maybe"}, {"cron": "\x00"}):
        assert fleet.client.post("/api/schedules", json={**body, **wrong}).status_code == 422


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    "is_soon", [True, pytest.param(False, marks=pytest.mark.long("a slot that is two seconds away"))]
)
def test_a_served_control_plane_fires_on_the_minute(
    fleet: Any, database: Any, until: Any, is_soon: bool
) -> None:
    body = {"id": "often", "cron": RARE if is_soon else "* * * * *", "run": {"kind": "probe"}}
    slot = fleet.client.post("/api/schedules", json=body).json()["nextAt"]
    if is_soon:
        moved = SystemClock().now().replace(microsecond=0) + timedelta(seconds=2)
        slot = moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        database.schedules.update_one({"_id": "often"}, {"$set": {"nextAt": moved}})
    until(lambda: database.runs.count_documents({}) == 1, seconds=90)
    run = database.runs.find_one({})
    assert run["labels"]["slot"] == slot
    delay = run["createdAt"].replace(tzinfo=UTC) - datetime.fromisoformat(slot)
    assert timedelta(0) <= delay < timedelta(seconds=30), "and not with the next slot"
