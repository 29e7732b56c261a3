"""Results of runs: pages of rows, exports, and runs beside each other row by row."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from control_plane.reads.paging import LIMIT_DEFAULT
from control_plane.reads.result_export import MEDIA_TYPES, Format, exported, require
from control_plane.reads.result_filters import FILTERS_MAX, SEARCH_CHARS_MAX
from control_plane.reads.results import ResultQuery
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead, Page, Several
from control_plane.server.deps import Deps
from events.answers.kinds.results import ComparedRows, ResultPage

FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {each: {"schema": {"type": "string"}} for each in MEDIA_TYPES.values()},
        "description": "The rows as a file",
    }
}
FILTER_CHARS_MAX: Final = 400  # so that all of them fit into the head of a request
Filter = Annotated[str, Field(max_length=FILTER_CHARS_MAX)]


class RowsWanted(BaseModel):
    """Which rows of which set; `filter` is such as `score>=0.5`, `sort` a column, or `-` and a column."""

    set: str | None = Field(None, max_length=64)
    sort: str | None = Field(None, max_length=80)
    filter: list[Filter] = Field([], max_length=FILTERS_MAX)
    q: str | None = Field(None, max_length=SEARCH_CHARS_MAX)

    def query(self) -> ResultQuery:
        """Return what is asked of the set; an empty field of a form asks for nothing."""
        filters = [each for each in self.filter if each.strip()]
        return ResultQuery(set=self.set or None, sort=self.sort or None, filters=filters, q=self.q)


class RowsPage(RowsWanted, Page):
    """A page of rows."""


class RowsFile(RowsWanted):
    """All rows that are wanted, as a file."""

    format: Format = "csv"


def router(deps: Deps) -> APIRouter:
    """Return the routes of results."""
    routes = APIRouter(tags=["results"], route_class=StructRoute)
    results = deps.results

    @routes.get("/api/runs/{run_id}/results")
    async def page(run_id: str, _: MayRead, wanted: Annotated[RowsPage, Query()]) -> ResultPage:
        return await results.page(run_id, wanted.query(), limit=wanted.limit, after=wanted.after)

    @routes.get("/api/runs/{run_id}/results/export", response_class=StreamingResponse, responses=FILE)
    async def export(run_id: str, _: MayRead, wanted: Annotated[RowsFile, Query()]) -> StreamingResponse:
        require(wanted.format)
        opened = await results.open(run_id, wanted.query())
        pieces = exported(wanted.format, opened.declared.columns, results.rows(opened))
        name = f"{run_id}-{opened.declared.name}.{wanted.format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(pieces, media_type=MEDIA_TYPES[wanted.format], headers=headers)

    @routes.get("/api/results/compare", responses={404: {}})
    async def compare(
        _: MayRead,
        run: Several,
        set: Annotated[str | None, Query(max_length=64)] = None,
        limit: int = LIMIT_DEFAULT,
        after: str | None = None,
    ) -> ComparedRows:
        return await results.compared(run, set, limit=limit, after=after)

    return routes
