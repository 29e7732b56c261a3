"""A route of the whole application that holds the event loop is named in the metrics."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from control_plane.access import auth
from control_plane.config import read_settings
from control_plane.server.api.contract import openapi
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.server.http.watchdog import STALL_S
from control_plane.server.metrics import REGISTRY
from control_plane.store import database as store
from events.runtime.clock import SystemClock, SystemIds

STALL = "podfleet_event_loop_stall_seconds"
SLOW = {"route": "GET /openapi.json"}


def stalls() -> tuple[float, float]:
    """Return how many stalls were told of the slow route, and their seconds together."""
    told = [REGISTRY.get_sample_value(f"{STALL}_{part}", SLOW) or 0.0 for part in ("count", "sum")]
    return told[0], told[1]


async def test_the_metrics_name_a_slow_route_of_the_application(
    emptied_url: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = store.connect(emptied_url)
    values = {"MONGODB_URL": emptied_url, **s3.environment}
    settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
    app = create_app(wire(settings, store.database(client, emptied_url), SystemClock(), SystemIds()))

    def holding(*_: Any) -> dict[str, Any]:
        threading.Event().wait(0.6)
        return {}

    monkeypatch.setattr(openapi, "described", holding)
    monkeypatch.setattr(auth, "user_of", lambda *_: None)  # in process: no socket has an owner
    counted, before_s = stalls()
    transport = httpx.ASGITransport(app)
    async with (
        asyncio.timeout(300),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700") as asking,
    ):
        while stalls()[0] == counted:  # on a loaded machine one stall may pass before the watchdog looks
            assert (await asking.get("/openapi.json")).status_code == 200
            await asyncio.sleep(0.1)
    assert stalls()[1] - before_s > STALL_S
    await client.close()
