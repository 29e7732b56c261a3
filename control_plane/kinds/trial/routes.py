"""The routes of tasks: those of the API and of the pages."""

from __future__ import annotations

from fastapi import APIRouter

from control_plane.kinds.trial import api, pages
from control_plane.kinds.trial.reads import TaskReads
from control_plane.kinds.trial.service import TaskService
from control_plane.kinds.trial.store import Tasks
from control_plane.server.api.contract.struct_routes import Routes, add_routes
from control_plane.server.web.page_renderer import Site


def router(site: Site) -> APIRouter:
    """Return the routes."""
    deps = site.deps
    store = Tasks(deps.db)
    reads = TaskReads(deps.reading, store, deps.groups.reading.groups)
    service = TaskService(store, deps.groups.service, deps.ids)
    routes = Routes()
    add_routes(routes, api.router(deps, reads, service), pages.router(site, reads, service))
    return routes
