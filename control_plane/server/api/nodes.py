"""The nodes of a run's search tree, each with the code that was run and the end of what it printed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from control_plane.reads.reading import NODES_MAX
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps
from events.answers.runs import Nodes


class NodePage(BaseModel):
    """Where the list goes on; a page holds `NODES_MAX` nodes at most, since code is long."""

    limit: int = NODES_MAX
    after: str | None = None


def router(deps: Deps) -> APIRouter:
    """Return the route of a run's nodes."""
    routes = APIRouter(prefix="/api/runs", tags=["runs"], route_class=StructRoute)

    @routes.get("/{run_id}/nodes")
    async def page(run_id: str, _: MayRead, wanted: Annotated[NodePage, Query()]) -> Nodes:
        return await deps.reading.nodes(run_id, wanted.limit, wanted.after)

    return routes
