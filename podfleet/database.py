"""The database that a command uses directly, without a control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


def variables() -> Mapping[str, str]:
    """Return the settings; those of the fleet that runs in this folder where none names a database."""
    from events.runtime.access import running
    from podfleet.embedded.config import data_folder, environment

    found = environment(Path.cwd())
    near = None if found.get("MONGODB_URL") else running(data_folder(Path.cwd()))
    return found if near is None else near.stores


@asynccontextmanager
async def opened(settings: Mapping[str, str], *, to: str) -> AsyncIterator[Any]:
    """Give the database that `MONGODB_URL` names, to do `to` with it. Raises `ConfigError`."""
    from control_plane.store import database
    from events.runtime.errors import ConfigError

    url = settings.get("MONGODB_URL")
    if not url:
        raise ConfigError(
            [
                f"MONGODB_URL is not set; it names the database to {to}; in the folder of `podfleet up` "
                "it need not be set while that runs"
            ]
        )
    client = database.connect(url)
    try:
        yield database.database(client, url)
    finally:
        await client.close()
