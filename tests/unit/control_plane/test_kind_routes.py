"""Whatever the routes of a kind do, the server answers in its words and goes on, or does not start at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from starlette.staticfiles import StaticFiles

from control_plane.access.auth import Principal
from control_plane.access.keys import Scope
from control_plane.config import read_settings
from control_plane.reads import kind_errors
from control_plane.server import kind_routes
from control_plane.server.api.runs import MayRead
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.store import database
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError, NotFound, Transient

URL = "mongodb://127.0.0.1:1/unit"
ENVIRONMENT = {
    "MONGODB_URL": URL, "MINIO_ENDPOINT": "127.0.0.1:1", "MINIO_ACCESS_KEY": "a", "MINIO_SECRET_KEY": "s",
    "PODFLEET_API_KEY": "key",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_errors, "_LOGGED", set())


Made = Callable[..., FastAPI]


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Made]:
    """Make an application in which kinds have these functions `router`, on a database that is never asked."""
    client = database.connect(URL)
    settings = read_settings(ENVIRONMENT, host="127.0.0.1", port=8700)

    async def identify(*_: object) -> Principal:
        return Principal("k", frozenset[Scope]({"read"}), "id")

    def make(*routers: Any) -> FastAPI:
        packages = {f"kind{place}": SimpleNamespace(router=each) for place, each in enumerate(routers)}
        monkeypatch.setattr(kind_routes, "modules", lambda _: packages)
        app = create_app(wire(settings, database.database(client, URL), SystemClock(), SystemIds()))
        app.state.authenticator = SimpleNamespace(identify=identify)
        return app

    yield make
    await client.close()


def raises(error: BaseException) -> Any:
    raise error


def router(path: str, answer: Callable[[], Any] = lambda: {"a": 1}, method: str = "GET") -> Any:
    def make(site: object) -> APIRouter:
        routes = APIRouter()

        @routes.api_route(path, methods=[method])
        async def own(_: MayRead) -> Any:
            return answer()

        @routes.get(f"{path}/in-a-thread")
        def other(_: MayRead) -> Any:
            return answer()

        return routes

    return make


async def ask(app: FastAPI, *paths: str) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return [await client.get(path) for path in paths]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a secret"),
        SystemExit(3),
        asyncio.CancelledError(),
        BaseException("a secret"),
        BaseExceptionGroup("several", [SystemExit(3)]),
    ],
)
async def test_a_route_that_raises_is_answered_in_words_and_logged_once(
    error: BaseException, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    app = made(router("/api/hello", lambda: raises(error)))
    for path in ("/api/hello", "/api/hello/in-a-thread"):
        caplog.clear()
        for answer in await ask(app, path, path):
            assert answer.status_code == 500
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "kind_failed"
            assert answer.json()["detail"].startswith(f"the route 'GET {path}' of the kind 'kind0' failed")
            assert "a secret" not in answer.text
        told = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert [each.getMessage() for each in told] == ["kind.route_failed"]
        assert told[0].exc_info
        assert told[0].exc_info[0] is type(error)
    assert (await ask(app, "/healthz"))[0].status_code == 200


async def test_what_a_route_refuses_is_answered_as_everywhere(made: Made) -> None:
    errors = {
        (404, "nothing"): NotFound("nothing", "there is none"),
        (503, "store"): Transient("store", "away"),
        (418, "http"): HTTPException(418, "tea"),
    }
    for (status, code), error in errors.items():
        answer = (await ask(made(router("/api/hello", partial(raises, error))), "/api/hello"))[0]
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_an_answer_that_fails_on_its_way_ends_and_the_server_goes_on(
    made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    async def lines() -> AsyncIterator[str]:
        yield "first"
        raise ValueError("a secret")

    app = made(router("/api/hello", lambda: StreamingResponse(lines())))
    with pytest.raises(RuntimeError, match="already started"):  # which cuts the connection
        await ask(app, "/api/hello")
    assert "kind.route_failed" in [each.getMessage() for each in caplog.records]


def mounting(site: object) -> APIRouter:
    routes = APIRouter()
    routes.mount("/anything", StaticFiles(directory="/"))
    return routes


def unguarded(site: object) -> APIRouter:
    routes = APIRouter()

    @routes.get("/api/hello")
    async def own() -> None:
        return None

    return routes


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda _: raises(ValueError("x")), "its `router` could not be made (ValueError)"),
        (lambda _: raises(SystemExit(0)), "its `router` could not be made (SystemExit)"),
        (lambda _: raises(asyncio.CancelledError()), "its `router` could not be made (CancelledError)"),
        (None, "its `router` could not be made (TypeError)"),
        (lambda _: None, "its `router` returned None, no APIRouter"),
        (lambda _: FastAPI(), "no APIRouter"),
        (mounting, "is no route of an APIRouter"),
        (unguarded, "its route '/api/hello' asks for no key"),
        (router("/api/runs"), "its route '/api/runs' is answered by another one already"),
        (router("/api/runs", method="DELETE"), "its route '/api/runs' is answered by another one already"),
        (router("/api/runs/{run_id}/cancel", method="POST"), "is answered by another one already"),
        (router("/runs/mine"), "its route '/runs/mine' is answered by another one already"),
        (router("/static/mine"), "is answered by another one already"),
        (router("/openapi.json"), "is answered by another one already"),
        (router("/pods"), "is answered by another one already"),
        (router("/{anything:path}"), "a route of its own takes"),
        (router("/api/{noun}"), "a route of its own takes"),
    ],
)
async def test_routes_that_cannot_be_had_end_the_start_in_words(own: Any, words: str, made: Made) -> None:
    with pytest.raises(ConfigError) as told:
        made(own)
    assert told.value.message.startswith("kind 'kind0': ")
    assert words in told.value.message
    assert told.value.message.endswith("; uninstall its package or fix it")
    assert "\n" not in told.value.message


async def test_two_kinds_with_one_route_and_every_problem_are_told_together(made: Made) -> None:
    with pytest.raises(ConfigError) as told:
        made(router("/api/hello"), router("/api/{other}/in-a-thread"), lambda _: 5)
    assert [each.partition(":")[0] for each in told.value.problems] == ["kind 'kind1'", "kind 'kind2'"]
