"""What is told of a step that holds the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from control_plane.server.http.watchdog import Watchdog, Watched
from events.runtime.clock import SystemClock


def test_a_step_that_holds_the_loop_is_told_with_its_route() -> None:
    told: list[tuple[str, float]] = []
    watchdog = Watchdog(
        SystemClock(), lambda route, seconds: told.append((route, seconds)), ask_s=0.01, stall_s=0.1
    )

    app = FastAPI()
    app.add_middleware(Watched, watchdog=watchdog)

    @app.get("/runs/{run_id}")
    async def one(run_id: str, held_s: float) -> str:
        threading.Event().wait(held_s)
        return run_id

    async def story() -> None:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://podfleet")
        async with client, asyncio.timeout(60):
            with watchdog.watching():
                await client.get("/runs/R?held_s=0.0")
                # on a loaded machine a stall may pass before the watchdog looks, and others may be told
                while "GET /runs/{run_id}" not in {route for route, _ in told}:
                    await asyncio.sleep(0.05)
                    await client.get("/runs/R?held_s=0.4")

    asyncio.run(story())
    assert max(seconds for route, seconds in told if route == "GET /runs/{run_id}") > 0.1


def test_a_step_of_no_request_is_told_by_what_it_is() -> None:
    told: list[str] = []
    watchdog = Watchdog(SystemClock(), lambda route, _: told.append(route), ask_s=0.01, stall_s=0.1)

    async def sweeping() -> None:
        threading.Event().wait(0.4)

    async def story() -> None:
        with watchdog.watching():
            async with asyncio.timeout(60):
                while not any("sweeping" in route for route in told):
                    await asyncio.sleep(0.05)
                    await asyncio.create_task(sweeping())

    asyncio.run(story())


def unheard(_: str, __: float) -> None:
    """Hear of no stall."""


def test_a_second_is_told_and_logged_where_nobody_chose_other_limits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[tuple[str, float]] = []
    watchdog = Watchdog(SystemClock(), lambda route, seconds: told.append((route, seconds)))

    async def story() -> None:
        with watchdog.watching():
            async with asyncio.timeout(60):
                while not any("story" in route for route, _ in told):
                    await asyncio.sleep(0.2)
                    threading.Event().wait(1.0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    stalls = [vars(each) for each in caplog.records if each.getMessage() == "loop.stalled"]
    # The watchdog of the test before may end its last words by now.
    logged = [each for each in stalls if each["route"] in {route for route, _ in told}]
    assert [(each["route"], each["seconds"]) for each in logged] == [
        (route, round(seconds, 3)) for route, seconds in told
    ]


def test_who_watches_goes_when_nobody_is_watched_any_more() -> None:
    def watching() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "watchdog"]

    async def story() -> None:
        before = watching()
        with Watchdog(SystemClock(), unheard, ask_s=0.01).watching():
            (thread,) = [each for each in watching() if each not in before]
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()

    asyncio.run(story())


def test_the_innermost_request_names_the_route_and_is_forgotten_behind_its_end() -> None:
    watchdog = Watchdog(SystemClock(), unheard)

    async def story() -> None:
        task = asyncio.current_task()
        outer = {"method": "GET", "path": "/of/a/stranger"}
        with watchdog.serving(outer):
            with watchdog.serving({"method": "GET", "route": type("Route", (), {"path": "/runs/{id}"})}):
                assert watchdog._route(task) == "GET /runs/{id}"
            assert watchdog._route(task) == "GET unknown"
        assert watchdog._asked == {}

    asyncio.run(story())
    assert watchdog._route(None) == "none"


def watched(loop: Any, watchdog: Watchdog) -> threading.Thread:
    thread = threading.Thread(target=watchdog._watch, args=(loop,), daemon=True)
    thread.start()
    return thread


def test_a_loop_that_is_closed_ends_the_watch(recwarn: pytest.WarningsRecorder) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    Watchdog(SystemClock(), unheard, ask_s=0.01)._watch(loop)
    assert not recwarn.list


def test_a_loop_that_never_comes_round_again_does_not_hold_who_watches() -> None:
    loop = asyncio.new_event_loop()
    watchdog = Watchdog(SystemClock(), unheard, ask_s=0.01, stall_s=0.02)
    thread = watched(loop, watchdog)
    thread.join(0.2)
    assert thread.is_alive(), "it waits for the loop"
    watchdog._stop.set()
    thread.join(60)
    loop.close()
    assert not thread.is_alive()


def test_a_loop_is_asked_so_often_and_no_more(until: Callable[..., None]) -> None:
    class Quick:
        asked = 0

        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            self.asked += 1
            call()

    loop, clock, ask_s = Quick(), SystemClock(), 0.05
    watchdog, begun_s = Watchdog(clock, unheard, ask_s=ask_s), clock.monotonic_s()
    thread = watched(loop, watchdog)
    until(lambda: loop.asked > 3)
    watchdog._stop.set()
    thread.join(60)
    assert loop.asked <= (clock.monotonic_s() - begun_s) / ask_s


def test_only_requests_are_known() -> None:
    watchdog = Watchdog(SystemClock(), unheard)
    known: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        known.append(len(watchdog._asked))

    async def story() -> None:
        for kind in ("lifespan", "http"):
            await Watched(app, watchdog)({"type": kind, "method": "GET"}, None, None)  # type: ignore[arg-type]

    asyncio.run(story())
    assert known == [0, 1]
