"""Sign in and out: a form that takes a key, and opens a session for the browser."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from control_plane.access.auth import Forbidden, Keyed, address_of, is_led_here, refuse_foreign_pages
from control_plane.access.cookies import COOKIE, LOGIN_COOKIE, login_in
from control_plane.access.key_ring import Unauthorized
from control_plane.access.oidc.entrance import FOREIGN, LOGIN_LIFE, TEXT_CHARS_MAX, Entrance
from control_plane.access.sessions import SESSION_LIFE
from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from control_plane.config import LOOPBACK
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.http.head_requests import HEADED
from control_plane.server.web.page_renderer import Site
from events.answers.fleet import SignInLink
from events.runtime.errors import Rejected, Transient

SEE_OTHER: Final = 303
PLACE_CHARS_MAX: Final = 2_000
KEY_CHARS_MAX: Final = 500
UNKEPT: Final = {"Cache-Control": "no-store"}
LINK_OVER: Final = "this link was used, or is older than ten minutes: `podfleet signin` prints another"
# Whoever owns a key could sign others in with it, who would go on in his name.
LINK_LED: Final = "another page led here: paste the link into the address bar, if it is yours"

OURS: Final[dict[str, Any]] = {"path": "/", "secure": True, "httponly": True, "samesite": "lax"}
SIGN_INS_BURST: Final = 300  # steps of sign-ins from one address at once, then one in so many seconds
SIGN_IN_EVERY_S: Final = 1.0

OfIssuer = Annotated[str, Query(max_length=TEXT_CHARS_MAX)]
Place = Annotated[str, Form(max_length=PLACE_CHARS_MAX)]
Token = Annotated[str, Query(max_length=KEY_CHARS_MAX)]
KeyText = Annotated[str, Form(max_length=KEY_CHARS_MAX)]


def router(site: Site, keyed: Keyed) -> APIRouter:
    """Return the routes that need no session."""
    routes = Routes()

    @routes.get("/signin", include_in_schema=False)
    async def form(request: Request, to: str = "/") -> Response:
        return shown(site, request, to, None)

    @routes.post("/signin", include_in_schema=False)
    async def sign_in(request: Request, key: KeyText = "", to: Place = "/") -> Response:
        refuse_foreign_pages(request.method, request.headers)
        try:
            owner = await keyed.owner(key.strip(), address_of(request))
        except Unauthorized as error:
            return shown(site, request, to, error.message)
        if "read" not in owner.scopes:
            return shown(site, request, to, "this key is for programs: it opens no page")
        return entered(await keyed.sign_in.begin(key.strip(), owner.key_id), to)

    @routes.get("/signin/once", include_in_schema=False)
    async def once(request: Request, token: Token = "", to: str = "/") -> Response:
        if is_led_here(request.headers):
            return shown(site, request, to, LINK_LED)
        if HEADED in request.scope:  # a look at the link, which signs nobody in
            return shown(site, request, to, None)
        secret = await keyed.sign_in.take_up(token)
        if secret is None:
            return shown(site, request, to, LINK_OVER)
        return entered(secret, to)

    @routes.post("/api/signin-links", status_code=201, tags=["keys"])
    async def link(request: Request, asker: MayRead) -> SignInLink:
        """Make a link that signs in one browser with the key of this request, once and within ten minutes."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Forbidden("no_key", "a link is made with a key, in the header Authorization")
        token = await keyed.sign_in.offer(key.strip(), asker.key_id)
        path, public_url = f"/signin/once?token={token}", site.deps.settings.sign_in_url
        return SignInLink(path=path, url=None if public_url is None else f"{public_url}{path}")

    @routes.post("/signout", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        refuse_foreign_pages(request.method, request.headers)
        cookies = request.headers.get("cookie", "")
        session = await keyed.sign_in.session(cookies)
        await keyed.sign_in.end(cookies)
        if session is not None and session.user is not None:
            await note(site, request, SEE_OTHER, session.user["user"]["name"])
        answer = RedirectResponse("/signin", SEE_OTHER)
        answer.delete_cookie(COOKIE, **OURS)
        return answer

    return routes


def issuer_router(site: Site, entrance: Entrance) -> APIRouter:
    """Return the routes by which a browser goes to the issuer, and comes back."""
    routes = Routes()
    patience = RateLimit(entrance.clock, SIGN_INS_BURST, SIGN_IN_EVERY_S)

    def require_patience(request: Request) -> None:
        if wait_s := patience.wait_s(address_of(request)):
            raise RateLimited("too many sign-ins from this address", wait_s)

    @routes.get("/signin/oidc", include_in_schema=False)
    async def lead(request: Request, to: str = "/") -> Response:
        if is_led_here(request.headers) or HEADED in request.scope:
            return shown(site, request, to, None)
        require_patience(request)
        try:
            leading = await entrance.begin(own_path(to)[:PLACE_CHARS_MAX])
        except (Rejected, Transient) as error:
            return shown(site, request, to, error.message)
        answer = RedirectResponse(leading.url, SEE_OTHER, {"Referrer-Policy": "no-referrer", **UNKEPT})
        answer.set_cookie(LOGIN_COOKIE, leading.cookie, max_age=int(LOGIN_LIFE.total_seconds()), **OURS)
        return answer

    @routes.get("/signin/oidc/done", include_in_schema=False)
    async def done(
        request: Request,
        state: OfIssuer = "",
        code: OfIssuer = "",
        error: OfIssuer = "",
        iss: OfIssuer | None = None,
    ) -> Response:
        if HEADED in request.scope:  # a look, which signs nobody in
            return shown(site, request, "/", None)
        require_patience(request)
        cookie = login_in(request.headers.get("cookie", ""))
        try:
            found = await entrance.end(cookie, state=state, code=code, error=error, iss=iss)
        except (Rejected, Transient) as refusal:
            if refusal.code != FOREIGN:  # anybody can send that
                await note(site, request, 401, refusal.code)
            answer = shown(site, request, "/", refusal.message)
        else:
            await note(site, request, SEE_OTHER, found.name)
            answer = entered(found.secret, found.to)
        answer.delete_cookie(LOGIN_COOKIE, **OURS)
        return answer

    return routes


async def note(site: Site, request: Request, status: int, who: str) -> None:
    """Enter into the audit log that somebody signed in or out, which has no principal."""
    await site.deps.audit_log.add(
        {
            "_id": site.deps.ids.ulid(),
            "at": site.deps.clock.now(),
            "by": who,
            "keyId": None,
            "address": address_of(request) or None,
            "action": f"{request.method} {request.url.path}",
            "object": None,
            "made": None,
            "status": status,
        }
    )


def entered(secret: str, to: str) -> Response:
    """Return the answer that gives a browser its session."""
    answer = RedirectResponse(own_path(to), SEE_OTHER, {"Referrer-Policy": "no-referrer", **UNKEPT})
    answer.set_cookie(COOKIE, secret, max_age=int(SESSION_LIFE.total_seconds()), **OURS)
    return answer


def shown(site: Site, request: Request, to: str, problem: str | None) -> Response:
    """Return the page on which people sign in, with what went wrong."""
    is_plain = request.url.scheme == "http" and request.url.hostname not in LOOPBACK
    entrance = site.deps.entrance
    return site.pages.page(
        "signin.html",
        401 if problem else 200,
        to=own_path(to),
        problem=problem,
        is_plain=is_plain,
        issuer=None if entrance is None else urlsplit(entrance.issuer.settings.issuer).hostname,
    )


def own_path(place: str) -> str:
    """Return `place` if it is a path of this site, else the first page: no redirect leads to another site."""
    is_ours = place.startswith("/") and not place.startswith("//")
    return place if is_ours and "\\" not in place and place.isprintable() else "/"
