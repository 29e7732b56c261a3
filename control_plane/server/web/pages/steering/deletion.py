"""The page that deletes a run: what goes with it, and the button that confirms."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from control_plane.access.audit_log import add_details
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayDelete
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import refused, see
from control_plane.upkeep.keeping.deleter import deleted_in_words
from events.runtime.errors import Conflict


def router(site: Site) -> APIRouter:
    """Return the routes of the page and of its form."""
    routes = Routes(include_in_schema=False)
    deleter = site.deps.deleter

    @routes.get("/runs/{run_id}/delete")
    async def ask(run_id: str, _: MayDelete) -> Response:
        return await site.show("delete_run.html", wanted=await deleter.preview(run_id))

    @routes.post("/runs/{run_id}/delete")
    async def delete(run_id: str, principal: MayDelete, request: Request) -> Response:
        try:
            found = await deleter.delete(run_id, by=f"user:{principal.name}")
        except Conflict as error:
            return await refused(site, error, f"/runs/{quote(run_id, safe='')}")
        add_details(request, deleted_in_words(found))
        return see("/runs")

    return routes
