"""One stack per data directory: a file lock that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from events.runtime.errors import ConfigError
from podfleet.embedded.private_file import FILE_MODE

LOCK_NAME: Final = "up.lock"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold `directory` against other stacks, or raise who has it."""
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise ConfigError(
                [
                    f"another podfleet (process {holder}) already uses the data directory {directory}: "
                    "stop it, or choose another directory with --data"
                ]
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
