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
    reports: list[tuple[str, float]] = []
    watchdog = Watchdog(
        SystemClock(), lambda route, seconds: reports.append((route, seconds)), ask_s=0.01, stall_s=0.1
    )

    app = FastAPI()
    app.add_middleware(Watched, watchdog=watchdog)

    @app.get("/runs/{run_id}")
    async def one(run_id: str, held_s: float) -> str:
        threading.Event().wait(held_s)
        return run_id

    async def story() -> None:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://podfleet")
        async with client, asyncio.timeout(20):
            with watchdog.watching():
                for held_s in (0.0, 0.4):
                    await asyncio.sleep(0.05)
                    await client.get(f"/runs/R?held_s={held_s}")
                while not reports:
                    await asyncio.sleep(0.01)

    asyncio.run(story())
    assert "GET /runs/{run_id}" in {route for route, _ in reports}
    assert max(seconds for _, seconds in reports) > 0.2


def test_a_step_of_no_request_is_told_by_what_it_is() -> None:
    reports: list[str] = []
    watchdog = Watchdog(SystemClock(), lambda route, _: reports.append(route), ask_s=0.01, stall_s=0.1)

    async def sweeping() -> None:
        threading.Event().wait(0.4)

    async def story() -> None:
        with watchdog.watching():
            await asyncio.sleep(0.05)
            await asyncio.create_task(sweeping())
            async with asyncio.timeout(10):
                while not reports:
                    await asyncio.sleep(0.01)

    asyncio.run(story())
    assert any("sweeping" in route for route in reports)


def unheard(_: str, __: float) -> None:
    """Hear of no stall."""


def test_a_second_is_told_and_logged_where_nobody_chose_other_limits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports: list[float] = []
    watchdog = Watchdog(SystemClock(), lambda _, seconds: reports.append(seconds))

    async def story() -> None:
        with watchdog.watching():
            await asyncio.sleep(0.2)
            threading.Event().wait(1.0)
            async with asyncio.timeout(5):
                while not reports:
                    await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    (record,) = [each for each in caplog.records if each.getMessage() == "loop.stalled"]
    assert "story" in record.__dict__["route"]
    assert record.__dict__["seconds"] == round(reports[0], 3)


def test_who_watches_goes_when_nobody_is_watched_any_more() -> None:
    def watching() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "watchdog"]

    async def story() -> None:
        before = watching()
        with Watchdog(SystemClock(), unheard, ask_s=0.01).watching():
            (thread,) = [each for each in watching() if each not in before]
        await asyncio.to_thread(thread.join, 5)
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
    thread.join(5)
    loop.close()
    assert not thread.is_alive()


def test_a_loop_is_asked_so_often_and_no_more() -> None:
    class Quick:
        asked = 0

        def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
            self.asked += 1
            call()

    loop, watchdog = Quick(), Watchdog(SystemClock(), unheard, ask_s=0.05)
    thread = watched(loop, watchdog)
    thread.join(0.3)
    watchdog._stop.set()
    thread.join(5)
    assert 1 <= loop.asked <= 7


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
