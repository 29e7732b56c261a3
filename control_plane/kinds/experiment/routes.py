"""The nodes of a run's search tree, each with its code and the tail of its output."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from control_plane.kinds.experiment.parts import NODES_MAX, page_of_nodes
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead
from control_plane.server.web.page_renderer import Site
from events.answers.runs import Nodes


class NodePage(BaseModel):
    """The position and length of a page; it holds at most `NODES_MAX` nodes, since code is long."""

    limit: int = NODES_MAX
    after: str | None = None


def router(site: Site) -> APIRouter:
    """Return the route of a run's nodes."""
    routes = APIRouter(prefix="/api/runs", tags=["runs"], route_class=StructRoute)

    @routes.get("/{run_id}/nodes")
    async def page(run_id: str, _: MayRead, wanted: Annotated[NodePage, Query()]) -> Nodes:
        return await page_of_nodes(site.deps.reading, run_id, wanted.limit, wanted.after)

    return routes
