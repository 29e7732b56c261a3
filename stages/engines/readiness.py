"""Asks a server on loopback whether it is well, and which models it lists.

Law: a health check alone would accept a stranger at the same port: an alias of one's own in the listing
proves that it is one's own, or else that who listens there is of one's own session. No proxy is asked, and an
answer is bounded.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from events.models.engine import Engine, listed_names
from stages.engines.processes import LOOPBACK, is_listened_by

ANSWER_BYTES_MAX: Final = 1 << 20
ASK_S: Final = 5.0
WELL: Final = 200


def is_ready(engine: Engine, port: int, alias: str, session: int) -> bool:
    """Return whether the server at `port` is ready, and the one that was started."""
    if engine.health and _answer(port, engine.health) is None:
        return False
    return (
        is_listened_by(session, port)
        if engine.proof == "listener"
        else has_alias(port, engine.listing, alias)
    )


def has_alias(port: int, path: str, alias: str) -> bool:
    """Return whether the server at `port` lists `alias`; one that answers anything else has it not."""
    body = _answer(port, path)
    try:
        return body is not None and alias in listed_names(json.loads(body))
    except (ValueError, RecursionError):
        return False


def _answer(port: int, path: str) -> bytes | None:
    """Return what is answered with the status 200, None for anything else."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ASK_S)
    try:
        connection.connect()
        with _cut_off(connection.sock):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
        return body if answer.status == WELL else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextmanager
def _cut_off(connected: socket.socket) -> Iterator[None]:
    """End a connection that takes longer than an answer may: its own limit is one of each read.

    A server that sends a byte now and then would be listened to for days.
    """

    def cut() -> None:
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(ASK_S, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
