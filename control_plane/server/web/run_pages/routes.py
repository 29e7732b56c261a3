"""The routes of a run's tabs; `steering` has the forms."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from control_plane.concurrency.singleflight import Singleflight
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.results import RowsPage
from control_plane.server.api.runs import LogFilters, MayRead
from control_plane.server.web.forms.addresses import shorter
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.run_pages.other_tabs import (
    FILE_CHARS_MAX,
    MetricsView,
    files_tab,
    kind_tab,
    log_tab,
    metrics_tab,
    sections_tab,
    spec_tab,
)
from control_plane.server.web.run_pages.overview import overview
from control_plane.server.web.run_pages.results_tab import results_tab
from control_plane.server.web.run_pages.row_page import row_page
from control_plane.server.web.run_pages.tabs import ATTEMPTS, VALIDATION
from events.kinds.results import KEY_BYTES_MAX

SEE_OTHER: Final = 303

File = Annotated[str | None, Query(max_length=FILE_CHARS_MAX)]


def router(site: Site) -> APIRouter:
    """Return the routes of the tabs."""
    routes = Routes(prefix="/runs/{run_id}", include_in_schema=False)
    # Two hundred people may watch the same run: each change would be read two hundred times.
    joined: Singleflight[HTMLResponse] = Singleflight()

    @routes.get("")
    async def first(run_id: str, principal: MayRead) -> HTMLResponse:
        return await joined.read((run_id, principal), partial(overview, site, run_id))

    @routes.get("/metrics")
    async def curves(
        run_id: str, principal: MayRead, wanted: Annotated[MetricsView, Query()]
    ) -> HTMLResponse:
        key = (run_id, principal, *wanted.model_dump().values())
        return await joined.read(key, partial(metrics_tab, site, run_id, wanted))

    @routes.get("/results")
    async def results(run_id: str, _: MayRead, wanted: Annotated[RowsPage, Query()]) -> HTMLResponse:
        return await results_tab(site, run_id, wanted)

    @routes.get("/results/row")
    async def row(
        run_id: str,
        _: MayRead,
        key: Annotated[str, Query(max_length=KEY_BYTES_MAX)],
        wanted: Annotated[RowsPage, Query()],
    ) -> HTMLResponse:
        return await row_page(site, run_id, key, wanted)

    @routes.get("/validation")
    async def validation(run_id: str, principal: MayRead) -> HTMLResponse:
        read = partial(sections_tab, site, run_id, VALIDATION)
        return await joined.read((run_id, principal, VALIDATION), read)

    @routes.get("/attempts")
    async def attempts(run_id: str, principal: MayRead) -> HTMLResponse:
        read = partial(sections_tab, site, run_id, ATTEMPTS)
        return await joined.read((run_id, principal, ATTEMPTS), read)

    @routes.get("/kind/{tab}")
    async def of_kind(run_id: str, tab: str, principal: MayRead) -> HTMLResponse:
        read = partial(kind_tab, site, run_id, tab)
        return await joined.read((run_id, principal, "kind", tab), read)

    @routes.get("/files")
    async def files(run_id: str, _: MayRead, file: File = None) -> HTMLResponse:
        return await files_tab(site, run_id, file or None)

    @routes.get("/spec")
    async def spec(run_id: str, _: MayRead) -> HTMLResponse:
        return await spec_tab(site, run_id)

    @routes.get("/log")
    async def log(
        run_id: str, _: MayRead, request: Request, wanted: Annotated[LogFilters, Query()]
    ) -> Response:
        address = shorter(request.url.path, request.query_params.multi_items())
        if address is not None:
            return RedirectResponse(address, SEE_OTHER)
        given = {name: value for name, value in wanted.model_dump().items() if value != ""}
        return await log_tab(site, run_id, LogFilters(**given))

    @routes.get("/events")
    async def events(run_id: str, _: MayRead, request: Request) -> Response:
        # where the log stood before there were tabs; a browser keeps the anchor
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{request.url.path.removesuffix('/events')}/log{query}", SEE_OTHER)

    return routes
