"""Projects on a real store: whose run is next, what is over a quota, and what is charged to whom, once."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from control_plane.access.key_ring import WantedKey
from control_plane.model.groups.races.nodes import HOLD_S
from control_plane.runs.explainer import class_reasons, explanation
from control_plane.runs.groups.service import WantedGroup
from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps
from control_plane.store.access.projects import Projects
from control_plane.upkeep.fair_sharer import FairSharer
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Named, Seeker
from events.queue.settlement import End
from events.runtime.errors import Rejected
from events.text.key_text import RunToken, letters
from pod_worker.queue.mongo import MongoQueue, connect
from tests.integration.in_process import application, control_plane

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
POD = Seeker("pod/1", "experiment", Abilities(frozenset({"probe"}), 80.0, None))
VISION = "probe/24/any/@vision"


@dataclass(frozen=True, slots=True)
class Later(Projects):
    """The same store, some time later."""

    by: timedelta = timedelta(0)

    async def now(self) -> datetime:
        return await Projects(self.db).now() + self.by


async def is_here() -> bool:
    return False


async def submit(deps: Deps, project: str, count: int = 1, gib: float = 24) -> str:
    wanted = Submission(kind="probe", spec={}, by="test", project=project, requires={"gpu_gib": gib})
    for _ in range(count):
        submitted = await deps.submitter.submit(wanted)
    return submitted.run_id


async def claim(deps: Deps) -> tuple[str, RunToken] | None:
    """Claim as a pod without a database does; return the project of the run, and the token."""
    token = letters(deps.ids.token())
    found = await deps.claimer.claim(POD, token=token, key_id=None, wait_s=0.0, is_gone=is_here)
    if found is None:
        return None
    run = await deps.db.runs.find_one({"_id": found.run_id})
    assert run is not None
    return run["classKey"].rpartition("@")[2], RunToken(found.run_id, found.attempt, token)


def directly(deps: Deps, url: str) -> Claim | None:
    """Claim as a pod with a database does."""
    db = connect(url)
    try:
        return MongoQueue(db).claim(POD, token=letters(deps.ids.token()))
    finally:
        db.client.close()


async def tell(deps: Deps, by_s: float = 10.0) -> dict[str, Any]:
    """Tell the shares as upkeep does, some time from now; return them by project."""
    await deps.db.shares.update_one({}, {"$set": {"at": LONG_AGO}})
    later = FairSharer(Later(deps.db, timedelta(seconds=by_s)))
    assert await later.run_once()
    told, known = await Projects(deps.db).shares(), deps.claimer.claims.known
    known.read(told, deps.clock.monotonic_s() + 60)  # by which its own claims are told
    known.read(told, deps.clock.monotonic_s())
    assert told is not None
    return {each["name"]: each for each in told["projects"]}


async def put(deps: Deps, name: str, **quotas: float | None) -> None:
    quotas = {"gpus": None, "gpuHours": None, "usd": None, **quotas}
    await Projects(deps.db).put(name, {"weight": 1.0, "quotas": quotas, "setBy": "test"})


async def test_a_sweep_lets_others_go_first_and_a_closed_project_waits(database_url: str) -> None:
    async with control_plane(database_url) as deps:
        assert await deps.fair_sharer.run_once() == 0, "without projects there is nothing to do"
        for name in ("vision", "zoe"):
            await put(deps, name)
        await submit(deps, "vision", 4)
        first = await claim(deps)
        assert first is not None
        assert (await tell(deps))["vision"]["gpus"] == 1
        await submit(deps, "zoe")
        waits = await deps.db.runs.find_one({"status": "QUEUED", "classKey": VISION})
        await deps.db.pods.insert_one(
            {
                "_id": POD.pod, "state": "busy", "mode": "experiment", "kinds": ["probe"], "region": None,
                "labels": {}, "capabilities": {"gpus": [{"name": "h100", "memoryMib": 81_920}]},
                "drain": False, "startedAt": LONG_AGO, "reportedAt": deps.clock.now(),
            }
        )  # fmt: skip
        reasons = (await explanation(deps.reading, waits["_id"])).reasons
        told = {each.code: each.message for each in reasons}["other_projects_first"]
        assert re.fullmatch(
            r"project zoe is asked first: .* used 0\.00 GPU hours .*, project vision 0\.\d\d", told
        )
        queued = (await class_reasons(deps.reading, [VISION]))[VISION]
        assert queued.endswith(told), "and the queue says so"
        await deps.db.pods.delete_one({})
        found = directly(deps, database_url)
        assert found is not None, "and a pod with a database claims so, too"
        zoe = await deps.db.runs.find_one({"_id": found.run_id})
        assert zoe is not None
        assert zoe["classKey"] == "probe/24/any/@zoe"

        await put(deps, "vision", gpus=2)
        run_id = await submit(deps, "vision")
        assert (await tell(deps))["vision"]["free"] == 1
        (second,) = filter(None, await asyncio.gather(*(claim(deps) for _ in range(4))))
        assert second[0] == "vision"
        assert await claim(deps) is None, "its own claims count before they are told"
        assert (await tell(deps))["vision"]["closed"] == "its quota of 2 GPUs: 2 run now"
        assert await claim(deps) is None
        assert directly(deps, database_url) is None
        heard = deps.claimer.hear(Named(["probe/24/any"]), key_id=None, wait_s=0.01, is_gone=is_here)
        assert await heard is None, "nor is a pod woken for it"
        why = "project vision is over its quota of 2 GPUs: 2 run now"
        assert (await explanation(deps.reading, run_id)).reasons[0].message == why
        assert (await class_reasons(deps.reading, [VISION]))[VISION] == why
        await deps.claimer.claims.settle(second[1], End("completed"), 0, jitter=0.0)
        await deps.db.pods.insert_one({"_id": POD.pod, "capabilities": {"gpus": [{"name": "h100"}] * 4}})
        assert (await tell(deps))["vision"]["closed"] == "its quota of 2 GPUs: 4 run now", "its slot has four"
        await put(deps, "vision", gpus=7)
        assert (await tell(deps))["vision"]["free"] == 3
        assert await claim(deps) is None, "with another one its slot would have four more"
        await deps.db.pods.delete_one({})
        await put(deps, "vision", gpus=2)
        assert (await tell(deps))["vision"]["closed"] is None
        assert await claim(deps) is not None


async def test_nodes_wait_for_each_other_for_a_resume_and_for_what_their_project_may_have(
    database_url: str,
) -> None:
    run = {"kind": "probe", "spec": {}, "requires": {"gpu_gib": 24}, "project": "vision"}

    def job(nodes: int) -> WantedGroup:
        plan = {"kind": "matrix", "nodes": nodes, "parallel": 10}
        return WantedGroup(id="job", run=run, plan=plan, by="test")

    async with control_plane(database_url) as deps:
        service, advancer = deps.groups.service, deps.groups.advancer

        async def reason(of: dict[str, Any]) -> str:
            return (await explanation(deps.reading, of["_id"])).reasons[0].message

        async def nodes() -> list[dict[str, Any]]:
            await advancer.run_once()
            return await deps.db.runs.find({"groupId": "job"}).sort("slot", 1).to_list()

        await put(deps, "vision", gpus=2)
        with pytest.raises(Rejected, match="3 nodes with 1 GPU each need 3 at once, and project vision may"):
            await service.create(job(3))
        await service.create(job(2))
        first, second = await nodes()
        held = await claim(deps)
        assert held is not None
        waits = "the 2 nodes of job begin together, and 0 are ready; node 0 is SCHEDULED"
        assert await reason(second) == waits
        await service.pause("job", by="test")
        first, second = await nodes()
        assert first["preempt"] == {"attempt": 1, "waitS": HOLD_S}
        await deps.claimer.claims.settle(held[1], End("preempted"), 0, jitter=0.0)
        assert [each["status"] for each in await nodes()] == ["DELAYED", "DELAYED"]
        assert await claim(deps) is None
        assert "is paused" in await reason(first)
        assert (await nodes())[1]["revision"] == second["revision"], "they are told once"
        await put(deps, "vision", gpus=1)
        assert "project vision may have 1" in await reason(second)
        await service.resume("job", by="test")
        assert [each["status"] for each in await nodes()] == ["QUEUED", "QUEUED"]
        assert await claim(deps) is not None


async def test_what_projects_have_used_is_added_once_and_can_be_added_anew(database_url: str) -> None:
    async with control_plane(database_url) as deps:
        await put(deps, "vision", gpuHours=1.0)
        await submit(deps, "vision")
        held = await claim(deps)
        assert held is not None
        await deps.claimer.claims.settle(held[1], End("completed"), 0, jitter=0.0)
        await deps.sweeper.run_once()
        begun = (await Projects(deps.db).now()).replace(microsecond=0) - timedelta(seconds=7200)
        is_same_month = begun.month == (begun + timedelta(seconds=7300)).month
        await deps.db.attempts.update_one({"runId": held[1].run_id}, {"$set": {"claimedAt": begun}})
        young = (await tell(deps, 0.0))["vision"]
        assert (await deps.db.project_usage.find_one({}) or {"used": {}})["used"] == {}
        later = [FairSharer(Later(deps.db, timedelta(seconds=120 + each))) for each in range(2)]
        await asyncio.gather(*(each.run_once() for each in later))
        kept = await deps.db.project_usage.find_one({})
        assert kept is not None
        await deps.db.project_usage.delete_one({})
        for after_s in (200.0, 300.0, 400.0):
            again = (await tell(deps, after_s))["vision"]
            if is_same_month:
                assert 7200 <= young["gpuS"] < 7300
                assert abs(again["gpuS"] - young["gpuS"]) < 0.01
                assert abs(kept["used"]["vision"]["gpuS"] - young["gpuS"]) < 0.01
                assert again["closed"].startswith("its quota of 1 GPU hours a month, until ")
            assert abs(again["used"] - young["used"]) < 0.01 * young["used"], "it counts less by now"


async def test_damaged_documents_hold_up_no_other_project_and_no_page(database_url: str) -> None:
    async with control_plane(database_url) as deps, application(deps) as asking:
        await put(deps, "vision", gpus=1)
        await submit(deps, "vision", 3)
        assert await claim(deps) is not None
        held = await deps.db.runs.find_one({"attempt": 1})
        assert held is not None
        for number, key in enumerate(("damaged", 5, None)):
            wrong = {**held, "_id": f"wrong-{number}", "classKey": key, "lease": None, "journal": []}
            await deps.db.runs.insert_one(wrong)
        await deps.db.projects.insert_one({"_id": "odd", "weight": "much"})
        told = [5, {}, {"name": "vision", "used": "much", "gpuS": 0.0, "usd": 0.0, "gpus": 0}]
        for projects in (told, "none", None):
            await deps.db.shares.replace_one({}, {"_id": "fleet", "projects": projects}, upsert=True)
            assert (await asking.get("/projects")).status_code == 200
            assert (await asking.get("/api/projects")).status_code == 200
        assert (await tell(deps))["vision"]["closed"] == "its quota of 1 GPUs: 1 run now"
        assert await claim(deps) is None


async def test_projects_are_set_by_admins_and_keys_are_bound_to_them(database_url: str) -> None:
    async with control_plane(database_url) as deps, application(deps) as asking:

        def codes(answer: httpx.Response) -> tuple[int, str]:
            return answer.status_code, answer.json().get("code", "")

        body: dict[str, Any] = {"weight": 2, "quotas": {"gpus": 4}}
        assert (await asking.put("/api/projects/vision", json=body)).status_code == 201
        again = await asking.put("/api/projects/vision", json={**body, "quotas": {"usd": 9.5}})
        assert (again.status_code, again.json()["quotas"]) == (
            200,
            {"gpus": None, "gpuHours": None, "usd": 9.5},
        )
        for wrong in (
            {"weight": 0},
            {"weight": 2000},
            {"quotas": {"gpus": -1}},
            {"quotas": {"usd": 1e10}},
            {"x": 1},
        ):
            assert (await asking.put("/api/projects/vision", json=wrong)).status_code == 422
        assert (await asking.put("/api/projects/Vision", json={})).status_code == 422
        run = {"kind": "probe", "spec": {}}
        nobodys = await asking.post("/api/runs", json={**run, "project": "nobody"})
        assert codes(nobodys) == (422, "unknown_project")
        group = {
            "id": "g",
            "run": {**run, "project": "nobody"},
            "plan": {"kind": "matrix", "values": {"seconds": [1]}},
        }
        assert codes(await asking.post("/api/groups", json=group)) == (422, "unknown_project")
        schedule = {"id": "s", "cron": "@daily", "run": {**run, "project": "vision"}}
        assert (await asking.post("/api/schedules", json=schedule)).json()["run"]["project"] == "vision"
        assert (await asking.get("/api/projects/nobody")).status_code == 404
        made = await deps.key_ring.make(
            WantedKey(kind="operator", name="ada", projects=("vision",)), by="root"
        )
        key = {"authorization": f"Bearer {made.text}"}
        submitted = (await asking.post("/api/runs", json=run, headers=key)).json()
        assert submitted["classKey"] == "probe/cpu/any/@vision"
        foreign = await asking.post("/api/runs", json={**run, "project": "default"}, headers=key)
        assert codes(foreign) == (403, "foreign_project")
        others = {**group, "paused": True, "run": run}
        assert (await asking.post("/api/groups", json=others)).status_code == 201
        for act in ("resume", "again"):
            refused = await asking.post(f"/api/groups/g/{act}", headers=key)
            assert codes(refused) == (403, "foreign_project"), act
        of_group = {"id": "t", "cron": "@daily", "group": "g"}
        refused = await asking.post("/api/schedules", json=of_group, headers=key)
        assert codes(refused) == (403, "foreign_project")
        assert (await asking.post("/api/schedules", json=of_group)).status_code == 201
        daily = {"id": "d", "cron": "@daily", "paused": True, "run": run}
        assert (await asking.post("/api/schedules", json=daily)).status_code == 201
        resumed = {"paused": False}
        refused = await asking.patch("/api/schedules/d", json=resumed, headers=key)
        assert codes(refused) == (403, "foreign_project")
        assert (await asking.patch("/api/schedules/d", json=resumed)).status_code == 200
        assert (await asking.post("/api/groups/g/resume")).status_code == 200
        assert codes(await asking.put("/api/projects/vision", json=body, headers=key)) == (
            403,
            "missing_scope",
        )
        changed = await asking.patch(f"/api/runs/{submitted['id']}", json={"requires": {"region": "eu"}})
        assert changed.json()["classKey"] == "probe/cpu/eu/@vision", "a change keeps the project"
        (default, vision) = (await asking.get("/api/projects")).json()["items"]
        assert (default["id"], vision["id"], vision["waiting"]) == ("default", "vision", 1)
        await must_list_by_project(asking, submitted["id"])
        await must_charge_tasks(asking, deps, key)
        page = await asking.get("/projects")
        assert "vision</code>" in page.text
        form = {"name": "speech", "weight": "0.5", "gpus": "2", "gpu_hours": "", "usd": "1.5"}
        assert (await asking.post("/projects", data=form)).status_code == 303
        stored = (await asking.get("/api/projects/speech")).json()
        assert (stored["weight"], stored["quotas"]) == (0.5, {"gpus": 2, "gpuHours": None, "usd": 1.5})
        for wrong_form in ({**form, "name": "Loud"}, {**form, "gpus": "2.5"}, {**form, "usd": "much"}):
            assert (await asking.post("/projects", data=wrong_form)).status_code == 422


async def must_list_by_project(asking: httpx.AsyncClient, of_vision: str) -> None:
    """Check that every list can be of one project; `of_vision` is its only run, which waits."""
    spec = {"kind": "probe", "spec": {}}
    labels = {
        "requires": {"labels": {"vision": "1"}, "region": "eu"}
    }  # in the class where a project may stand
    other = (await asking.post("/api/runs", json={**spec, **labels})).json()["id"]
    behind = {**spec, "project": "vision", "after": [other, other, "group:g"]}
    waits = (await asking.post("/api/runs", json=behind)).json()["id"]

    async def ids(path: str, **query: str) -> list[str]:
        answer = await asking.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["items"]]

    assert await ids("/api/runs", project="vision") == [waits, of_vision]
    assert await ids("/api/runs", project="vision", region="eu") == [of_vision]
    assert await ids("/api/runs", project="vision", region="us") == []
    assert await ids("/api/runs", project="default", region="eu") == [other]
    assert waits not in await ids("/api/runs", project="default")
    assert await ids("/api/runs", project="visio") == await ids("/api/runs", project=".*") == []
    for hostile in ("\x00", "x" * 300):
        assert (await asking.get("/api/runs", params={"project": hostile})).status_code == 422
    assert await ids("/api/groups", project="default") == ["g"]
    assert await ids("/api/groups", project="vision") == []
    queue = (await asking.get("/api/queue", params={"project": "vision"})).json()
    assert {each["project"] for each in queue["items"]} == {"vision"}
    (first,) = queue["behind"]
    assert (first["id"], first["after"]) == (waits, {other: "QUEUED", "group:g": "RUNNING"})
    assert (await asking.get("/api/queue", params={"project": "default"})).json()["behind"] == []
    page = (await asking.get("/", params={"project": "vision"})).text
    words = re.sub("<[^>]*>", " ", page[page.index("Behind other runs") :])
    words = " ".join(words.split())
    assert f"{other} ○ QUEUED , group:g ▶ RUNNING" in words, words[:400]
    assert f'href="/runs/{other}"' in page
    assert 'href="/groups/g"' in page
    of_all = (await asking.get("/")).text
    queues = [each[: each.index("<h2>Pods")] for each in (page, of_all)]
    assert ["probe/cpu/eu/vision=1" in each for each in queues] == [False, True]
    assert 'href="/runs?project=vision">vision</a>' in (await asking.get(f"/runs/{waits}")).text
    for path in ("/runs", "/groups", "/boards/view?kind=probe&"):
        page = (await asking.get(f"{path}{'' if '?' in path else '?'}project=vision")).text
        assert 'name="project" value="vision"' in page, path


async def must_charge_tasks(asking: httpx.AsyncClient, deps: Deps, key: dict[str, str]) -> None:
    """Check that what a task begins is charged to its project, and that `key` begins none of another."""
    task = {
        "name": "t",
        "model": {"id": "m"},
        "parameters": {"n_parallel": [1, 2]},
        "optimization": {"strategy": "grid", "baseline": False},
    }
    made = (await asking.post("/api/tasks", json=task, headers=key)).json()
    assert made["placement"]["project"] == "vision"
    begun = await asking.post(f"/api/tasks/{made['id']}/start", headers=key)
    assert begun.status_code == 200, begun.text
    await deps.groups.advancer.run_once()
    members = await deps.db.runs.find({"groupId": begun.json()["group"]}).to_list()
    assert members
    assert all("/@vision" in each["classKey"] for each in members)
    other = (await asking.post("/api/tasks", json={**task, "name": "other"})).json()
    named = {**task, "name": "x", "placement": {"project": "default"}}
    refusals = [
        await asking.post("/api/tasks", json=named, headers=key),
        await asking.post(f"/api/tasks/{other['id']}/clone", headers=key, json={}),
    ]
    for _ in range(2):  # as it is stored now, and as it was before there were projects
        refusals.append(await asking.post(f"/api/tasks/{other['id']}/start", headers=key))
        await deps.db.tasks.update_one({"_id": other["id"]}, {"$unset": {"placement.project": 1}})
    assert [(each.status_code, each.json()["code"]) for each in refusals] == [(403, "foreign_project")] * 4
