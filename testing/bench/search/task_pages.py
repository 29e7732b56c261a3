"""Lists and pages of tasks whose rounds have many runs: how long each takes, known and after a change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection
from typing import Any, Final

import httpx
from pymongo import MongoClient
from pymongo.database import Database
from ulid import ULID

from control_plane.kinds.trial.planning import group_of
from control_plane.model.groups.members import member_id
from events.kinds.trial import HEADLINE
from events.runtime.clock import SystemClock
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.machine import pause
from testing.bench.servers import fleet

TASKS: Final = 50
RUNS: Final = 2_000
GOING_ON: Final = 5  # tasks whose round has not ended: paused, so that no loop changes them
TIMES: Final = 7
PATIENCE_S: Final = 120.0
BATCH: Final = 2_000
CLOCK: Final = SystemClock()
LIST: Final = "the list of runs"
CHANGED: Final = "after every task changed"
GOALS: Final = {"the list": 250.0, "the list by API": 250.0, "one task": 1_000.0}
TASK: Final[dict[str, Any]] = {
    "name": "task",
    "model": {"id": "smollm2"},
    "parameters": {
        "n_parallel": {"low": 1, "high": 64},
        "n_batch": {"low": 32, "high": 2_048},
        "n_threads": [1, 2, 4],
    },
    "optimization": {"strategy": "random", "max_iterations": RUNS, "parallel": 1},
}
NUMBERS: Final = tuple(each.name for each in HEADLINE if each.type == "number")

Json = dict[str, Any]
Store = Database[Json]


def run(setting: Setting) -> Iterator[Row]:
    """Fill a store with tasks, and ask for their list, by page and by API, and for the page of one."""
    tasks, runs = (3, 50) if setting.small else (TASKS, RUNS)
    with (
        fleet(setting.scratch / "data") as stack,
        MongoClient[Json](stack.mongodb_url, tz_aware=True) as client,
    ):
        db = client.get_default_database("podfleet")
        ids = _fill(db, f"http://127.0.0.1:{stack.port}", tasks, runs)
        asked = {"the list": "/tasks", "the list by API": "/api/tasks", "one task": f"/tasks/{ids[-1]}"}
        for name, address in asked.items():
            ways = {
                OURS: partial(_asked, db, stack.port, address),
                LIST: partial(_asked, db, stack.port, "/runs"),
            }
            yield from contest(f"{tasks} tasks of {runs:,} runs: {name}", _metrics(name), ways, setting)


def _metrics(name: str) -> tuple[Metric, ...]:
    known = Metric("known", "ms", more_is_better=False, goals=(Goal(GOALS[name]),))
    return known, Metric(CHANGED, "ms", more_is_better=False)


def _asked(db: Store, port: int, address: str) -> Figures:
    connection = HTTPConnection("127.0.0.1", port)
    db.groups.update_many({}, {"$inc": {"revision": 1}})
    first = _ask(connection, address)
    known = [_ask(connection, address) for _ in range(TIMES)]
    connection.close()
    return {"known": percentile(known, 0.5), CHANGED: first}


def _ask(connection: HTTPConnection, address: str) -> float:
    begun_s = CLOCK.monotonic_s()
    connection.request("GET", address)
    answer = connection.getresponse()
    answer.read()
    assert answer.status < 400, f"{address}: {answer.status}"
    return 1000 * (CLOCK.monotonic_s() - begun_s)


def _fill(db: Store, url: str, tasks: int, runs: int) -> list[str]:
    """Make tasks like the one that the API makes, and return their ids: the first ones have not ended."""
    task, group, run, spec = _template(db, url)
    ids: list[str] = []
    for number in range(tasks):
        task_id = str(ULID.from_timestamp(number + 1))
        ids.append(task_id)
        has_ended = number >= GOING_ON
        status = "COMPLETED" if has_ended else "PAUSED"
        made = {**group, "_id": group_of(task_id), "status": status, "next": runs}
        if has_ended:
            made["journal"] = [*group["journal"], {**group["journal"][-1], "action": "close"}]
        db.tasks.insert_one({**task, "_id": task_id, "name": f"task {number}"})
        db.groups.insert_one(made)
        _add_runs(db, run, spec, made, runs)
    return ids


def _template(db: Store, url: str) -> tuple[Json, Json, Json, Json]:
    """Return the documents of a task of one run, which are taken out of the store."""
    with httpx.Client(base_url=url, trust_env=False) as client:
        task_id = client.post("/api/tasks", json=TASK).raise_for_status().json()["id"]
        client.post(f"/api/tasks/{task_id}/start").raise_for_status()
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while not (run := db.runs.find_one({"groupId": group_of(task_id), "status": "QUEUED"})):
            if CLOCK.monotonic_s() > until_s:
                raise TimeoutError("the task submits no run")
            pause(0.05)
        client.post(f"/api/groups/{group_of(task_id)}/pause").raise_for_status()
    wanted = (db.tasks, task_id), (db.groups, group_of(task_id)), (db.run_specs, run["_id"])
    task, group, spec = [collection.find_one_and_delete({"_id": name}) for collection, name in wanted]
    db.runs.delete_many({})
    assert task
    assert group
    assert spec
    return task, group, run, spec


def _add_runs(db: Store, run: Json, spec: Json, group: Json, count: int) -> None:
    chance = random.Random(group["_id"])
    for begin in range(0, count, BATCH):
        runs, specs = list[Json](), list[Json]()
        for slot in range(begin, min(begin + BATCH, count)):
            run_id = member_id(group["_id"], datetime(2026, 11, 1, tzinfo=UTC), slot)
            made = {**run, "_id": run_id, "groupId": group["_id"], "slot": slot, "logOpen": False}
            made["status"] = chance.choices(["COMPLETED", "FAILED", "CANCELED"], [90, 8, 2])[0]
            if made["status"] == "COMPLETED":
                made["summary"] = {name: chance.random() for name in NUMBERS}
            if made["status"] == "FAILED":
                made["error"] = {"code": "DEPLOY_FAILED", "message": "it did not start", "stage": "deploy"}
            values = {"n_parallel": slot % 64 + 1, "n_batch": chance.randint(32, 2_048)}
            given = {**spec["spec"], "parameters": {**values, "n_threads": chance.choice([1, 2, 4])}}
            runs.append(made)
            specs.append({**spec, "_id": run_id, "spec": given})
        db.runs.insert_many(runs, ordered=False)
        db.run_specs.insert_many(specs, ordered=False)


BENCH: Final = Bench("tasks", "lists and pages of tasks with many runs", run)
