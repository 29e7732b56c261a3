"""Authenticates requests: every route has a principal, except health, sign-in and static files.

Without a key no request is served, unless the server was started with `--keyless`, for a single-user
machine. Even then a request must come from a program of the same user on this machine, name the machine as
its host, and come through no proxy and from no foreign page. Otherwise the internet behind a proxy, or any
web page in a browser, could steer the fleet.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from fastapi import Request

from control_plane.access import run_tokens
from control_plane.access.key_ring import KeyRing, Unauthorized
from control_plane.access.keys import ALL, Scope
from control_plane.access.run_tokens import RunTokens
from control_plane.access.sessions import Session, SignIn, is_brought_back
from control_plane.access.socket_owner import user_of
from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from control_plane.config import LOOPBACK
from events.runtime.errors import Rejected, Transient
from events.text.attempt_id import AttemptId
from events.text.key_text import digest

log = logging.getLogger(__name__)

ADMITTED: Final = "admitted"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
RUN_TOKEN_SCOPES: Final[frozenset[Scope]] = frozenset({"ingest"})
FORM_FIELD: Final = "form_token"
FORM_HEADER: Final = "Podfleet-Form-Token"
# What proxies write, and nobody else: one of them stands before us. The names are endless, their form is not:
# they speak of a proxy or of forwarding, or end with what an address is called, whatever joins the words.
FORWARDING: Final = frozenset(
    {
        *("via", "x-real-port", "x-host", "x-rewrite-url", "x-scheme", "x-url-scheme"),
        *("front-end-https", "cdn-loop", "max-forwards", "x-varnish", "x-consumer-id"),
    }
)
FORWARDING_PREFIXES: Final = (
    *("x-original-", "x-envoy-", "x-azure-", "x-arr-", "x-amz-cf-", "cf-", "fastly-", "fly-", "surrogate-"),
    *("tailscale-", "ngrok-", "akamai-"),
)
FORWARDING_WORDS: Final = ("forwarded", "proxy")
ADDRESSES: Final = frozenset({"ip", "ips", "addr", "address", "clientip"})  # the last word of a name
FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


HTTP: Final = "1.1"
HOME: Final = "podfleet.home"  # the loop of the authenticator, in a request that another loop serves
PROXY_HTTP: Final = "1.0"
PROXY_SEEN: Final = (
    "a request came through a proxy, behind which may be anybody: from now on every request needs a key; "
    "make one with `podfleet keys create NAME --kind admin --direct`, or take the proxy away and start again"
)
NO_HOST: Final = frozenset("@/?#\\")  # what ends a host in an address, or stands before it
SUPERUSER: Final = 0  # who reads our key anyway
FOREIGN_USER: Final = (
    "without a key this server answers to programs of the user who started it; a proxy, or another user, "
    "needs a key: `podfleet keys create NAME --kind admin --direct` makes one"
)
# The number of the user whose connection it is, None where nobody knows.
UserOf = Callable[[], int | None]


def _unknown() -> int | None:
    return None


class Forbidden(Rejected):
    """This principal may not make the request, or not from this address."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A name for the records, what it may do, and the id of the key that says so, where it is a stored one.

    A run token's speaks for one `attempt`, by the run's id and its number, and for no other. Behind one that
    `is_shared` may be anybody: who acts has to say their name. A signed-in browser's has a `form_token`,
    which each of its forms brings back. With `pod` it claims and reports for the pod of this name alone.
    """

    name: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    is_shared: bool = False
    attempt: AttemptId | None = None
    pod: str | None = None
    projects: tuple[str, ...] = ()  # whose runs alone it may submit; empty: any
    form_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The principal and the route of a request; kept with the request for the audit log."""

    principal: Principal
    scope: Scope
    route: str
    parameters: Mapping[str, str]


# Who asked what is being answered: for the pages, whose forms and corners depend on it.
ASKER: Final[ContextVar[Principal | None]] = ContextVar("asker", default=None)


class Authenticator(Protocol):
    """Authenticates requests."""

    async def identify(
        self,
        method: str,
        headers: Mapping[str, str],
        address: str = "",
        version: str = HTTP,
        user: UserOf = _unknown,
    ) -> Principal:
        """Return the sender, whose connection comes from `address`. Raises `Unauthorized`, `Forbidden`.

        `version` is that of HTTP in which the request came; `user` tells whose connection it is.
        """
        ...

    async def is_open(self) -> bool:
        """Say whether requests without a key are admitted."""
        ...


