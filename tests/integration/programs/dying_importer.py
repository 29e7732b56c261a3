"""Imports an archive into the store of the environment, and is killed at one point of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from typing import Any

from tests.integration.in_process import NAMES, control_plane


class Deadly:
    """The store of imports, whose process dies before one of its calls."""

    def __init__(self, store: Any, point: str) -> None:
        self._store, self._point = store, point

    def __getattr__(self, name: str) -> Any:
        if name == self._point:
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self._store, name)


async def main(archive: str, point: str) -> None:
    """Import an archive, and die before the call `point`."""
    settings = {name: os.environ[name] for name in (*NAMES, "MINIO_BUCKET")}
    async with control_plane(os.environ["MONGODB_URL"], **settings) as deps:
        store: Any = Deadly(deps.importer.store, point)
        with open(archive, "rb") as file:
            await replace(deps.importer, store=store).take(file, by="test")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
