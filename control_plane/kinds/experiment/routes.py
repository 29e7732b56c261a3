"""The nodes of a run's search tree, each with its code and output; the register of verdicts on data sets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from control_plane.kinds.experiment.data_uses import page_of_uses
from control_plane.kinds.experiment.parts import NODES_MAX, page_of_nodes
from control_plane.model.views.document_mapping import from_document
from control_plane.reads import paging
from control_plane.reads.reading import listing
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.web.page_renderer import Site
from events.answers.answer import Listing
from events.answers.kinds.data_uses import DataUse
from events.answers.runs import Nodes


class NodePage(BaseModel):
    """The position and length of a page; it holds at most `NODES_MAX` nodes, since code is long."""

    limit: int = NODES_MAX
    after: str | None = None


class UsePage(Page):
    """A page of the register; `data` is the name of a shipped data set, or the digest of a table."""

    data: str | None = None


def router(site: Site) -> APIRouter:
    """Return the routes."""
    routes = Routes(prefix="/api", tags=["runs"])

    @routes.get("/data-uses")
    async def uses(_: MayRead, wanted: Annotated[UsePage, Query()]) -> Listing[DataUse]:
        key = None if wanted.after is None else paging.decode("data-uses", wanted.after, str)
        found = await page_of_uses(site.deps.db, wanted.data, key, paging.limited(wanted.limit))
        return listing("data-uses", found, lambda document: from_document(DataUse, document))

    @routes.get("/runs/{run_id}/nodes")
    async def page(run_id: str, _: MayRead, wanted: Annotated[NodePage, Query()]) -> Nodes:
        return await page_of_nodes(site.deps.reading, run_id, wanted.limit, wanted.after)

    return routes