class Users(Protocol):
    """The users of an issuer."""

    def scopes(self, held: Collection[str]) -> frozenset[Scope]:
        """Return what somebody may do today of whose claims these are named by the settings."""
        ...

    def look_after(self, session: Mapping[str, Any]) -> None:
        """Have the tokens of a stored session refreshed that is used, if it is time."""
        ...


@dataclass(slots=True)
class Keyless:
    """Trusts loopback connections, until a request shows that a proxy forwards others.

    That ends it until the next start, since a proxy need not tell of each request that it forwards one.
    """

    _is_over: bool = field(default=False, init=False)

    async def identify(
        self, method: str, headers: Mapping[str, str], address: str = "", user: UserOf = _unknown
    ) -> Principal:
        host = headers.get("host", "")
        if NO_HOST.intersection(host) or host_of(f"//{host}") not in LOOPBACK:
            message = "without a key this server answers to 127.0.0.1 and localhost only"
            raise Forbidden("foreign_host", message)
        if host_of(f"//[{address}]" if ":" in address else f"//{address}") not in LOOPBACK:
            raise Forbidden("foreign_address", "without a key this server answers to its own machine only")
        if user() not in (None, SUPERUSER, os.geteuid()):
            raise Forbidden("foreign_user", FOREIGN_USER)
        refuse_foreign_pages(method, headers)
        return Principal("loopback", ALL, is_shared=True)

    def look(self, headers: Mapping[str, str], version: str) -> None:
        """Look at a request, whoever sent it: a header of a proxy ends the trust, and so does HTTP/1.0.

        That is what a proxy speaks that nobody told to name those for whom it asks, as nginx does.
        """
        if self._is_over:
            return
        found = next((name for name in headers if is_forwarding(name.lower())), None)
        if found is not None or version == PROXY_HTTP:
            self._is_over = True
            log.warning("keyless.over", extra={"sign": found or f"HTTP/{version}", "why": PROXY_SEEN})

    async def is_open(self) -> bool:
        return not self._is_over


@dataclass(frozen=True, slots=True)
class Keyed:
    """Knows the stored keys, the environment's, which may do everything, and the sessions of browsers.

    Who offers neither key nor session is judged by `keyless`, as long as there is one and no stored key that
    may do everything. The environment's does not end it: whoever set that said `--keyless` beside it.
    """

    ring: KeyRing
    sign_in: SignIn
    run_tokens: RunTokens
    failures: RateLimit
    root: str | None = field(default=None, repr=False)
    keyless: Keyless | None = None
    users: Users | None = None  # who sign in by an issuer

    async def identify(
        self,
        method: str,
        headers: Mapping[str, str],
        address: str = "",
        version: str = HTTP,
        user: UserOf = _unknown,
    ) -> Principal:
        if self.keyless is not None:
            self.keyless.look(headers, version)
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() != "bearer":
                raise _no_key()
            return await self.owner(credentials.strip(), address)
        session = await self.sign_in.session(headers.get("cookie", ""))
        if session is not None:
            refuse_foreign_pages(method, headers)
            return await self._signed_in(session)
        if self.keyless is not None and await self.is_open():
            return await self.keyless.identify(method, headers, address, user)
        raise _no_key()

    async def is_open(self) -> bool:
        return self.keyless is not None and await self.keyless.is_open() and not await self.ring.has_admin()

    async def owner(self, offered: str, address: str = "") -> Principal:
        """Return the owner of a key. Raises `Unauthorized`, or `RateLimited` after many wrong keys."""
        if self.root is not None and hmac.compare_digest(offered.encode(), self.root.encode()):
            return Principal("root", ALL)
        try:
            if offered.startswith(run_tokens.PREFIX):
                token = await self.run_tokens.read(offered)
                name = f"{token.run_id}/a{token.attempt}"
                return Principal(name, RUN_TOKEN_SCOPES, attempt=AttemptId(token.run_id, token.attempt))
            key = await self.ring.whose(offered)
        except Unauthorized:
            # A right key is never slowed down by the wrong ones of a neighbour at the same address.
            if wait_s := self.failures.wait_s(address):
                raise RateLimited("too many wrong keys from this address", wait_s) from None
            raise
        return Principal(key.name, key.scopes, key.id, pod=key.pod, projects=key.projects)

    async def _signed_in(self, session: Session) -> Principal:
        if session.user is not None:
            return self._user(session, session.user)
        if session.key_id is None:
            if self.root is None or not hmac.compare_digest(digest(self.root), session.key_hash):
                raise Unauthorized("session_over", "you were signed out; sign in again")
            return Principal("root", ALL, form_token=session.form_token)
        key = await self.ring.same(session.key_id, session.key_hash)
        return Principal(key.name, key.scopes, key.id, projects=key.projects, form_token=session.form_token)

    def _user(self, session: Session, stored: Mapping[str, Any]) -> Principal:
        """Return the user of a session, with the role that today's settings give. Raises `Unauthorized`."""
        user = stored["user"]
        scopes = frozenset() if self.users is None else self.users.scopes(user["held"])
        if self.users is None or not scopes:
            raise Unauthorized("session_over", "you have no role here any more; sign in again")
        self.users.look_after(stored)
        return Principal(user["name"], scopes, form_token=session.form_token)


