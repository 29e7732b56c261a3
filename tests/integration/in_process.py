"""A control plane in the process of a test, on a real MongoDB, and its application without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.store import database as store
from control_plane.store import schema
from events.runtime.clock import SystemClock, SystemIds

NAMES = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")


@asynccontextmanager
async def control_plane(url: str, **variables: str) -> AsyncIterator[Deps]:
    client = store.connect(url)
    values = {"MONGODB_URL": url, **dict.fromkeys(NAMES, "127.0.0.1:1"), **variables}
    settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
    deps = wire(settings, store.database(client, url), SystemClock(), SystemIds())
    await schema.migrate(deps.db)
    try:
        yield deps
    finally:
        await deps.close()
        await client.close()


@asynccontextmanager
async def application(deps: Deps) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(deps))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client
