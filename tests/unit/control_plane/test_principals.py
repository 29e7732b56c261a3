"""No route without a principal: every route of the application is walked, not only the documented ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount

from control_plane.access.auth import Principal, require
from control_plane.access.keys import Scope
from control_plane.access.scrapers import Scrapers
from control_plane.config import Settings, read_settings
from control_plane.server.api.worker.claims import require_pod
from control_plane.server.app import create_app
from control_plane.server.dependencies import Dependencies
from control_plane.server.deps import wire
from control_plane.store import database
from events.runtime.clock import SystemClock, SystemIds

# What a machine installs before it has a key is the software, not data.
INSTALLED = {"/install/", "/install/requirements.txt", "/install/{name}"}
OPEN = {"/healthz", "/readyz", "/signin", "/signin/once", "/signout", "/static", *INSTALLED}
URL = "mongodb://127.0.0.1:1/unit"


@pytest.fixture
def settings() -> Settings:
    values = {
        "MONGODB_URL": URL,
        "MINIO_ENDPOINT": "127.0.0.1:1",
        "MINIO_ACCESS_KEY": "a",
        "MINIO_SECRET_KEY": "s",
    }
    return read_settings({**values, "PODFLEET_API_KEY": "key"}, host="127.0.0.1", port=8700)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application as it is served, on a database that is never asked."""
    client = database.connect(settings.mongodb_url)
    deps = wire(settings, database.database(client, URL), SystemClock(), SystemIds())
    yield create_app(deps)
    await deps.close()
    await client.close()


def dependencies(dependant: Dependant) -> Iterator[object]:
    for each in dependant.dependencies:
        yield getattr(each.call, "__qualname__", None)
        yield from dependencies(each)


def is_guarded(route: BaseRoute) -> bool:
    if isinstance(route, Mount):
        return False
    assert isinstance(route, APIRoute), f"{route} is of a kind that nobody guards"
    found = set(dependencies(route.dependant))
    return bool(found & {require("read").__qualname__, Scrapers.require.__qualname__})


async def test_every_route_but_those_of_health_sign_in_and_style_takes_a_principal(app: FastAPI) -> None:
    unguarded = {getattr(route, "path", str(route)) for route in app.routes if not is_guarded(route)}
    assert unguarded == OPEN
    assert len(app.routes) > 30


async def test_a_stranger_is_refused_everywhere_before_anything_is_looked_up(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(_: Dependencies) -> database.Database:
        raise AssertionError("a stranger makes nobody look")

    monkeypatch.setattr(Dependencies, "_own", looked_up)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as stranger:
        for route in app.routes:
            path = getattr(route, "path", "")
            if path in OPEN:
                continue
            for method in getattr(route, "methods", None) or {"GET"}:
                target = path.replace(":path", "").replace("{", "").replace("}", "")
                answer = await stranger.request(method, target)
                assert answer.status_code == 401, (method, path)


async def test_the_key_of_one_pod_neither_claims_nor_reports_as_another(app: FastAPI) -> None:
    bound = Principal("k", frozenset[Scope]({"claim"}), "id", pod="pod-7")

    async def identify(*_: object) -> Principal:
        return bound

    app.state.authenticator = SimpleNamespace(identify=identify)
    claim = {"token": "T" * 43, "mode": "hybrid", "kinds": ["probe"]}
    line = {
        "mode": "hybrid", "kinds": ["probe"], "state": "idle", "version": "1",
        "startedAt": "2026-01-01T00:00:00Z", "capabilities": {"cpus": 1, "memoryMib": 1},
        "telemetry": {"memoryMib": 1},
    }  # fmt: skip
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as pod:
        for path, body in (
            ("/api/claims", {**claim, "pod": "pod-8/3f2a"}),
            ("/api/claims", {**claim, "pod": "pod-70/3f2a"}),
            ("/api/pods", {**line, "id": "pod-8/3f2a", "pod": "pod-7"}),
            ("/api/pods", {**line, "id": "pod-7/3f2a", "pod": "pod-8"}),
        ):
            answer = await pod.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "foreign_pod"), body
    require_pod(bound, "pod-7/3f2a")


async def test_no_answer_is_kept_guessed_at_or_shared_and_only_files_of_ours_may_be_kept(
    app: FastAPI,
) -> None:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as stranger:
        for path, kept in (("/api/runs", "no-store"), ("/nothing", "no-store"), ("/static/style.css", None)):
            headers = (await stranger.get(path)).headers
            assert headers.get("cache-control") == kept, path
            assert headers["x-content-type-options"] == "nosniff", path
            assert headers["cross-origin-opener-policy"] == "same-origin", path


async def test_no_answer_leads_to_the_host_that_a_request_names(app: FastAPI) -> None:
    headers = {"host": "evil.example", "accept": "text/html"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as stranger:
        for path in ("/static", "/healthz/", "/api/runs/", "/runs/", "/runs/x/events/"):
            answer = await stranger.get(path, headers=headers)
            assert "evil.example" not in answer.headers.get("location", ""), path


async def test_a_client_that_goes_away_in_the_middle_leaves_no_traceback(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    answers = []

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    headers = {"host": "127.0.0.1", "authorization": "Bearer key", "content-type": "application/x-ndjson"}
    scope = {
        **{"type": "http", "method": "POST", "path": "/api/ingest/events", "query_string": b""},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)  # it would raise
    assert answers[0]["status"] == 400
    assert caplog.messages == []
