"""Makes a control plane once that is connected to nothing; the fork server imports this.

What FastAPI, pydantic and msgspec look up once in a process, 100 ms of it, each control plane has then, and
the templates of all pages, 300 ms of it.
"""

from __future__ import annotations

import asyncio

from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.server.web.page_renderer import templates
from control_plane.store import database
from events.runtime.clock import SystemClock, SystemIds

NOWHERE = {
    "MONGODB_URL": "mongodb://127.0.0.1:9/x",
    "MINIO_ENDPOINT": "127.0.0.1:9",
    "MINIO_ACCESS_KEY": "x",
    "MINIO_SECRET_KEY": "x",
}


async def _make() -> None:
    client = database.connect(NOWHERE["MONGODB_URL"])
    settings = read_settings(NOWHERE, host="127.0.0.1", port=8700, keyless=True)
    create_app(wire(settings, database.database(client, NOWHERE["MONGODB_URL"]), SystemClock(), SystemIds()))
    await client.close()


asyncio.run(_make())
for each in templates().list_templates():
    templates().get_template(each)
