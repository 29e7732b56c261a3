"""Notes with each request whether it comes from this machine itself, which decides the form of its URLs.

A program on this machine reaches the storage, of which others may know only the control plane. A request that
came through a proxy is one of others, wherever the proxy stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from control_plane.access.auth import PROXY_HTTP, host_of, is_forwarding
from control_plane.config import LOOPBACK
from control_plane.files.handing_out import ASKED_HERE


@dataclass(frozen=True, slots=True)
class AskedFrom:
    """ASGI middleware that notes where a request comes from."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            ASKED_HERE.set(is_from_here(scope))
        await self.app(scope, receive, send)


def is_from_here(scope: Scope) -> bool:
    """Say whether a request is from a program on this machine, to its own address, through no proxy."""
    address = scope["client"][0] if scope.get("client") else ""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    host = next((value for name, value in headers if name == "host"), "")
    return (
        _is_loopback(address)
        and host_of(f"//{host}") in LOOPBACK
        and scope.get("http_version") != PROXY_HTTP
        and not any(is_forwarding(name) for name, _ in headers)
    )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
