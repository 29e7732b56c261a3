"""Who asks, and what they may do. Every route takes a principal; only the two health routes take none.

Without any key only loopback is served, and even there a request must name this machine as its
host and come from no foreign page: else any web page could steer the fleet through a browser.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

from fastapi import Request

from control_plane.config import LOOPBACK
from control_plane.key_ring import KeyRing, Unauthorized
from control_plane.keys import ALL, Scope
from events.errors import Rejected

ADMITTED: Final = "admitted"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Forbidden(Rejected):
    """The request may not be made by this principal, or not from this place."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A name for the records, what it may do, and the id of the key that says so, where it is a stored one.

    Behind one that `is_shared` may be anybody: who acts has to say their name.
    """

    name: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Admitted:
    """Who asked for which route, by which right; kept with the request for whoever records it."""

    principal: Principal
    scope: Scope
    route: str
    parameters: Mapping[str, str]


class Authenticator(Protocol):
    """Tells who sent a request."""

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        """Return the sender. Raises `Unauthorized`, `Forbidden`."""
        ...

    async def is_open(self) -> bool:
        """Say whether somebody without a key may do anything."""
        ...


@dataclass(frozen=True, slots=True)
class Keyless:
    """Trusts whoever reaches it: this machine, unless it was told in words to trust every one."""

    anywhere: bool = False

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        if not self.anywhere and _host_of(f"//{headers.get('host', '')}") not in LOOPBACK:
            message = "without a key this server answers to 127.0.0.1 and localhost only"
            raise Forbidden("foreign_host", message)
        _refuse_foreign_pages(method, headers)
        return Principal("anybody" if self.anywhere else "loopback", ALL, is_shared=True)

    async def is_open(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Keyed:
    """Knows the stored keys, and the one of the environment, which may do everything.

    A key is a bearer token, or the password of a browser's sign-in. Who offers none is judged by `keyless`,
    as long as there is one and, unless it `stays`, no key that may do everything.
    """

    ring: KeyRing
    root: str | None = field(default=None, repr=False)
    keyless: Keyless | None = None
    stays: bool = False

    async def identify(self, method: str, headers: Mapping[str, str]) -> Principal:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        match scheme.lower():
            case "bearer":
                return await self._owner(credentials.strip())
            case "basic":
                _refuse_foreign_pages(method, headers)
                return await self._owner(_password(credentials))
            case "" if self.keyless is not None and await self.is_open():
                return await self.keyless.identify(method, headers)
        raise Unauthorized("no_key", "send a key as `Authorization: Bearer <PODFLEET_API_KEY>`")

    async def is_open(self) -> bool:
        if self.keyless is None:
            return False
        return self.stays or (self.root is None and not await self.ring.has_admin())

    async def _owner(self, offered: str) -> Principal:
        if self.root is not None and hmac.compare_digest(offered.encode(), self.root.encode()):
            return Principal("root", ALL)
        key = await self.ring.whose(offered)
        return Principal(key.name, key.scopes, key.id)


def require(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """Return the dependency that gives a route its principal, which must have `scope`."""

    async def principal(request: Request) -> Principal:
        return await _admitted(request, scope)

    return principal


async def is_still_admitted(request: Request, scope: Scope) -> bool:
    """Say whether the sender might ask again: an answer that goes on for hours has to end with its key."""
    try:
        await _admitted(request, scope)
    except Rejected:
        return False
    return True


async def _admitted(request: Request, scope: Scope) -> Principal:
    authenticator: Authenticator = request.app.state.authenticator
    found = await authenticator.identify(request.method, request.headers)
    route = getattr(request.scope.get("route"), "path", request.url.path)
    asked = Admitted(found, scope, route, request.path_params)
    setattr(request.state, ADMITTED, asked)
    if scope not in found.scopes:
        raise Forbidden("missing_scope", f"this key lacks the scope {scope}")
    return found


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
