"""The client of a model's SDK, kept for all requests of a model, with its connections.

Law: each request has a time limit of its own, and ends soon after a stop. Nothing is open before the first
request, and nothing after `close`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from stages.adapters.time_limit import NetworkLoop

Key = Callable[[], str]  # returns the key of a model at each request


class Sdk(Protocol):
    """What the clients of all SDKs have."""

    async def close(self) -> None: ...


C = TypeVar("C", bound=Sdk)
T = TypeVar("T")


class Line(Generic[C]):
    """One client, made by `make` for the first request, for any number of threads."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._sdk: C | None = None
        self._loop = NetworkLoop(self._hang_up)

    def request(self, seconds: float, work: Callable[[C], Awaitable[T]], stop: threading.Event) -> T:
        """Return what `work` returns, in time; limits and errors are those of `NetworkLoop.run_within`."""
        return self._loop.run_within(seconds, lambda: work(self._client()), stop)

    def close(self) -> None:
        """Close the connections; a request that comes later makes a new client."""
        self._loop.close()

    def _client(self) -> C:
        """Return the client; called in the loop alone."""
        if self._sdk is None:
            self._sdk = self._make()
        return self._sdk

    async def _hang_up(self) -> None:
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            await sdk.close()
