"""What is told of a step that holds the event loop."""

from __future__ import annotations

import asyncio
import threading

import httpx
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
        async with client, asyncio.timeout(20):
            with watchdog.watching():
                for held_s in (0.0, 0.4):
                    await asyncio.sleep(0.05)
                    await client.get(f"/runs/R?held_s={held_s}")
                while not told:
                    await asyncio.sleep(0.01)

    asyncio.run(story())
    assert "GET /runs/{run_id}" in {route for route, _ in told}
    assert max(seconds for _, seconds in told) > 0.2


def test_a_step_of_no_request_is_told_by_what_it_is() -> None:
    told: list[str] = []
    watchdog = Watchdog(SystemClock(), lambda route, _: told.append(route), ask_s=0.01, stall_s=0.1)

    async def sweeping() -> None:
        threading.Event().wait(0.4)

    async def story() -> None:
        with watchdog.watching():
            await asyncio.sleep(0.05)
            await asyncio.create_task(sweeping())
            async with asyncio.timeout(10):
                while not told:
                    await asyncio.sleep(0.01)

    asyncio.run(story())
    assert any("sweeping" in route for route in told)
