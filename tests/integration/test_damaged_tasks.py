"""Tasks whose documents a hand has damaged: every page answers, and says which one is broken."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.kinds.trial.planning import group_of
from tests.integration.test_damaged_documents import MISSING, damaged
from tests.integration.test_tasks import Client, clients

TASKS: list[tuple[str, Any]] = [
    ("name", MISSING),
    ("name", 5),
    ("name", {}),
    ("description", []),
    ("model", "m"),
    ("model.id", {}),
    ("parameters", []),
    ("parameters", {"x": {"$gt": 1}}),
    ("parameters", {}),
    ("parameters", {"n_parallel": ["a", 1]}),
    ("baseRuntime", "other"),
    ("baseRuntime", 5),
    ("optimization", MISSING),
    ("optimization.objective", "x"),
    ("optimization.objective", {"metric": "x", "direction": "up"}),
    ("optimization.baseline", {"y": 1}),
    ("benchmark.trafficScenarios", 5),
    ("benchmark", None),
    ("placement", "all"),
    ("revision", "1"),
    ("revision", MISSING),
    ("begun", None),
    ("begun", 1.5),
    ("begun", 7),
    ("createdAt", MISSING),
    ("createdAt", 5),
    ("updatedBy", {}),
]
GROUPS: list[tuple[str, Any]] = [
    ("plan", MISSING),
    ("plan", "study"),
    ("plan", {}),
    ("plan.space", []),
    ("plan.space", {"parameters.n_parallel": 5}),
    ("plan.kind", "matrix"),
    ("plan.goal", 5),
    ("plan.goal", "max:"),
    ("plan.goal", "max:$x"),
    ("plan.max_runs", "many"),
    ("plan.max_runs", float("nan")),
    ("plan.baseline", []),
    ("plan.baseline", {"x": 1}),
    ("plan.constraints", "x"),
    ("plan.constraints", [5]),
    ("plan.constraints", [{}]),
    ("plan.confirm", 5),
    ("plan.confirm", {"top": "x"}),
    ("plan.parallel", None),
    ("plan.repeats", 0),
    ("plan.repeats", "1"),
    ("plan.sampler", 5),
    ("plan.seed", {}),
    ("plan.max_seconds", "x"),
    ("plan.patience", []),
    ("plan.target", "x"),
    ("status", 7),
    ("status", MISSING),
    ("round", "1"),
    ("round", MISSING),
    ("revision", MISSING),
    ("revision", "x"),
    ("revision", {}),
    ("first", None),
    ("first", "x"),
    ("since", 5),
    ("since", MISSING),
    ("rounds", MISSING),
    ("rounds", [5]),
    ("rounds", [{}]),
    ("journal", MISSING),
    ("journal", [5]),
    ("journal", 5),
    ("counts", MISSING),
    ("counts", "x"),
]
RUNS: list[tuple[str, Any]] = [
    ("summary", 5),
    ("summary", "x"),
    ("summary", [1]),
    ("summary", {"e2e_mean_s": "fast"}),
    ("summary", {"e2e_mean_s": float("nan")}),
    ("summary", {"e2e_mean_s": {"$gt": 1}}),
    ("summary", {"e2e_mean_s": 1e308, "command": {"a": 1}}),
    ("summary", {"e2e_mean_s": float("inf")}),
    ("summary", {"e2e_mean_s": True}),
    ("summary", {"e2e_mean_s": 2**62, "tokens_out_per_s": b"x"}),
    ("status", 5),
    ("status", "GONE"),
    ("status", MISSING),
    ("slot", "x"),
    ("slot", MISSING),
    ("slot", 1.5),
    ("error", 5),
    ("error", {"code": {}, "message": []}),
    ("currentStage", 5),
    ("currentStage", {"name": {}}),
    ("cancelRequested", 5),
    ("cancelRequested", {"pruned": 5}),
    ("createdAt", "x"),
    ("group", 5),
    ("row", 5),
    ("row", {}),
]
PATHS = (
    "/tasks/{task}", "/api/tasks/{task}", "/api/tasks/{task}/experiments", "/tasks/{task}/experiments.csv",
    "/tasks/{task}/objective.svg",
    "/tasks/{task}/edit", "/api/tasks/{task}/export", "/tasks/compare?id={task}", "/groups/{group}",
    "/api/groups/{group}", "/groups/{group}/curves",
)  # fmt: skip
LIES = {"tasks": TASKS, "groups": GROUPS, "runs": RUNS}


@pytest.fixture
def database_url(emptied_url: str) -> str:
    """A database that these tests share."""
    return emptied_url


async def looked_at(client: Client, task_id: str) -> dict[str, int]:
    """Return what each page of a task answers, and at last the orders."""
    http, found = client.http, dict[str, int]()
    for path in PATHS:
        found[path] = (await http.get(path.format(task=task_id, group=group_of(task_id)))).status_code
    for path in ("/tasks", "/api/tasks"):
        answer = await http.get(path)
        found[path] = answer.status_code if answer.status_code == 200 else 500
    for order in ("start", "restart", "clone"):
        found[order] = (await client.post(task_id, order)).status_code
    for body in ({"status": "CANCELLED"}, {"description": "x"}):
        found[str(body)] = (await http.patch(f"/api/tasks/{task_id}", json=body)).status_code
    return found


@pytest.mark.parametrize("which", LIES)
async def test_every_page_and_order_answers_whatever_is_stored(database_url: str, which: str) -> None:
    async with clients(database_url) as (only,):
        task_id = (await only.make())["id"]
        runs = await only.begin(task_id)
        for number, run in enumerate(runs):
            await only.measure(run, 1.0 + number)
        for _ in range(2):
            await only.replica.advance()
        assert (await only.told(task_id))["status"] == "COMPLETED"
        db, wrong = only.replica.db, dict[str, Any]()
        names = {"tasks": task_id, "groups": group_of(task_id), "runs": runs[0]["_id"]}
        good = {name: await db[name].find_one({"_id": names[name]}) for name in names}
        for number, (path, lie) in enumerate(LIES[which]):
            # another revision, so that nothing is told that was kept
            await db.groups.update_one({"_id": names["groups"]}, {"$set": {"revision": 100 + number}})
            known = await db[which].find_one({"_id": names[which]})
            await db[which].replace_one({"_id": names[which]}, damaged(known, path, lie, names[which]))
            found = await looked_at(only, task_id)
            wrong[f"{path}: {lie!r}"] = {name: code for name, code in found.items() if code >= 500}
            for name, document in good.items():
                await db[name].replace_one({"_id": names[name]}, document)
            await db.tasks.delete_many({"_id": {"$ne": task_id}})
        assert {name: each for name, each in wrong.items() if each} == {}
