"""No question that a page or a program may ask walks through a collection: the plans that MongoDB noted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.store import database as store
from control_plane.store import pages
from events.runtime.clock import SystemClock, SystemIds
from events.testing import EPOCH, ManualClock
from testing.bench.load.questions import known, questions

Operation = dict[str, Any]

# Made by people, a few in the life of a fleet: each is one question for whether there is any.
SMALL = {"api_keys"}
# What asks no database, has no end, gives everything away on purpose, or wants the token of a run and asks
# for what "/api/trees/" asks.
UNASKED = {
    "/healthz", "/readyz", "/signin", "/signin/once", "/openapi.json", "/live", "/api/stream", "/api/wakeups",
    "/api/groups/{group_id}/live", "/api/runs/{run_id}/live",
    "/api/runs/{run_id}/archive",
    "/api/audit/export", "/artifacts/{artifact_id:path}", "/api/schedules/preview",
    # whoever asks these is shown also which of all schedules and open groups name the run
    "/api/runs/{run_id}/deletion", "/runs/{run_id}/delete", "/api/hypotheses/{hypothesis_id}/deletion",
    "/api/retention/{rule_id}/preview",
    "/api/install", "/install/", "/install/requirements.txt", "/install/{name}",
    "/api/runs/{run_id}/trees/{tree_id}", "/api/runs/{run_id}/trees/{tree_id}/chunks",
}  # fmt: skip
SCAN = 60  # how much a page with a sieve looks at here, so that a small store shows the bound
BRANCHES = 10  # of a cursor, each of which may look one too far
COMMANDS = {
    "/": 18, "/api/queue": 7, "/metrics": 18, "/numbers": 16, "/reviews": 5, "/hypotheses": 5, "/pods": 6,
    "/runs all": 3, "/api/runs all": 1, "/runs/ long": 10, "/api/runs/ long": 12,
    "/runs/ long/metrics": 5, "/runs/ long/files": 5, "/runs/ long/attempts": 7, "/runs/ long/spec": 4,
}  # fmt: skip
MODEL = {"endpoint": {"model": "m", "base_url": "https://a.example/v1"}}
BOARD = "kind=probe&rows=spec.seconds&columns=label.team&cell=value&show=mean"
EXTRA = {
    "/api/boards/": "/api/boards/probes",
    "/api/boards/view": f"/api/boards/view?{BOARD}",
    "/api/boards/view label": f"/api/boards/view?{BOARD}&label=team%3Dvision",
    "/api/boards/export": f"/api/boards/export?{BOARD}",
    "/boards/": "/boards/probes",
    "/api/models/": "/api/models/fast",
    "/models//edit": "/models/fast/edit",
    "/boards/view": f"/boards/view?{BOARD}",
    "/api/runs sorted": "/api/runs?sort=-spec.seconds&columns=label.team,spec.seconds,summary.value",
    "/api/runs of a pod": "/api/runs?pod=pod-1",
    "/api/runs of a pod, of a class": "/api/runs?pod=pod-1&region=eu",
    "/api/runs of somebody": "/api/runs?mine=true",
    "/api/runs sorted, of a status": "/api/runs?sort=spec.seconds&status=COMPLETED",
    "/api/schedules/": "/api/schedules/nightly",
    "/api/schedules//next": "/api/schedules/nightly/next",
    "/schedules/": "/schedules/nightly",
    "/schedules//edit": "/schedules/nightly/edit",
    "/api/groups/": "/api/groups/sweep",
    "/api/groups//members": "/api/groups/sweep/members",
    "/api/groups/ study": "/api/groups/search",
    "/api/groups//importance": "/api/groups/search/importance",
    "/groups/ study": "/groups/search",
    "/groups/": "/groups/sweep?by=min:loss",
    "/groups//curves": "/groups/sweep/curves",
    "/groups//edit": "/groups/sweep/edit",
    "/api/races/": "/api/races/sweep",
    "/api/races//samples": "/api/races/sweep/samples",
    "/api/races//export": "/api/races/sweep/export",
    "/races/": "/races/sweep",
    "/races/new": "/races/new?kind=probe",
    "/api/tasks/": "/api/tasks/ONE",
    "/api/tasks//experiments": "/api/tasks/ONE/experiments",
    "/api/tasks//export": "/api/tasks/ONE/export",
    "/tasks/": "/tasks/ONE",
    "/tasks/compare": "/tasks/compare?id=ONE",
    "/tasks//edit": "/tasks/ONE/edit",
    "/tasks//experiments.csv": "/tasks/ONE/experiments.csv",
    "/tasks//objective.svg": "/tasks/ONE/objective.svg",
    "/tasks//export": "/tasks/ONE/export",
    "/runs group": "/runs?group=sweep",
    "/runs group, words": "/runs?group=sweep&q=one+two&status=FAILED",
    "/api/keys/": "/api/keys/unknown",
    "/api/projects/": "/api/projects/vision",
    "/api/webhooks/": "/api/webhooks/one",
    "/api/webhooks//deliveries": "/api/webhooks/one/deliveries?state=dead",
    "/webhooks/": "/webhooks/one",
    "/api/runs/compare": "/api/runs/compare?run=ONE&run=TWO",
    "/runs//results/row": "/runs/ONE/results/row?key=1",
    "/api/board-history": "/api/board-history?kind=probe&label=team%3Dvision",
    "/boards/history": "/boards/history?kind=probe&cell=value&rows=spec.x",
    "/api/results/pairs": "/api/results/pairs?run=ONE&run=TWO",
    "/runs/compare/items": "/runs/compare/items?ids=ONE,TWO",
    "/api/results/compare": "/api/results/compare?run=ONE&run=TWO",
    "/api/trees/": f"/api/trees/{'0' * 64}",
    "/api/trees//chunks": f"/api/trees/{'0' * 64}/chunks",
    "/api/data-sets": "/api/data-sets",
    "/api/data-sets/": "/api/data-sets/images",
    "/api/data-sets//": "/api/data-sets/images/1",
    "/api/kinds": "/api/kinds",
    "/api/kinds/": "/api/kinds/probe",
    "/runs/new": "/runs/new?kind=probe",
    "/runs/new/look": "/runs/new/look?kind=probe",
}
WEBHOOK = {
    "_id": "one", "format": "slack", "place": "https://chat.example", "enabled": True, "disabledWhy": None,
    "filters": {"types": [], "projects": [], "kinds": [], "labels": [], "owners": []}, "previousUntil": None,
    "createdBy": "test", "createdAt": EPOCH, "updatedAt": EPOCH,
}  # fmt: skip
GROUP = {
    "id": "sweep",
    "run": {"kind": "probe"},
    "plan": {"kind": "matrix", "values": {"seconds": [1, 2]}},
    "paused": True,
}
STUDY = {
    "kind": "study", "sampler": "random", "goal": "min:value", "max_runs": 9, "constraints": ["radius <= 1"],
    "space": {"x": {"type": "uniform", "low": 0, "high": 1}},
}  # fmt: skip
SCHEDULE = {"id": "nightly", "cron": "0 3 * * *", "run": {"kind": "probe"}}


@pytest.fixture
async def app(filled: tuple[str, Any], s3: Any) -> AsyncIterator[FastAPI]:
    """The application on a filled store, without its loops, which ask questions of their own.

    Its clock stands still: what it remembers for a second is not asked again where the machine is slow,
    and of a day that has just begun two parts are asked for, of this one and of the one before.
    """
    url, _ = filled
    values = {"MONGODB_URL": url, **s3.environment}
    client = store.connect(url)
    db = store.database(client, url)
    settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
    deps = wire(settings, db, ManualClock(SystemClock().now().replace(hour=12)), SystemIds())
    yield create_app(deps)
    await deps.close()
    await client.close()


@pytest.fixture
async def asking(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def profile(filled: tuple[str, Any]) -> Iterator[Any]:
    """What MongoDB notes of each operation on the filled store."""
    _, db = filled
    db.create_collection("system.profile", capped=True, size=32 << 20)
    db.command("profile", 2)
    yield db["system.profile"]
    db.command("profile", 0)
    db.drop_collection("system.profile")


def all_questions(db: Any) -> dict[str, str]:
    lengths = [{"$group": {"_id": "$runId", "n": {"$sum": 1}}}, {"$sort": {"n": -1}}, {"$limit": 1}]
    groups = questions(known(db, next(db.events.aggregate(lengths))["_id"]))
    return {name: address for group in groups.values() for name, address in group.items()}


def routes(app: FastAPI) -> Iterator[APIRoute]:
    """Return every route that only looks."""
    for route in app.routes:
        if isinstance(route, APIRoute) and "GET" in route.methods:
            yield route


def operations(profile: Any, seen: int = 0) -> list[Operation]:
    """Return what was noted of requests, in its order, without the first `seen`."""
    wanted = {"appName": "podfleet-control-plane", "op": {"$in": ["query", "command", "getmore"]}}
    return list(profile.find(wanted).sort("$natural", 1).skip(seen))


def is_walk(operation: Operation) -> bool:
    collection = operation["ns"].partition(".")[2]
    plan = operation.get("planSummary", "")
    stages = [next(iter(stage)) for stage in operation["command"].get("pipeline", [])]
    counts_first = "$group" in stages and "$sort" not in stages[: stages.index("$group")]
    # what was counted is few, and so are names that an index gives once each
    is_few = counts_first or "DISTINCT_SCAN" in plan
    is_sorted = bool(operation.get("hasSortStage")) and not is_few
    return ("COLLSCAN" in plan and collection not in SMALL) or is_sorted


def is_wasteful(operation: Operation) -> bool:
    """Say whether a read looked at more than it gave, or than a page with a sieve may look at."""
    most = max(2 * operation.get("nreturned", 0), 2 * SCAN) + BRANCHES
    is_read = "find" in operation["command"] or operation["op"] == "getmore"
    return is_read and max(operation.get("keysExamined", 0), operation.get("docsExamined", 0)) > most


async def test_every_question_is_answered_along_an_index_in_its_order(
    app: FastAPI,
    asking: httpx.AsyncClient,
    filled: tuple[str, Any],
    profile: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "SCAN_MAX", SCAN)
    (await asking.post("/api/schedules", json=SCHEDULE)).raise_for_status()
    (await asking.post("/api/groups", json=GROUP)).raise_for_status()
    (await asking.post("/api/groups", json={**GROUP, "id": "search", "plan": STUDY})).raise_for_status()
    (await asking.put("/api/models/fast", json=MODEL)).raise_for_status()
    (await asking.put("/api/projects/vision", json={})).raise_for_status()
    filled[1]["webhooks"].replace_one({"_id": "one"}, WEBHOOK, upsert=True)
    # one that is there: other tests count the runs of this store
    queued = await asking.get("/api/runs", params={"status": "QUEUED", "limit": 1})
    waiting = queued.json()["items"][0]["id"]
    asked = all_questions(filled[1]) | EXTRA | {"/runs//change": f"/runs/{waiting}/change"}
    paths = [urlsplit(address).path for address in asked.values()]
    served = [route for route in routes(app) if route.path not in UNASKED]
    missing = [route.path for route in served if not any(map(route.path_regex.match, paths))]
    asked |= {path: path for path in missing if "{" not in path}
    unnamed = [path for path in missing if "{" in path]
    assert unnamed == [], "name in EXTRA an address that each of these routes answers"
    wrong: list[Any] = []
    seen = 0
    for name, address in asked.items():
        answer = await asking.get(address)
        assert answer.status_code in (200, 302, 303, 404), (name, answer.text)
        noted = operations(profile, seen)
        wrong += [(name, each) for each in noted if is_walk(each) or is_wasteful(each)]
        seen += len(noted)
    assert seen > len(asked)
    assert wrong == []


async def test_hot_pages_ask_few_questions(
    asking: httpx.AsyncClient, filled: tuple[str, Any], profile: Any
) -> None:
    asked = all_questions(filled[1])
    counts: dict[str, int] = {}
    for name in COMMANDS:
        await asking.get(asked[name])  # remembers what is settled
        before = len(operations(profile))
        await asking.get(asked[name])
        counts[name] = len(operations(profile, before))
    assert counts == COMMANDS
