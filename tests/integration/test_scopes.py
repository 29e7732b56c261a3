"""Every route × every scope: exactly one scope opens it, and a route that is not in the table fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import httpx
import pytest
from fastapi.routing import APIRoute

from control_plane.access.keys import ALL, Scope
from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.store import database
from events.runtime.clock import SystemClock, SystemIds

ROOT_KEY = "a-key-of-the-test"
URL = "mongodb://127.0.0.1:1/unit"
OPEN: Final = (
    "GET /healthz",
    "GET /install/",
    "GET /install/requirements.txt",
    "GET /install/{name}",
    "GET /readyz",
    "GET /signin",
    "GET /signin/once",
    "POST /signin",
    "POST /signout",
)
OPENED_BY: Final[Mapping[Scope, tuple[str, ...]]] = {
    "read": (
        "GET /",
        "GET /api/artifacts/{artifact_id}",
        "GET /api/boards",
        "GET /api/boards/export",
        "GET /api/boards/view",
        "GET /api/boards/{board_id}",
        "GET /api/data-uses",
        "GET /api/groups",
        "GET /api/groups/{group_id}",
        "GET /api/groups/{group_id}/importance",
        "GET /api/groups/{group_id}/live",
        "GET /api/groups/{group_id}/members",
        "GET /api/races",
        "GET /api/races/{race_id}",
        "GET /api/races/{race_id}/export",
        "GET /api/races/{race_id}/samples",
        "GET /api/hypotheses",
        "GET /api/hypotheses/{hypothesis_id}",
        "GET /api/tasks",
        "GET /api/tasks/{task_id}",
        "GET /api/tasks/{task_id}/experiments",
        "GET /api/tasks/{task_id}/export",
        "GET /api/install",
        "GET /api/kinds",
        "GET /api/kinds/{name}",
        "GET /api/models",
        "GET /api/models/{model_id}",
        "GET /models",
        "GET /api/data-sets",
        "GET /api/data-sets/{data_set_id}",
        "GET /api/data-sets/{data_set_id}/{version}",
        "GET /api/trees/{tree_id}",
        "GET /api/trees/{tree_id}/chunks",
        "GET /api/pods",
        "GET /api/pods/{pod_id}",
        "GET /api/pods/{pod_id}/attempts",
        "GET /api/pods/{pod_id}/telemetry",
        "GET /api/queue",
        "GET /api/runs",
        "GET /api/runs/compare",
        "GET /api/runs/{run_id}",
        "GET /api/runs/{run_id}/artifacts",
        "GET /api/runs/{run_id}/events",
        "GET /api/runs/{run_id}/explain",
        "GET /api/runs/{run_id}/deletion",
        "GET /api/retention",
        "GET /api/retention/{rule_id}/preview",
        "GET /api/hypotheses/{hypothesis_id}/deletion",
        "GET /api/runs/{run_id}/live",
        "GET /api/runs/{run_id}/nodes",
        "GET /api/schedules",
        "GET /api/schedules/preview",
        "GET /api/schedules/{schedule_id}",
        "GET /api/schedules/{schedule_id}/next",
        "GET /api/projects",
        "GET /api/projects/{project_id}",
        "GET /api/secrets",
        "GET /api/stream",
        "POST /api/signin-links",
        "GET /artifacts/{artifact_id}",
        "GET /groups",
        "GET /races",
        "GET /races/{race_id}",
        "GET /groups/{group_id}",
        "GET /groups/{group_id}/curves",
        "GET /boards",
        "GET /boards/view",
        "GET /boards/{board_id}",
        "GET /tasks",
        "GET /tasks/compare",
        "GET /tasks/{task_id}",
        "GET /tasks/{task_id}/experiments.csv",
        "GET /tasks/{task_id}/objective.svg",
        "GET /tasks/{task_id}/export",
        "GET /hypotheses",
        "GET /hypotheses/{hypothesis_id}",
        "GET /live",
        "GET /metrics",
        "GET /numbers",
        "GET /ledger",
        "GET /api/ledger",
        "GET /api/ledger/export",
        "GET /openapi.json",
        "GET /pods",
        "GET /pods/{pod_id}",
        "GET /reviews",
        "GET /runs",
        "GET /runs/bulk",
        "GET /runs/compare",
        "GET /runs/{run_id}",
        "GET /runs/{run_id}/attempts",
        "GET /runs/{run_id}/events",
        "GET /runs/{run_id}/results",
        "GET /api/results/compare",
        "GET /api/results/keys",
        "GET /api/board-history",
        "GET /boards/history",
        "GET /api/results/pairs",
        "GET /runs/compare/items",
        "GET /runs/{run_id}/results/row",
        "GET /api/runs/{run_id}/results",
        "GET /api/runs/{run_id}/results/export",
        "GET /api/runs/{run_id}/archive",
        "GET /runs/{run_id}/files",
        "GET /runs/{run_id}/kind/{tab}",
        "GET /runs/{run_id}/log",
        "GET /runs/{run_id}/metrics",
        "GET /runs/{run_id}/spec",
        "GET /runs/{run_id}/validation",
        "GET /schedules",
        "GET /schedules/{schedule_id}",
        "GET /schedules/{schedule_id}/edit",
        "GET /projects",
        "GET /secrets",
        "GET /api/webhooks",
        "GET /api/webhooks/{webhook_id}",
        "GET /api/webhooks/{webhook_id}/deliveries",
        "GET /webhooks",
        "GET /webhooks/{webhook_id}",
    ),
    "submit": (
        "POST /api/groups",
        "PATCH /api/groups/{group_id}",
        "POST /api/groups/{group_id}/again",
        "POST /api/races",
        "POST /api/race-checks",
        "POST /api/races/{race_id}/again",
        "POST /api/races/{race_id}/cancel",
        "POST /api/groups/{group_id}/cancel",
        "POST /api/groups/{group_id}/pause",
        "POST /api/groups/{group_id}/resume",
        "DELETE /api/boards/{board_id}",
        "PUT /api/boards/{board_id}",
        "POST /boards",
        "POST /boards/{board_id}/remove",
        "POST /api/tasks",
        "POST /api/task-estimates",
        "POST /api/task-imports",
        "DELETE /api/tasks/{task_id}",
        "PATCH /api/tasks/{task_id}",
        "PUT /api/tasks/{task_id}",
        "POST /api/tasks/{task_id}/clone",
        "POST /api/tasks/{task_id}/restart",
        "POST /api/tasks/{task_id}/start",
        "POST /api/hypotheses",
        "POST /api/hypotheses/{hypothesis_id}/runs",
        "POST /api/runs",
        "DELETE /api/data-sets/{data_set_id}/{version}",
        "POST /api/data-sets/{data_set_id}",
        "POST /api/trees",
        "POST /api/tree-uploads",
        "POST /api/run-estimates",
        "POST /api/runs/bulk",
        "PATCH /api/runs/{run_id}",
        "POST /api/runs/{run_id}/cancel",
        "POST /api/runs/{run_id}/notes",
        "POST /api/runs/{run_id}/pause",
        "POST /api/runs/{run_id}/rescue",
        "POST /api/runs/{run_id}/resume",
        "POST /api/runs/{run_id}/retry",
        "POST /api/schedules",
        "DELETE /api/schedules/{schedule_id}",
        "PATCH /api/schedules/{schedule_id}",
        "PUT /api/schedules/{schedule_id}",
        "POST /api/schedules/{schedule_id}/run",
        "GET /runs/new",
        "POST /groups/{group_id}/again",
        "GET /races/new",
        "POST /races/new/look",
        "POST /races/new",
        "POST /races/{race_id}/again",
        "POST /races/{race_id}/cancel",
        "POST /groups/{group_id}/cancel",
        "GET /groups/{group_id}/edit",
        "POST /groups/{group_id}/edit",
        "POST /groups/{group_id}/pause",
        "POST /groups/{group_id}/resume",
        "GET /runs/new/look",
        "GET /runs/{run_id}/change",
        "GET /tasks/look",
        "GET /tasks/new",
        "GET /tasks/{task_id}/edit",
        "POST /tasks/import",
        "POST /tasks/new",
        "POST /tasks/{task_id}/cancel",
        "POST /tasks/{task_id}/clone",
        "POST /tasks/{task_id}/delete",
        "POST /tasks/{task_id}/edit",
        "POST /tasks/{task_id}/start",
        "POST /hypotheses",
        "POST /hypotheses/{hypothesis_id}/cancel",
        "POST /hypotheses/{hypothesis_id}/runs",
        "POST /runs/bulk",
        "POST /runs/new",
        "POST /runs/{run_id}/cancel",
        "POST /runs/{run_id}/change",
        "POST /runs/{run_id}/notes",
        "POST /runs/{run_id}/pause",
        "POST /runs/{run_id}/rescue",
        "POST /runs/{run_id}/resume",
        "POST /runs/{run_id}/retry",
        "POST /schedules",
        "POST /schedules/{schedule_id}",
        "POST /schedules/{schedule_id}/pause",
        "POST /schedules/{schedule_id}/remove",
        "POST /schedules/{schedule_id}/resume",
        "POST /schedules/{schedule_id}/run",
    ),
    "review": (
        "POST /api/runs/{run_id}/review",
        "POST /runs/{run_id}/review",
    ),
    "ingest": (
        "POST /api/runs/{run_id}/live",
        "POST /api/ingest/event",
        "POST /api/ingest/events",
        "POST /api/runs/{run_id}/artifacts/checkpoints",
        "POST /api/runs/{run_id}/artifacts/complete",
        "POST /api/runs/{run_id}/artifacts/presign",
        "POST /api/runs/{run_id}/artifacts/presign/many",
        "POST /api/runs/{run_id}/secrets",
        "GET /api/runs/{run_id}/trees/{tree_id}",
        "GET /api/runs/{run_id}/trees/{tree_id}/chunks",
    ),
    "admin": (
        "DELETE /api/runs/{run_id}",
        "DELETE /api/hypotheses/{hypothesis_id}",
        "POST /api/archives",
        "PUT /api/retention/{rule_id}",
        "DELETE /api/retention/{rule_id}",
        "GET /runs/{run_id}/delete",
        "POST /runs/{run_id}/delete",
        "GET /api/audit",
        "GET /api/audit/export",
        "GET /api/keys",
        "POST /api/keys",
        "GET /api/keys/{key_id}",
        "POST /api/keys/{key_id}/revoke",
        "POST /api/keys/{key_id}/rotate",
        "POST /api/pods/{pod_id}/cordon",
        "POST /api/pods/{pod_id}/drain",
        "POST /api/pods/{pod_id}/release",
        "POST /api/pods/{pod_id}/resets",
        "POST /api/pods/{pod_id}/restart",
        "POST /api/pods/{pod_id}/uncordon",
        "POST /api/pods/{pod_id}/undrain",
        "POST /api/model-syncs",
        "PUT /api/models/{model_id}",
        "DELETE /api/models/{model_id}",
        "POST /models",
        "GET /models/{model_id}/edit",
        "POST /models/sync",
        "POST /models/{model_id}/remove",
        "PUT /api/projects/{project_id}",
        "DELETE /api/secrets/{secret_id}",
        "PUT /api/secrets/{secret_id}",
        "POST /api/secret-rotations",
        "POST /pods/{pod_id}/cordon",
        "POST /pods/{pod_id}/drain",
        "POST /pods/{pod_id}/release",
        "POST /pods/{pod_id}/resets",
        "POST /pods/{pod_id}/restart",
        "POST /pods/{pod_id}/uncordon",
        "POST /pods/{pod_id}/undrain",
        "POST /projects",
        "POST /secrets",
        "POST /secrets/{secret_id}/remove",
        "POST /api/webhooks",
        "PATCH /api/webhooks/{webhook_id}",
        "DELETE /api/webhooks/{webhook_id}",
        "POST /api/webhooks/{webhook_id}/rotate",
        "POST /api/webhooks/{webhook_id}/test",
        "POST /api/webhooks/{webhook_id}/replay",
        "POST /webhooks",
        "POST /webhooks/{webhook_id}/enable",
        "POST /webhooks/{webhook_id}/remove",
        "POST /webhooks/{webhook_id}/replay",
        "POST /webhooks/{webhook_id}/rotate",
        "POST /webhooks/{webhook_id}/test",
    ),
    "claim": (
        "POST /api/claims",
        "POST /api/claims/recover",
        "POST /api/claims/{run_id}/release",
        "POST /api/claims/{run_id}/renew",
        "POST /api/claims/{run_id}/settle",
        "POST /api/pods",
        "GET /api/wakeups",
        "POST /api/upload-tests",
    ),
}


async def served() -> list[str]:
    """Return every route of the application, the undocumented ones too."""
    values = {
        "MONGODB_URL": URL,
        "MINIO_ENDPOINT": "127.0.0.1:1",
        "MINIO_ACCESS_KEY": "a",
        "MINIO_SECRET_KEY": "s",
    }
    client = database.connect(URL)
    settings = read_settings(values, host="127.0.0.1", port=8700)
    app = create_app(wire(settings, database.database(client, URL), SystemClock(), SystemIds()))
    await client.close()
    return [
        f"{method} {route.path.replace(':path', '')}"
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    ]


@pytest.fixture
def clients(keyed_url: str) -> Iterator[dict[Scope, httpx.Client]]:
    """A client for each scope, whose key may do that and nothing else."""
    with ExitStack() as stack:
        made: dict[Scope, httpx.Client] = {}
        for scope in sorted(ALL):
            body = {"kind": "admin", "name": scope, "scopes": [scope]}
            headers = {"authorization": f"Bearer {ROOT_KEY}"}
            key = httpx.post(f"{keyed_url}/api/keys", json=body, headers=headers).json()["key"]
            own = {"authorization": f"Bearer {key}"}
            made[scope] = stack.enter_context(httpx.Client(base_url=keyed_url, headers=own, timeout=30))
        yield made


async def test_every_route_is_in_the_table() -> None:
    known = Counter([*OPEN, *(route for routes in OPENED_BY.values() for route in routes)])
    found = Counter(await served())
    assert [*(found - known)] == [], "name these in OPENED_BY, below the scope that opens them"
    assert [*(known - found)] == [], "no route serves these"


def test_a_scope_opens_its_own_routes_and_no_other(clients: dict[Scope, httpx.Client]) -> None:
    for opened_by, routes in OPENED_BY.items():
        for route in routes:
            for scope, client in clients.items():
                answer, code = asked(client, route)
                is_refused = (answer, code) == (403, "missing_scope")
                assert is_refused != (scope == opened_by), (scope, route, answer, code)
                assert answer < 500, route


def test_the_token_of_a_run_opens_its_own_files_and_log_and_no_foreign_ones(
    keyed_url: str, clients: dict[Scope, httpx.Client]
) -> None:
    runs = [
        clients["submit"].post("/api/runs", json={"kind": "probe", "spec": {}}).json()["id"] for _ in "ab"
    ]
    body = {"pod": "hand/1", "kinds": ["probe"]}
    claims = [
        clients["claim"].post("/api/claims", json={**body, "token": f"{number:043}"}).json()["claim"]
        for number in range(2)
    ]
    assert [each["runId"] for each in claims] == runs
    for claim in claims:
        key = {"authorization": f"Bearer {claim['runToken']}"}
        with httpx.Client(base_url=keyed_url, headers=key, timeout=30) as holder:
            for route in (route for routes in OPENED_BY.values() for route in routes):
                for run_id in runs:
                    is_own = run_id == claim["runId"] or "{run_id}" not in route
                    answer, code = asked(holder, route.replace("{run_id}", run_id))
                    is_open = is_own and route in OPENED_BY["ingest"]
                    assert is_open == (answer != 403), (route, is_own, answer, code)
                    assert answer < 500, route


def asked(client: httpx.Client, route: str) -> tuple[int, Any]:
    """Return how a route answers, without waiting for the end of a stream."""
    method, path = route.split()
    place = path.replace("{", "").replace("}", "")
    with client.stream(method, place, params={"topic": "runs"} if path == "/live" else None) as answer:
        if answer.status_code != 403:
            return answer.status_code, None
        answer.read()
        return 403, answer.json()["code"]
