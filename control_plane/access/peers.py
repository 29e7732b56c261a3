"""Which user of this machine has the other end of a connection: the kernel is asked about the one socket.

A proxy that says nothing of itself is known by that: it runs as a user of its own.
"""

from __future__ import annotations

import socket
import struct
import sys
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


def user_of(client: Place | None, server: Any) -> int | None:
    """Return the number of the user whose socket `client` is; None where this machine cannot tell.

    That is on another system than Linux, and where the socket is not of this machine or gone.
    """
    if sys.platform != "linux" or client is None or not server or server[1] is None:
        return None
    try:
        asked = _question(client, (server[0], server[1]))
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as kernel:
            kernel.settimeout(WAIT_S)
            kernel.send(asked)
            answer = kernel.recv(ANSWER_BYTES)
    except OSError:
        return None
    (kind,) = struct.unpack_from("=H", answer, 4)
    return int(struct.unpack_from("=I", answer, USER_AT)[0]) if kind == BY_FAMILY else None


def _question(client: Place, server: Place) -> bytes:
    """Return the question who has the socket from `client` to `server`. Raises `OSError` for no addresses."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    ends = (socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (client, server))
    identity = struct.pack("!HH", client[1], server[1]) + b"".join(ends)
    identity += struct.pack("=III", 0, NO_COOKIE, NO_COOKIE)
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + identity
    return struct.pack("=IHHII", 16 + len(body), BY_FAMILY, REQUEST, 1, 0) + body
