"""Uploads objects to storage: PUT to a signed URL over persistent connections.

Law: a connection that failed is not used again. No proxy is used, and only the given headers are sent. The
client is that of the standard library: a full client takes twice the processor time for a small file.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from events.runtime.errors import Transient
from events.runtime.sockets import is_readable

TIMEOUT_S: Final = 60.0  # for one piece, not for the whole file
SHOWN_BYTES: Final = 300
ANSWER_BYTES_MAX: Final = 64 * 1024

Place = tuple[str, str]  # scheme, host and port
Connection = http.client.HTTPConnection


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of storage to a PUT."""

    status: int
    text: str
    retry_after: str | None


@dataclass(slots=True)
class HttpStorage:
    """Object storage over HTTP, for any number of threads."""

    tls: ssl.SSLContext
    _idle: dict[Place, list[Connection]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(
        self, url: str, content: bytes | Iterable[bytes | memoryview], headers: Mapping[str, str]
    ) -> Reply:
        """Send a whole object. Raises `Transient` if storage does not answer, or something else does."""
        parts = urlsplit(url)
        try:
            connection = self._connection((parts.scheme, parts.netloc))
            reply = _exchange(connection, f"{parts.path}?{parts.query}", content, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Transient("storage_unreachable", f"{type(error).__name__}: {error}") from error
        if connection.sock is not None:
            with self._lock:
                self._idle.setdefault((parts.scheme, parts.netloc), []).append(connection)
        return reply

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in [connection for lines in self._idle.values() for connection in lines]:
                connection.close()
            self._idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self, place: Place) -> Connection:
        """Return an idle connection that storage has not closed, else a new one."""
        while True:
            with self._lock:
                kept = self._idle.get(place)
                connection = kept.pop() if kept else None
            if connection is None:
                return self._new(*place)
            if not is_readable(
                connection.sock
            ):  # between two requests only the end of the connection can come
                return connection
            connection.close()

    def _new(self, scheme: str, netloc: str) -> Connection:
        if scheme == "https":
            return http.client.HTTPSConnection(netloc, timeout=TIMEOUT_S, context=self.tls)
        return Connection(netloc, timeout=TIMEOUT_S)


def _exchange(
    connection: Connection,
    path: str,
    content: bytes | Iterable[bytes | memoryview],
    headers: Mapping[str, str],
) -> Reply:
    """Send a request and read its answer; close the connection at any error, also of `content`."""
    try:
        connection.request("PUT", path, body=content, headers=dict(headers))
        response = connection.getresponse()
        text = response.read(ANSWER_BYTES_MAX)
        if not response.isclosed():
            connection.close()  # the rest of an endless answer is not read
        if response.status < http.client.MULTIPLE_CHOICES and response.getheader("ETag") is None:
            raise Transient(
                "storage_unreachable", f"an answer {response.status} that names no object: it is no storage"
            )
    except BaseException:
        connection.close()
        raise
    shown = text[:SHOWN_BYTES].decode(errors="replace")
    return Reply(response.status, shown, response.getheader("Retry-After"))
