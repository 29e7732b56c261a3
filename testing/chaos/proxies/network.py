"""The thread in which every proxy of the campaign lives."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPBACK: Final = "127.0.0.1"
CALL_S: Final = 10.0
HEAD_BYTES_MAX: Final = 64 * 1024  # the longest head of a request
ACCEPTED_ROUNDS: Final = 5  # of the loop, within which a connection that was accepted has its writer
# Linger for no time at all: closing sends a reset instead of an orderly end.
AT_ONCE: Final = struct.pack("ii", 1, 0)


class Network:
    """An event loop in a thread of its own; as a context manager it is gone after."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()
        self._thread = threading.Thread(target=self.loop.run_forever, name="network", daemon=True)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the network's thread and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S)

    def listen(self, port: int, serve: Serve) -> None:
        """Serve on a loopback port until the network ends."""

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
            self._writers.add(writer)
            return serve(reader, writer)

        self._servers.append(self.call(asyncio.start_server(connected, LOOPBACK, port, limit=HEAD_BYTES_MAX)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def end(self) -> None:
        """Close every connection, those of tasks that are canceled before their first step too."""
        for server in self._servers:  # not closed yet: that breaks off what was accepted, and leaves it open
            for listener in server.sockets:
                self.loop.remove_reader(listener.fileno())
        for _ in range(ACCEPTED_ROUNDS):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for writer in list(self._writers):
            reset(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off in the way of a host that knows nothing of it."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()
