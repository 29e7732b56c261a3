"""`podfleet`, which is killed at the first point of its work whose name matches DIES_AT, before it is passed.

Points are `disk PATH` where a file is brought to the disk, `store COMMAND COLLECTION`, and `storage KEY`
where an object is put.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import Any

from pymongo import monitoring

from control_plane.upkeep.backup import objects
from podfleet.main import main


def reach(point: str) -> None:
    if re.search(os.environ["DIES_AT"], point):
        os.kill(os.getpid(), signal.SIGKILL)


class Commands(monitoring.CommandListener):
    """Sees each command before the server does."""

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        reach(f"store {event.command_name} {event.command.get(event.command_name)}")

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


def watch() -> None:
    sync, send = os.fsync, objects.send

    def synced(fd: int) -> None:
        reach(f"disk {os.readlink(f'/proc/self/fd/{fd}')}")
        sync(fd)

    async def sent(blobs: Any, key: str, *more: Any) -> None:
        reach(f"storage {key}")
        await send(blobs, key, *more)

    os.fsync, objects.send = synced, sent
    monitoring.register(Commands())


if __name__ == "__main__":
    watch()
    sys.exit(main())
