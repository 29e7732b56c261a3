"""Whatever the routes of a kind do, the server answers in its words and goes on, or does not start at all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from starlette.staticfiles import StaticFiles

from control_plane.access.auth import Principal
from control_plane.access.key_ring import Unauthorized
from control_plane.access.keys import Scope
from control_plane.config import read_settings
from control_plane.reads.kinds import errors as kind_errors
from control_plane.reads.kinds import loops as kind_loops
from control_plane.server import kind_router, kind_routes
from control_plane.server.api.runs import MayRead
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.store import database
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError, NotFound, Transient

URL = "mongodb://127.0.0.1:1/unit"
ENVIRONMENT = {
    "MONGODB_URL": URL, "MINIO_ENDPOINT": "127.0.0.1:1", "MINIO_ACCESS_KEY": "a", "MINIO_SECRET_KEY": "s",
    "PODFLEET_API_KEY": "key",
}  # fmt: skip


# What ends a program where nobody stops it.
ENDINGS = (SystemExit(3), KeyboardInterrupt(), BaseException("a secret"))


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_errors, "_LOGGED", set())


Made = Callable[..., FastAPI]


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Made]:
    """Make an application in which kinds have these functions `router`, on a database that is never asked."""
    client = database.connect(URL)
    wired: list[Deps] = []
    settings = read_settings(ENVIRONMENT, host="127.0.0.1", port=8700)

    async def identify(*_: object) -> Principal:
        return Principal("k", frozenset[Scope]({"read"}), "id")

    def make(*routers: Any) -> FastAPI:
        packages = {f"kind{place}": SimpleNamespace(router=each) for place, each in enumerate(routers)}
        monkeypatch.setattr(kind_routes, "modules", lambda _: packages)
        wired.append(wire(settings, database.database(client, URL), SystemClock(), SystemIds()))
        app = create_app(wired[-1])
        app.state.authenticator = SimpleNamespace(identify=identify)
        return app

    yield make
    for each in wired:
        await each.close()
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
        KeyboardInterrupt(),
        GeneratorExit(),
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
        assert told[0].exc_info[1] is not None
        assert type(error) in (told[0].exc_info[0], type(told[0].exc_info[1].__cause__))
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


@pytest.mark.parametrize("error", [ValueError("a secret"), *ENDINGS])
async def test_an_answer_that_fails_on_its_way_ends_and_the_server_goes_on(
    error: BaseException, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    async def lines() -> AsyncIterator[str]:
        yield "first"
        raise error

    app = made(router("/api/hello", lambda: StreamingResponse(lines())))
    with pytest.raises(RuntimeError, match="already started"):  # which cuts the connection
        await ask(app, "/api/hello")
    assert "kind.route_failed" in [each.getMessage() for each in caplog.records]
    assert (await ask(app, "/healthz"))[0].status_code == 200


@pytest.mark.parametrize("error", ENDINGS[:2])
async def test_what_a_route_leaves_running_ends_nothing_but_itself(
    error: BaseException, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[asyncio.Task[None]] = []

    async def later() -> None:
        raise error

    def answer() -> dict[str, int]:
        kept.append(asyncio.get_running_loop().create_task(later()))
        asyncio.get_running_loop().call_soon(raises, error)
        return {"a": 1}

    app = made(router("/api/hello", answer))
    for _ in range(2):
        assert [each.json() for each in await ask(app, "/api/hello")] == [{"a": 1}]
    assert (await ask(app, "/healthz"))[0].status_code == 200
    assert "kind.task_failed" in [each.getMessage() for each in caplog.records]
    assert [type(each.exception()) for each in kept] == [type(error)] * 2


async def test_a_route_that_blocks_holds_up_its_own_kind_alone(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    until, here = threading.Event(), threading.get_ident()
    threads: list[int] = []

    def block() -> dict[str, int]:
        threads.append(threading.get_ident())
        assert until.wait(100)
        return {"a": 1}

    app = made(router("/api/hello", block), router("/api/other"))
    held = asyncio.create_task(ask(app, "/api/hello"))
    while not threads:
        await asyncio.sleep(0.01)
    monkeypatch.setattr(kind_loops, "ANSWER_S", 60.0)
    assert [each.status_code for each in await ask(app, "/healthz", "/api/other")] == [200, 200]
    monkeypatch.setattr(kind_loops, "ANSWER_S", 0.2)
    (refused,) = await ask(app, "/api/hello")
    assert (refused.status_code, "kind 'kind0' failed" in refused.json()["detail"]) == (500, True)
    assert here not in threads
    assert not held.done()
    until.set()
    assert (await held)[0].json() == {"a": 1}


@pytest.mark.parametrize(("begins", "limit"), [(False, "ANSWER_S"), (True, "PART_S")])
async def test_an_answer_that_does_not_go_on_is_ended(
    begins: bool, limit: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind_router, limit, 0.2)
    ended = threading.Event()

    async def lines() -> AsyncIterator[str]:
        try:
            yield "first"
            await asyncio.Event().wait()
        finally:
            ended.set()

    def answer() -> Any:
        return StreamingResponse(lines()) if begins else asyncio.Event().wait()

    def waiting(site: object) -> APIRouter:
        routes = APIRouter()

        @routes.get("/api/hello")
        async def own(_: MayRead) -> Any:
            return answer() if begins else await answer()

        return routes

    app = made(waiting)
    if begins:
        with pytest.raises(RuntimeError, match="already started"):
            await ask(app, "/api/hello")
        assert await asyncio.to_thread(ended.wait, 20)
    else:
        assert (await ask(app, "/api/hello"))[0].json()["code"] == "kind_failed"


async def test_a_body_and_a_long_answer_pass_between_the_loops_whole(made: Made) -> None:
    def echoing(site: object) -> APIRouter:
        routes = APIRouter()

        @routes.get("/api/hello")  # which is not audited
        async def own(_: MayRead, request: Request) -> StreamingResponse:
            sent = [each async for each in request.stream()]
            return StreamingResponse(iter(sent))

        return routes

    sent = [bytes([place]) * 1000 for place in range(50)]

    async def body() -> AsyncIterator[bytes]:
        for each in sent:
            yield each

    transport = httpx.ASGITransport(made(echoing))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.request("GET", "/api/hello", content=body())).content == b"".join(sent)
        assert (await client.options("/api/hello")).status_code == 405


async def test_a_key_is_judged_on_the_loop_of_all(made: Made) -> None:
    app, judged = made(router("/api/hello")), list[object]()

    async def identify(*_: object) -> Principal:
        judged.append(asyncio.get_running_loop())
        raise Unauthorized("no_key", "send one")

    app.state.authenticator = SimpleNamespace(identify=identify)
    assert (await ask(app, "/api/hello"))[0].status_code == 401
    assert judged == [asyncio.get_running_loop()]


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
