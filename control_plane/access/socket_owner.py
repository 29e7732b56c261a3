"""The user that owns the other end of a connection on this machine: the kernel is asked about the one socket.

A proxy that says nothing of itself is known by that: it runs as a user of its own.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from functools import cache
from typing import Any, Final

Place = tuple[str, int]

SOCK_DIAG: Final = 4  # netlink(7), sock_diag(7)
BY_FAMILY: Final = 20
REQUEST: Final = 1
ALL_STATES: Final = 0xFFFFFFFF
NO_COOKIE: Final = 0xFFFFFFFF
USER_AT: Final = 16 + 4 + 48 + 12  # behind the head, the state, the socket's id and its queues
ANSWER_BYTES: Final = 8_192
WAIT_S: Final = 1.0
GONE: Final = -1  # no user has this number


def user_of(client: Place | None, server: Any) -> int | None:
    """Return the number of the user whose socket `client` is; None where this machine cannot tell.

    That is on another system than Linux, and where the kernel answers no such question. `GONE` stands for a
    socket that its owner has closed: whose it was is not known.
    """
    if sys.platform != "linux" or client is None or not server or server[1] is None or not _can_ask():
        return None
    return _owner(client, (server[0], server[1]))


@cache
def _can_ask() -> bool:
    """Say whether the kernel knows whose a connection of our own is."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        return _owner(client.getsockname(), server.getsockname()) == os.geteuid()


def _owner(client: Place, server: Place) -> int:
    try:
        request = _question(client, server)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as kernel:
            kernel.settimeout(WAIT_S)
            kernel.send(request)
            answer = kernel.recv(ANSWER_BYTES)
    except OSError:
        return GONE
    (kind,) = struct.unpack_from("=H", answer, 4)
    if kind != BY_FAMILY:
        return GONE
    user, inode = struct.unpack_from("=II", answer, USER_AT)
    return int(user) if inode else GONE  # a closed socket has none, and may be said to be root's


def _question(client: Place, server: Place) -> bytes:
    """Return the question who has the socket from `client` to `server`. Raises `OSError` for no addresses."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    ends = (socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (client, server))
    identity = struct.pack("!HH", client[1], server[1]) + b"".join(ends)
    identity += struct.pack("=III", 0, NO_COOKIE, NO_COOKIE)
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + identity
    return struct.pack("=IHHII", 16 + len(body), BY_FAMILY, REQUEST, 1, 0) + body
