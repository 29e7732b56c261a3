"""Says whether a socket has something to read, for any number of its descriptor."""

from __future__ import annotations

import select
import socket


def is_readable(channel: socket.socket, wait_s: float = 0.0) -> bool:
    """Say whether data, or the end of the connection, can be read within `wait_s`."""
    poller = select.poll()  # `select.select` takes no descriptor above 1023
    poller.register(channel, select.POLLIN)
    return bool(poller.poll(wait_s * 1000))
