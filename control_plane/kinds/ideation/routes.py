"""The routes of hypotheses: those of the API and of the pages."""

from __future__ import annotations

from fastapi import APIRouter

from control_plane.kinds.ideation import api, pages
from control_plane.kinds.ideation.proposing import Proposer
from control_plane.kinds.ideation.reads import HypothesisReads
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.server.api.contract.struct_routes import Routes, add_routes
from control_plane.server.web.page_renderer import Site


def router(site: Site) -> APIRouter:
    """Return the routes."""
    deps = site.deps
    store = Hypotheses(deps.db)
    reads, proposer = HypothesisReads(deps.reading, store), Proposer(deps.submitter, store, deps.ids)
    routes = Routes()
    add_routes(routes, api.router(deps, reads, proposer), pages.router(site, reads, proposer))
    return routes
