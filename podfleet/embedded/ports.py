"""Loopback ports: which are free, and one to reserve over restarts.

Candidates are below the kernel's range for outgoing connections, so that a free port is not taken by
chance. `kept` keeps other stacks from choosing the port before its server listens, or while that restarts.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from events.runtime.clock import Ids
from events.runtime.errors import ConfigError
from podfleet.embedded.private_file import replace_private

LOOPBACK: Final = "127.0.0.1"
FIRST: Final = 20_000
LAST: Final = 29_999
TRIES_MAX: Final = 200


def is_free(port: int, *, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def answers(port: int, *, host: str = LOOPBACK, timeout_s: float = 0.5) -> bool:
    """Return whether a server accepts connections on `port`."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


@contextmanager
def kept(port: int, *, host: str = LOOPBACK) -> Iterator[None]:
    """Keep `port` from being chosen by others; a server with SO_REUSEADDR can still listen on it.

    Only Linux lets a server share the port with this socket; elsewhere nothing is kept.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as place:
        if sys.platform == "linux":
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind((host, port))
            except OSError as error:
                raise ConfigError([f"port {port} on {host} is already taken"]) from error
        yield


def choose(ids: Ids) -> int:
    """Return a loopback port that is neither used nor kept."""
    for _ in range(TRIES_MAX):
        port = FIRST + int(ids.fraction() * (LAST - FIRST + 1))
        if _is_unused(port):
            return port
    raise ConfigError([f"no free port on {LOOPBACK} between {FIRST} and {LAST}"])


def remembered(path: Path, ids: Ids) -> int:
    """Return the port noted in `path` where it is free, else a new one, which is noted."""
    known = _noted(path)
    if known is not None and is_free(known):
        return known
    port = choose(ids)
    replace_private(path, json.dumps({"port": port}))
    return port


def _is_unused(port: int) -> bool:
    """Return whether no socket at all has `port`: without SO_REUSEADDR a kept one counts too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _noted(path: Path) -> int | None:
    """Return the noted port; a note that cannot be read is only a lost wish, so it counts as none."""
    try:
        noted = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    port = noted.get("port") if isinstance(noted, dict) else None
    return port if isinstance(port, int) and 0 < port < 65_536 else None
