"""The routes of the pages that only read; `steering` has the forms."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from control_plane.concurrency.singleflight import Singleflight
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, OfProject, Page, RunsView
from control_plane.server.web.forms.addresses import shorter
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.home import home
from control_plane.server.web.sections import of_kinds

SEE_OTHER: Final = 303

Wanted = TypeVar("Wanted", bound=Page)


def router(site: Site) -> APIRouter:
    """Return the routes of the pages. Raises `ConfigError` for a kind whose sections cannot be loaded."""
    of_kinds()
    routes = Routes(include_in_schema=False)

    # Two hundred people may watch the fleet: each change would be read two hundred times.
    joined: Singleflight[HTMLResponse] = Singleflight()

    @routes.get("/")
    async def first(principal: MayRead, project: OfProject = None) -> HTMLResponse:
        return await joined.read(("/", principal, project), partial(home, site, project))

    @routes.get("/runs")
    async def runs(_: MayRead, request: Request, wanted: Annotated[RunsView, Query()]) -> Response:
        if short := _shorter(request):
            return short
        return await site.runs(_given(wanted))

    @routes.get("/artifacts/{artifact_id:path}")
    async def artifact(artifact_id: str, _: MayRead) -> HTMLResponse:
        return await site.artifact(artifact_id)

    @routes.get("/reviews")
    async def reviews(_: MayRead, after: str | None = None, done: str | None = None) -> HTMLResponse:
        return await site.reviews(after, done)

    return routes


def _shorter(request: Request) -> Response | None:
    address = shorter(request.url.path, request.query_params.multi_items())
    return None if address is None else RedirectResponse(address, SEE_OTHER)


def _given(wanted: Wanted) -> Wanted:
    """Return the filters without the empty ones of a form."""
    return type(wanted)(**{name: value for name, value in wanted.model_dump().items() if value != ""})
