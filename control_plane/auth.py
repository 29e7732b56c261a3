"""Who asks, and what they may do. Every route takes a principal; only the two health routes take none.

Without a key only loopback is served, and even there a request must name this machine as its
host and come from no foreign page: else any web page could steer the fleet through a browser.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args
from urllib.parse import urlsplit

from fastapi import Request

from control_plane.config import LOOPBACK
from events.errors import Rejected

Scope = Literal["ingest", "claim", "submit", "read", "review", "admin"]
ALL: Final[frozenset[Scope]] = frozenset(get_args(Scope))
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Unauthorized(Rejected):
    """The key is missing or wrong."""


class Forbidden(Rejected):
    """The request may not be made by this principal, or not from this place."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A name for the records, and what it may do."""

    name: str
    scopes: frozenset[Scope]


class Authenticator(Protocol):
    """Tells who sent a request."""

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        """Return the sender. Raises `Unauthorized`, `Forbidden`."""
        ...


@dataclass(frozen=True, slots=True)
class Keyless:
    """Trusts this machine: for a control plane that listens on loopback only."""

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        if _host_of(f"//{headers.get('host', '')}") not in LOOPBACK:
            message = "without a key this server answers to 127.0.0.1 and localhost only"
            raise Forbidden("foreign_host", message)
        _refuse_foreign_pages(method, headers)
        return Principal("loopback", ALL)


@dataclass(frozen=True, slots=True)
class OneKey:
    """One key that may do everything, as a bearer token, or as the password of a browser's sign-in."""

    key: str

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        match scheme.lower():
            case "bearer":
                offered = credentials.strip()
            case "basic":
                offered = _password(credentials)
                _refuse_foreign_pages(method, headers)
            case _:
                raise Unauthorized("no_key", "send the key as `Authorization: Bearer <PODFLEET_API_KEY>`")
        if not hmac.compare_digest(offered.encode(), self.key.encode()):
            raise Unauthorized("bad_key", "this key is not valid here")
        return Principal("key", ALL)


def require(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """Return the dependency that gives a route its principal, which must have `scope`."""

    async def principal(request: Request) -> Principal:
        authenticator: Authenticator = request.app.state.authenticator
        found = await authenticator.identify(request.method, request.headers)
        if scope not in found.scopes:
            raise Forbidden("missing_scope", f"this key lacks the scope {scope}")
        return found

    return principal


def _refuse_foreign_pages(method: str, headers: Mapping[str, str]) -> None:
    if method in SAFE_METHODS:
        return
    origin = headers.get("origin")
    if origin is not None and _netloc_of(origin) != headers.get("host"):
        raise Forbidden("foreign_origin", "another site's page may not do this")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Forbidden("foreign_origin", "another site's page may not do this")


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthorized("bad_key", "the Authorization header is garbled") from error
