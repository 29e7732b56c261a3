"""Tasks over HTTP on a real MongoDB: their words, their rounds, and whoever starts or edits one at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import yaml

from control_plane.kinds.trial.planning import group_of
from control_plane.kinds.trial.service import TaskService
from control_plane.kinds.trial.store import Tasks
from tests.integration.dying import Died, DiesAt
from tests.integration.test_groups import Replica, asking, replicas

TASK: dict[str, Any] = {
    "name": "tune smollm2",
    "model": {"id": "smollm2"},
    "parameters": {"n_parallel": [1, 2], "n_batch": 512},
    "optimization": {
        "strategy": "grid",
        "objective": {"metric": "e2e_mean_s", "direction": "minimize"},
        "max_iterations": 10,
        "parallel": 10,
        "baseline": {"n_parallel": 2},
    },
    "benchmark": {"traffic_scenarios": ["D(100,20)"], "num_concurrency": [1, 4]},
}


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


class Client:
    """A person or program that asks one control plane about tasks."""

    def __init__(self, replica: Replica, http: httpx.AsyncClient) -> None:
        self.replica = replica
        self.http = http

    async def make(self, **changes: Any) -> dict[str, Any]:
        made = await self.http.post("/api/tasks", json={**TASK, **changes})
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        assert made.headers["location"] == f"/api/tasks/{found['id']}"
        return found

    async def told(self, task_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/api/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def listed(self) -> tuple[Any, ...]:
        """What the list says of the experiments of the only task: how many, how many succeeded, the best."""
        (found,) = (await self.http.get("/api/tasks")).json()["items"]
        names = ("totalExperiments", "successfulExperiments", "bestExperimentId")
        return tuple(found[each] for each in names)

    async def post(self, task_id: str, verb: str, **headers: str) -> httpx.Response:
        return await self.http.post(f"/api/tasks/{task_id}/{verb}", headers=headers)

    async def runs(self, task_id: str) -> list[dict[str, Any]]:
        """The runs of the last round."""
        group = await self.replica.group(group_of(task_id))
        runs = await self.replica.runs(group["_id"])
        return [each for each in runs if each["slot"] >= group["first"]]

    async def begin(self, task_id: str, verb: str = "start") -> list[dict[str, Any]]:
        started = await self.post(task_id, verb)
        assert started.status_code == 200, started.text
        assert started.json()["status"] == "RUNNING"
        await self.replica.advance()
        return await self.runs(task_id)

    async def measure(self, run: Mapping[str, Any], value: float, **more: Any) -> None:
        told = {"e2e_mean_s": value, "command": f"serve --run={run['_id']}", **more}
        sets = {"status": "COMPLETED", "summary": told, "attempt": 1}
        await self.replica.db.runs.update_one({"_id": run["_id"]}, {"$set": {**sets, "logOpen": False}})

    async def fail(self, run: Mapping[str, Any], code: str) -> None:
        error = {"code": code, "message": "it did not start", "stage": None}
        sets = {"status": "FAILED", "error": error, "attempt": 1, "logOpen": False}
        await self.replica.db.runs.update_one({"_id": run["_id"]}, {"$set": sets})


@asynccontextmanager
async def clients(url: str, count: int = 1) -> AsyncIterator[list[Client]]:
    async with replicas(url, count) as every:
        found = []
        for each in every:
            transport = asking(each)
            found.append((transport, Client(each, await transport.__aenter__())))
        try:
            yield [client for _, client in found]
        finally:
            for transport, _ in found:
                await transport.__aexit__(None, None, None)


async def test_a_task_from_its_creation_to_its_best_configuration(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        assert (task["status"], task["round"], task["plannedExperiments"]) == ("PENDING", 0, 2)
        assert task["model"] == {"id": "smollm2", "name": "smollm2", "tokenizer": "smollm2"}
        assert (task["bestExperimentId"], task["elapsedTime"], task["completedAt"]) == (None, None, None)
        first, second = await only.begin(task["id"])
        specs = await only.replica.specs([first, second])
        assert [specs[each["_id"]]["parameters"]["n_parallel"] for each in (first, second)] == [2, 1]
        spec = specs[first["_id"]]
        assert (spec["parameters"]["n_batch"], spec["concurrency"], spec["engine"]) == (
            512,
            [1, 4],
            "xllamacpp",
        )
        sets = {"status": "RUNNING", "currentStage": {"name": "deploy"}}
        await only.replica.db.runs.update_one({"_id": second["_id"]}, {"$set": sets})
        items = (await only.http.get(f"/api/tasks/{task['id']}/experiments")).json()["items"]
        assert [(each["number"], each["status"]) for each in items] == [(1, "pending"), (2, "deploying")]
        assert await only.listed() == (2, 0, None)
        ended = {"status": "COMPLETED", "attempt": 1, "logOpen": True}
        await only.replica.db.runs.update_one({"_id": first["_id"]}, {"$set": ended})
        assert await only.listed() == (2, 0, None), "its numbers are on their way"
        await only.measure(first, 0.1931, outcome="success")
        assert await only.listed() == (2, 1, "1-1")
        await only.measure(second, 0.1916, outcome="success")
        assert await only.listed() == (2, 2, "1-2")
        await only.replica.advance()
        told = await only.told(task["id"])
        assert (told["status"], told["successfulExperiments"], told["totalExperiments"]) == (
            "COMPLETED",
            2,
            2,
        )
        assert (told["bestExperimentId"], told["bestScore"]) == ("1-2", 0.1916)
        assert told["completedAt"] is not None
        assert told["elapsedTime"] >= 0
        assert told["best"]["parameters"] == {"n_parallel": 1}
        assert told["baseline"]["number"] == 1
        assert told["gain"] == pytest.approx((0.1931 - 0.1916) / 0.1931)
        assert told["bestCommand"] == f"serve --run={second['_id']}"
        (listed,) = (await only.http.get("/api/tasks")).json()["items"]
        assert listed == {name: told[name] for name in listed}
        assert listed["bestExperimentId"] == "1-2"


async def test_a_task_whose_experiments_all_failed_says_why_most_of_them_did(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make(parameters={"n_parallel": [1, 2, 4]})
        runs = await only.begin(task["id"])
        assert len(runs) == 3
        for run, code in zip(runs, ("DEPLOY_FAILED", "TRIAL_TIMEOUT", "DEPLOY_FAILED"), strict=True):
            await only.fail(run, code)
        await only.replica.advance()
        told = await only.told(task["id"])
        assert (told["status"], told["successfulExperiments"], told["totalExperiments"]) == ("FAILED", 0, 3)
        assert (told["failure"]["code"], told["failure"]["count"]) == ("DEPLOY_FAILED", 2)
        assert told["bestExperimentId"] is None
        assert told["bestCommand"] is None
        items = (await only.http.get(f"/api/tasks/{task['id']}/experiments")).json()["items"]
        assert [each["status"] for each in items] == ["failed"] * 3
        assert items[1]["failure"] == "TRIAL_TIMEOUT: it did not start"


async def test_a_name_is_taken_once_and_a_task_may_keep_its_own(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        same = await only.http.post("/api/tasks", json=TASK)
        assert (same.status_code, same.json()["detail"]) == (409, "Task 'tune smollm2' already exists")
        other = await only.make(name="other")
        path = f"/api/tasks/{task['id']}"
        kept = await only.http.put(path, json={**TASK, "description": "longer"})
        assert (kept.status_code, kept.json()["description"], kept.json()["revision"]) == (200, "longer", 2)
        assert kept.json()["createdAt"] == task["createdAt"]
        taken = await only.http.put(path, json={**TASK, "name": "other"})
        assert (taken.status_code, taken.json()["detail"]) == (409, "Task 'other' already exists")
        renamed = await only.http.put(path, json={**TASK, "name": "free"})
        assert (renamed.status_code, renamed.json()["name"]) == (200, "free")
        assert (await only.http.put("/api/tasks/NONE", json=TASK)).status_code == 404
        assert (await only.http.delete(f"/api/tasks/{other['id']}")).status_code == 204
        assert (await only.http.get(f"/api/tasks/{other['id']}")).status_code == 404
        assert [each["name"] for each in (await only.http.get("/api/tasks")).json()["items"]] == ["free"]
        made = await asyncio.gather(
            *(only.http.post("/api/tasks", json={**TASK, "name": "race"}) for _ in range(4))
        )
        assert sorted(each.status_code for each in made) == [201, 409, 409, 409]


async def test_a_running_task_can_be_described_and_canceled_and_nothing_else(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        await only.begin(task["id"])
        path = f"/api/tasks/{task['id']}"
        refused = [
            await only.http.put(path, json=TASK),
            await only.http.delete(path),
            await only.post(task["id"], "restart"),
            await only.post(task["id"], "start"),
        ]
        assert [each.status_code for each in refused] == [409] * 4
        assert refused[0].json()["detail"] == "Cannot edit a running task"
        assert "RUNNING" in refused[2].json()["detail"]
        told = await only.http.patch(path, json={"description": "while it runs"})
        assert (told.status_code, told.json()["description"], told.json()["status"]) == (
            200, "while it runs", "RUNNING",
        )  # fmt: skip
        for _ in range(2):
            ended = await only.http.patch(path, json={"status": "CANCELLED"})
            assert ended.status_code == 200, ended.text
        for _ in range(3):
            await only.replica.advance()
        assert (await only.told(task["id"]))["status"] == "CANCELLED"
        assert {run["status"] for run in await only.runs(task["id"])} == {"CANCELED"}
        items = (await only.http.get(f"{path}/experiments")).json()["items"]
        assert {each["status"] for each in items} == {"cancelled"}
        assert (await only.http.patch(path, json={})).status_code == 422
        assert (await only.http.patch(path, json={"status": "RUNNING"})).status_code == 422


async def test_an_edit_by_one_who_has_not_seen_the_last_one_is_refused(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        path = f"/api/tasks/{task['id']}"
        seen = (await only.http.get(path)).headers["etag"]
        assert seen == '"1"'
        changed = {**TASK, "description": "mine"}
        puts = await asyncio.gather(
            *(only.http.put(path, json=changed, headers={"If-Match": seen}) for _ in range(3))
        )
        assert sorted(each.status_code for each in puts) == [200, 412, 412]
        assert (await only.http.delete(path, headers={"If-Match": seen})).status_code == 412
        assert (await only.post(task["id"], "start", **{"If-Match": seen})).status_code == 412
        store = Tasks(only.replica.db)
        known = await store.find(task["id"])
        assert known is not None
        assert await store.edit(known, {"description": "first"}, "ada") is not None
        assert await store.edit(known, {"description": "second"}, "bob") is None
        assert await store.begin(known, 1) is None
        assert not await store.delete(known)
        assert (await only.told(task["id"]))["description"] == "first"
        assert (await only.http.put(path, json=TASK, headers={"If-Match": "x"})).status_code == 422
        assert (await only.http.put(path, json=TASK)).json()["revision"] == 4


async def test_two_restarts_at_once_are_one_round_whose_experiments_begin_with_one(database_url: str) -> None:
    async with clients(database_url, 3) as every:
        only = every[0]
        task = await only.make()
        for run in await only.begin(task["id"]):
            await only.measure(run, 1.0)
        await only.replica.advance()
        assert (await only.told(task["id"]))["status"] == "COMPLETED"
        again = await only.post(task["id"], "start")
        assert again.status_code == 409
        assert "COMPLETED" in again.json()["detail"]
        edited = {**TASK, "parameters": {"n_parallel": [1, 2, 8], "n_batch": 256}}
        path = f"/api/tasks/{task['id']}"
        assert (await only.http.put(path, json=edited)).status_code == 200
        begun = await asyncio.gather(*(each.post(task["id"], "restart") for each in every * 2))
        statuses = sorted(each.status_code for each in begun)
        assert statuses[0] == 200
        assert set(statuses) <= {200, 409}
        group = await only.replica.group(group_of(task["id"]))
        assert (group["round"], group["status"], len(group["rounds"])) == (2, "OPEN", 1)
        assert [each["action"] for each in group["journal"]].count("again") == 1
        told = await only.told(task["id"])
        assert (told["status"], told["completedAt"]) == ("RUNNING", None)
        assert (told["successfulExperiments"], told["bestExperimentId"]) == (0, None)
        await only.replica.advance()
        runs = await only.runs(task["id"])
        items = (await only.http.get(f"{path}/experiments")).json()["items"]
        assert [each["id"] for each in items] == ["2-1", "2-2", "2-3"]
        specs = await only.replica.specs(runs)
        assert {each["parameters"]["n_batch"] for each in specs.values()} == {256}
        assert (await only.told(task["id"]))["rounds"][0]["counts"]["succeeded"] == 2


CUTS = [(step, answered) for step in ("create", "again", "edit") for answered in (False, True)]


async def test_a_start_that_was_cut_off_is_finished_by_the_next_and_edits_wait_for_it(
    database_url: str,
) -> None:
    async with clients(database_url) as (only,):
        for step, answered in CUTS:
            task = await only.make(name=f"{step} {answered}")
            same, verb, path = {**TASK, "name": task["name"]}, "start", f"/api/tasks/{task['id']}"
            if step != "create":
                for run in await only.begin(task["id"]):
                    await only.measure(run, 1.0)
                await only.replica.advance()
                verb = "restart"
                changed = {**same, "parameters": {"n_parallel": [1, 4]}} if step == "edit" else same
                assert (await only.http.put(path, json=changed)).status_code == 200
            dying: Any = DiesAt(only.replica.service, step, answered=answered)
            cut = TaskService(Tasks(only.replica.db), dying, only.replica.deps.ids)
            with pytest.raises(Died):
                await getattr(cut, verb)(task["id"], revision=None, by="ada")
            assert (await only.told(task["id"]))["status"] == "RUNNING"
            refused = await only.http.put(path, json=same)
            assert refused.json()["detail"] == "Cannot edit a running task"
            finished = await asyncio.gather(*(only.post(task["id"], verb) for _ in range(3)))
            assert {each.status_code for each in finished} <= {200, 409}
            group = await only.replica.group(group_of(task["id"]))
            assert (group["status"], group["round"]) == ("OPEN", 1 if step == "create" else 2)
            await only.replica.advance()
            assert len(await only.runs(task["id"])) == 2 + (step == "edit")


async def test_a_copy_an_export_and_an_import_say_the_same(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        copies = [(await only.post(task["id"], "clone")).json()["name"] for _ in range(2)]
        assert copies == ["tune smollm2 (2)", "tune smollm2 (3)"]
        named = await only.http.post(f"/api/tasks/{task['id']}/clone", json={"name": "mine"})
        assert (named.status_code, named.json()["name"]) == (201, "mine")
        for form in ("json", "yaml"):
            text = (await only.http.get(f"/api/tasks/{task['id']}/export", params={"format": form})).json()[
                "text"
            ]
            fields = json.loads(text) if form == "json" else yaml.safe_load(text)
            assert fields["base_runtime"] == "xllamacpp"
            body = {"text": text, "name": f"from {form}"}
            brought = await only.http.post("/api/task-imports", json=body)
            assert brought.status_code == 201, brought.text
            same = ("model", "parameters", "optimization", "benchmark", "placement", "baseRuntime")
            assert [brought.json()[name] for name in same] == [task[name] for name in same]
        again = await only.http.post("/api/task-imports", json={"text": text})
        assert again.status_code == 409


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": " \n"}, "name"),
    ({"model": {"id": ""}}, "model"),
    ({"base_runtime": "nobody"}, "there is no engine 'nobody'"),
    ({"parameters": {}}, "nothing varies"),
    ({"parameters": {"n_parallel": 4}}, "nothing varies"),
    ({"parameters": {"n_parallel": []}}, "parameters"),
    ({"parameters": {"nobody": [1, 2]}}, "no parameter 'nobody'"),
    ({"parameters": {"n_parallel": [0, 1]}}, "n_parallel has to be a whole number from 1 to 256"),
    ({"parameters": {"n_parallel": {"low": 4, "high": 1}}}, "low < high"),
    ({"parameters": {"n_parallel": [1, True]}}, "n_parallel has to be"),
    ({"parameters": {f"p{number}": 1 for number in range(200)}}, "parameters"),
    ({"parameters": {"a.b": [1]}}, "parameters"),
    ({"optimization": {"strategy": "luck"}}, "strategy"),
    ({"optimization": {"objective": {"metric": "beauty"}}}, "no headline number 'beauty'"),
    ({"optimization": {"max_iterations": 1_000_000}}, "max_iterations"),
    ({"optimization": {"max_iterations": 2_000, "repeats": 20}}, "max_runs"),
    ({"optimization": {"constraints": ["beauty <= 1"]}}, "beauty"),
    ({"optimization": {"baseline": {"n_batch": 1}}}, "baseline"),
    ({"benchmark": {"num_concurrency": []}}, "name a load"),
    ({"benchmark": {"traffic_scenarios": ["D(100"]}}, "D(100"),
    ({"benchmark": {"traffic_scenarios": "D(0,1,2)"}}, "D(0,1,2)"),
    ({"benchmark": {"traffic_scenarios": []}}, "traffic_scenarios"),
    ({"benchmark": {"num_concurrency": [0]}}, "num_concurrency"),
    ({"benchmark": {"requests": 10**9}}, "requests"),
    ({"deployment_mode": "docker"}, "needs the image"),
    ({"placement": {"requires": {"nobody": 1}}}, "nobody"),
    ({"placement": {"secrets": ["NOT_THERE"]}}, "NOT_THERE"),
    ({"surprise": 1}, "surprise"),
]


async def test_a_damaged_task_holds_up_no_other_one(database_url: str) -> None:
    async with clients(database_url) as (only,):
        good, bad = await only.make(), await only.make(name="bad")
        await only.replica.db.tasks.update_one({"_id": bad["id"]}, {"$set": {"optimization": "none"}})
        page = (await only.http.get("/api/tasks")).json()
        assert [each["id"] for each in page["items"]] == [good["id"]]
        assert [each["id"] for each in page["unreadable"]] == [bad["id"]]
        answer = await only.http.get(f"/api/tasks/{bad['id']}")
        assert (answer.status_code, answer.json()["code"]) == (409, "unreadable_document")
        assert (await only.post(bad["id"], "start")).status_code == 409


async def test_an_estimate_counts_experiments_and_what_is_wrong_is_refused_by_its_field(
    database_url: str,
) -> None:
    async with clients(database_url) as (only,):
        changes = {"optimization": {**TASK["optimization"], "repeats": 3, "baseline": {"n_parallel": 8}}}
        told = (await only.http.post("/api/task-estimates", json={**TASK, **changes})).json()
        assert (told["experiments"], told["runs"], told["measurements"], told["seconds"]) == (3, 9, 2, None)
        assert "at most 3 experiments, each 3 times" in told["words"]
        for changes, words in WRONG:
            answer = await only.http.post("/api/tasks", json={**TASK, **changes})
            assert answer.status_code == 422, (changes, answer.text)
            assert words in answer.text, (words, answer.text)
        hostile = await only.http.post("/api/task-imports", json={"text": "a: &x [1]\nb: *x"})
        assert (hostile.status_code, "no anchors" in hostile.json()["detail"]) == (422, True)
        assert (await only.http.get("/api/tasks")).json()["items"] == []


async def test_the_form_suggests_the_models_of_live_pods_and_says_where_one_is(database_url: str) -> None:
    async with clients(database_url) as (only,):

        async def where(model: str) -> str:
            found: str = (await only.http.get("/tasks/look", params={"model_id": model})).json()["model"]
            return found

        assert await where("a/b/<b>") == "", "nobody is there to ask"
        models = [{"name": "a/b/<b>"}, {"name": "a/b/<b>"}, "no model"]
        said = {"pod": "m", "state": "idle", "kinds": [], "checks": [], "capabilities": {"models": models}}
        reported = {"$set": said, "$currentDate": {"reportedAt": True, "startedAt": True}}
        await only.replica.db.pods.update_one({"_id": "m/1"}, reported, upsert=True)
        assert "<option>a/b/&lt;b&gt;</option>" in (await only.http.get("/tasks/new")).text
        assert await where("a/b/<b>") == "on 1 of 1 live pods"
        assert (await where("other")).startswith("no live pod has it")


async def test_a_task_is_made_edited_started_and_shown_on_its_pages(database_url: str) -> None:
    async with clients(database_url) as (only,):
        http = only.http
        form = (await http.get("/tasks/new?engine=xllamacpp&preset=slots")).text
        assert 'name="p.xllamacpp.n_parallel" value="1, 2, 4, 8"' in form
        typed = {
            "name": "by form", "model_id": "a/b/variant", "p.xllamacpp.n_parallel": "1, 2",
            "p.xllamacpp.n_ctx": "4096", "traffic_scenarios": "D(100, 20),N(200,50)/(40,10)",
            "num_concurrency": "1, 4", "strategy": "grid", "metric": "e2e_mean_s", "direction": "minimize",
            "max_iterations": "4", "repeats": "1", "parallel": "2", "requests": "8",
        }  # fmt: skip
        checked = await http.post("/tasks/new", data={**typed, "do": "check"})
        assert (checked.status_code, "nothing was stored" in checked.text) == (200, True)
        assert "at most 2 experiments, of 4 measurements each" in checked.text
        look = (await http.get("/tasks/look", params=typed)).json()
        assert look["scenarios"].startswith("✓ 2 scenarios: 100 tokens in, 20 out; about 200 ± 50 tokens in")
        assert look["outlook"].startswith("at most 2 experiments")
        wrong = {**typed, "traffic_scenarios": "D(100", "p.xllamacpp.n_parallel": "1, 999", "do": "save"}
        refused = await http.post("/tasks/new", data=wrong)
        assert (refused.status_code, "D(100" in refused.text) == (422, True)
        refused = await http.post("/tasks/new", data={**wrong, "traffic_scenarios": "D(1,1)"})
        assert (refused.status_code, "1 to 256" in refused.text) == (422, True)
        assert (await http.get("/api/tasks")).json()["items"] == []
        made = await http.post("/tasks/new", data={**typed, "do": "save"})
        assert made.status_code == 303, made.text
        path = made.headers["location"].partition("?")[0]
        assert "Task created" in (await http.get(made.headers["location"])).text
        taken = await http.post("/tasks/new", data={**typed, "do": "save"})
        assert (taken.status_code, "Task &#39;by form&#39; already exists" in taken.text) == (409, True)
        edit = (await http.get(f"{path}/edit")).text
        for words in (
            'value="a/b/variant"',
            'value="variant"',
            'value="4096"',
            "D(100,20), N(200,50)/(40,10)",
        ):
            assert words in edit, words
        late = await http.post(f"{path}/edit", data={**typed, "revision": "7", "do": "save"})
        assert (late.status_code, "Somebody changed the task" in late.text) == (412, True)
        started = await http.post(f"{path}/edit", data={**typed, "revision": "1", "do": "start"})
        assert started.headers["location"] == f"{path}?done=started"
        twice = await http.post(f"{path}/start", data={"revision": "2"})
        assert (twice.status_code, twice.headers["location"]) == (303, path)
        assert (await http.get(f"{path}/edit")).status_code == 409
        task_id = path.rpartition("/")[2]
        await only.replica.advance()
        first, second = await only.runs(task_id)
        await only.measure(first, 0.1931, outcome="success")
        await only.measure(second, 0.1916, outcome="=1+1")
        await only.replica.advance()
        page = (await http.get(path)).text
        for words in (
            "Best configuration", "Experiment 2: 0.1916, Best Experiment", "Experiment 1: 0.1931",
            "#10b981", "#3b82f6", "★", f"serve --run={second['_id']}", "2/2 successful",
        ):  # fmt: skip
            assert words in page, words
        listed = (await http.get("/tasks")).text
        assert ("0.1916" in listed, "2/2 successful" in listed) == (True, True)
        table = (await http.get(f"{path}/experiments.csv")).text.splitlines()
        assert table[0].startswith(
            "experiment,status,is_best,is_baseline,score,low,high,n_parallel,tokens_out_per_s"
        )
        assert "'=1+1" in table[2]
        image = await http.get(f"{path}/objective.svg")
        assert (image.headers["content-type"], image.text.count("n_parallel=")) == ("image/svg+xml", 2)
        assert 'filename="objective.svg"' in image.headers["content-disposition"]
        await http.post(f"{path}/clone")
        other = (await http.get("/api/tasks")).json()["items"][0]
        beside = (await http.get("/tasks/compare", params={"id": [task_id, other["id"]]})).text
        assert ("by form (2)" in beside, "0.1916" in beside) == (True, True)
        text = (await http.get(f"{path}/export?format=yaml")).text
        assert (await http.post("/tasks/import", data={"text": text})).status_code == 409
        gone = await http.post(f"/tasks/{other['id']}/delete", data={"revision": "1"})
        assert gone.headers["location"] == "/tasks"


async def test_copies_that_are_made_at_once_have_each_a_name(database_url: str) -> None:
    async with clients(database_url) as (only,):
        task = await only.make()
        copies = await asyncio.gather(*(only.post(task["id"], "clone") for _ in range(8)))
        assert [each.status_code for each in copies] == [201] * 8
        names = {f"{TASK['name']} ({number})" for number in range(2, 10)}
        assert {each.json()["name"] for each in copies} == names