def require(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """Return the dependency that gives a route its principal, which must have `scope`."""

    async def principal(request: Request) -> Principal:
        return await _admitted(request, scope)

    return principal


async def is_still_admitted(request: Request, headers: Mapping[str, str], scope: Scope) -> bool:
    """Say whether the sender might ask again: an answer that goes on for hours has to end with its key.

    `headers` are the request's, as a dictionary, which for a thousand streams costs a third of theirs.
    """
    try:
        found = await _identified(request, headers)
    except Rejected:
        return False
    except Transient:
        return True  # nobody can tell now; while the store is away there is nothing to be told either
    return scope in found.scopes


async def _admitted(request: Request, scope: Scope) -> Principal:
    found = await _identified(request, request.headers)
    ASKER.set(found)
    route = getattr(request.scope.get("route"), "path", request.url.path)
    admitted = Admitted(found, scope, route, request.path_params)
    setattr(request.state, ADMITTED, admitted)
    if scope not in found.scopes:
        raise Forbidden("missing_scope", f"this key lacks the scope {scope}")
    if found.form_token is not None and request.method not in SAFE_METHODS:
        await _require_form_token(request, found.form_token)
    return found


async def _require_form_token(request: Request, token: str) -> None:
    """Refuse a form of a signed-in browser without a valid form token. Raises `Forbidden`."""
    offered: object = request.headers.get(FORM_HEADER)
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if offered is None and media in FORMS:
        offered = (await request.form()).get(FORM_FIELD)
    if not is_brought_back(token, offered if isinstance(offered, str) else None):
        raise Forbidden("foreign_form", "this form is of another session; load its page again, and repeat")


def address_of(request: Request) -> str:
    """Return the address of the other end of the connection; empty if it is not known."""
    return request.client.host if request.client else ""


def sender_of(request: Request, principal: Principal) -> str | None:
    """Return the name for the rate limit: the key and the address; None for a request without a key."""
    return None if principal.is_shared else f"{principal.key_id or principal.name}@{address_of(request)}"


def refuse_foreign_pages(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a cross-site request that changes something. Raises `Forbidden`."""
    if method in SAFE_METHODS:
        return
    origin = headers.get("origin")
    if origin is not None and _netloc_of(origin) != headers.get("host"):
        raise Forbidden("foreign_origin", "another site's page may not do this")
    if is_led_here(headers):
        raise Forbidden("foreign_origin", "another site's page may not do this")


def is_led_here(headers: Mapping[str, str]) -> bool:
    """Say whether the browser's headers tell of a cross-site request."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _identified(request: Request, headers: Mapping[str, str]) -> Principal:
    authenticator: Authenticator = request.app.state.authenticator
    version = request.scope.get("http_version", HTTP)
    user = partial(user_of, request.client, request.scope.get("server"))
    asked = authenticator.identify(request.method, headers, address_of(request), version, user)
    home: asyncio.AbstractEventLoop | None = request.scope.get(HOME)
    if home is None:
        return await asked
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, home))


def is_forwarding(name: str) -> bool:
    """Say whether a header, in lower case, is one that proxies write."""
    name = name.replace("_", "-")
    return (
        name in FORWARDING
        or name.startswith(FORWARDING_PREFIXES)
        or name.rpartition("-")[2] in ADDRESSES
        or any(word in name for word in FORWARDING_WORDS)
    )


def host_of(url: str) -> str | None:
    """Return the host that an address names; None where it can be read by nobody."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _no_key() -> Unauthorized:
    return Unauthorized("no_key", "send a key as `Authorization: Bearer <PODFLEET_API_KEY>`")
