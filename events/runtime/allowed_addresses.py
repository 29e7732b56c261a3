"""Restricts the connections of an HTTP client to allowed addresses.

Law: no byte of a request, nor of TLS, goes to a refused address. The name is resolved and checked before
anything is connected, and the connected address is checked again, because a name may resolve differently
the second time. A proxy of the environment is the operator's own choice. Behind it only addresses are
checked; the proxy resolves the names.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from events.runtime.egress_policy import EgressPolicy

BEFORE: Final = "connection.connect_tcp.started"
AFTER: Final = "connection.connect_tcp.complete"

Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class AddressRefused(Exception):
    """The operator did not allow that address."""


class _Url(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def raw_host(self) -> bytes: ...


class Request(Protocol):
    """A request of httpx or of httpx2."""

    @property
    def url(self) -> _Url: ...

    extensions: Any


@dataclass(frozen=True, slots=True)
class Guard:
    """A hook for `event_hooks={"request": [...]}`. Raises `AddressRefused` out of the request."""

    egress: EgressPolicy

    async def __call__(self, request: Request) -> None:
        """Judge an address that the request names, and have every connection for it judged."""
        host = request.url.raw_host.decode("ascii")
        if objection := self.egress.early_objection(host):
            raise AddressRefused(objection)
        request.extensions = {**request.extensions, "trace": self._trace(host)}

    def _trace(self, host: str) -> Trace:
        hosts: list[str] = []

        async def judge(event: str, info: Mapping[str, Any]) -> None:
            if event == BEFORE:
                hosts.append(info["host"])
                if info["host"] == host:
                    await self._judge_name(host, info["port"])
            elif event == AFTER and hosts[-1] == host:
                await self._judge_peer(host, info["return_value"])

        return judge

    async def _judge_name(self, host: str, port: int) -> None:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return  # the connection will fail as well, and say it better
        for _, _, _, _, place in found:
            self._judge(host, str(place[0]))

    async def _judge_peer(self, host: str, stream: Any) -> None:
        place = stream.get_extra_info("server_addr")
        try:
            self._judge(host, place[0])
        except AddressRefused:
            await stream.aclose()
            raise

    def _judge(self, host: str, address: str) -> None:
        if objection := self.egress.objection(host, address):
            raise AddressRefused(objection)
