"""Sign in and out: a form that takes a key, and opens a session for the browser."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from control_plane.access.auth import Forbidden, Keyed, address_of, is_led_here, refuse_foreign_pages
from control_plane.access.cookies import COOKIE
from control_plane.access.key_ring import Unauthorized
from control_plane.access.sessions import SESSION_LIFE
from control_plane.config import LOOPBACK
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead
from control_plane.server.http.head_requests import HEADED
from control_plane.server.web.page_renderer import Site
from events.answers.fleet import SignInLink

SEE_OTHER: Final = 303
PLACE_CHARS_MAX: Final = 2_000
KEY_CHARS_MAX: Final = 500
UNKEPT: Final = {"Cache-Control": "no-store"}
LINK_OVER: Final = "this link was used, or is older than ten minutes: `podfleet signin` prints another"
# Whoever owns a key could sign others in with it, who would go on in his name.
LINK_LED: Final = "another page led here: paste the link into the address bar, if it is yours"

Place = Annotated[str, Form(max_length=PLACE_CHARS_MAX)]
Token = Annotated[str, Query(max_length=KEY_CHARS_MAX)]
KeyText = Annotated[str, Form(max_length=KEY_CHARS_MAX)]


def router(site: Site, keyed: Keyed) -> APIRouter:
    """Return the routes that need no session."""
    routes = APIRouter(route_class=StructRoute)

    @routes.get("/signin", include_in_schema=False)
    async def form(request: Request, to: str = "/") -> Response:
        return shown(request, to, None)

    @routes.post("/signin", include_in_schema=False)
    async def sign_in(request: Request, key: KeyText = "", to: Place = "/") -> Response:
        refuse_foreign_pages(request.method, request.headers)
        try:
            owner = await keyed.owner(key.strip(), address_of(request))
        except Unauthorized as error:
            return shown(request, to, error.message)
        if "read" not in owner.scopes:
            return shown(request, to, "this key is for programs: it opens no page")
        return entered(await keyed.sign_in.begin(key.strip(), owner.key_id), to)

    @routes.get("/signin/once", include_in_schema=False)
    async def once(request: Request, token: Token = "", to: str = "/") -> Response:
        if is_led_here(request.headers):
            return shown(request, to, LINK_LED)
        if HEADED in request.scope:  # a look at the link, which signs nobody in
            return shown(request, to, None)
        secret = await keyed.sign_in.take_up(token)
        if secret is None:
            return shown(request, to, LINK_OVER)
        return entered(secret, to)

    @routes.post("/api/signin-links", status_code=201, tags=["keys"])
    async def link(request: Request, asker: MayRead) -> SignInLink:
        """Make a link that signs in one browser with the key of this request, once and within ten minutes."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Forbidden("no_key", "a link is made with a key, in the header Authorization")
        token = await keyed.sign_in.offer(key.strip(), asker.key_id)
        return SignInLink(path=f"/signin/once?token={token}")

    def entered(secret: str, to: str) -> Response:
        answer = RedirectResponse(own_path(to), SEE_OTHER, {"Referrer-Policy": "no-referrer", **UNKEPT})
        answer.set_cookie(
            COOKIE,
            secret,
            max_age=int(SESSION_LIFE.total_seconds()),
            path="/",
            secure=True,
            httponly=True,
            samesite="lax",
        )
        return answer

    @routes.post("/signout", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        refuse_foreign_pages(request.method, request.headers)
        await keyed.sign_in.end(request.headers.get("cookie", ""))
        answer = RedirectResponse("/signin", SEE_OTHER)
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
        return answer

    def shown(request: Request, to: str, problem: str | None) -> Response:
        is_plain = request.url.scheme == "http" and request.url.hostname not in LOOPBACK
        return site.pages.page(
            "signin.html", 401 if problem else 200, to=own_path(to), problem=problem, is_plain=is_plain
        )

    return routes


def own_path(place: str) -> str:
    """Return `place` if it is a path of this site, else the first page: no redirect leads to another site."""
    is_ours = place.startswith("/") and not place.startswith("//")
    return place if is_ours and "\\" not in place and place.isprintable() else "/"
