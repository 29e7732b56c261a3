"""Results of runs: pages of rows, exports, and runs beside each other row by row."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from control_plane.access.export_signing import ExportSigner
from control_plane.reads.paging import LIMIT_DEFAULT
from control_plane.reads.results.archive import ZIP, archived
from control_plane.reads.results.archive import opened as opened_archive
from control_plane.reads.results.export import MEDIA_TYPES, Format, exported, require
from control_plane.reads.results.filters import FILTERS_MAX, SEARCH_CHARS_MAX
from control_plane.reads.results.rows import ResultQuery
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, Page, Several
from control_plane.server.deps import Deps
from events.answers.kinds.results import ComparedRows, ItemPairs, ResultPage, SigningKey, SigningKeys
from events.runtime.errors import Rejected

FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {each: {"schema": {"type": "string"}} for each in (*MEDIA_TYPES.values(), ZIP)},
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
    """All rows that are wanted, as a file; `zip` has every set of the run whole, and is signed."""

    format: Format | Literal["zip"] = "csv"


def router(deps: Deps) -> APIRouter:
    """Return the routes of results."""
    routes = Routes(tags=["results"])
    results = deps.results

    @routes.get("/api/runs/{run_id}/results")
    async def page(run_id: str, _: MayRead, wanted: Annotated[RowsPage, Query()]) -> ResultPage:
        return await results.page(run_id, wanted.query(), limit=wanted.limit, after=wanted.after)

    @routes.get("/api/runs/{run_id}/results/export", response_class=StreamingResponse, responses=FILE)
    async def export(run_id: str, _: MayRead, wanted: Annotated[RowsFile, Query()]) -> StreamingResponse:
        if wanted.format == "zip":
            return await _zipped(deps, run_id, wanted)
        require(wanted.format)
        opened = await results.open(run_id, wanted.query(), is_whole=True)
        pieces = exported(wanted.format, opened.declared.columns, results.rows(opened))
        name = f"{run_id}-{opened.declared.name}.{wanted.format}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(pieces, media_type=MEDIA_TYPES[wanted.format], headers=headers)

    @routes.get("/api/results/keys")
    async def keys(_: MayRead) -> SigningKeys:
        return SigningKeys(
            items=[SigningKey(id=each.id, public=each.public) for each in signer_of(deps).public]
        )

    @routes.get("/api/results/compare", responses={404: {}})
    async def compare(
        _: MayRead,
        run: Several,
        set: Annotated[str | None, Query(max_length=64)] = None,
        limit: int = LIMIT_DEFAULT,
        after: str | None = None,
    ) -> ComparedRows:
        return await results.compared(run, set, limit=limit, after=after)

    @routes.get("/api/results/pairs", responses={404: {}})
    async def pairs(
        _: MayRead,
        run: Several,
        set: Annotated[str | None, Query(max_length=64)] = None,
        limit: int = LIMIT_DEFAULT,
        after: str | None = None,
    ) -> ItemPairs:
        return await results.pairs(run, set, limit=limit, after=after)

    return routes


def signer_of(deps: Deps) -> ExportSigner:
    """Return what signs the exports of this fleet."""
    return ExportSigner.of(deps.db.name, deps.settings.secrets_keys)


async def _zipped(deps: Deps, run_id: str, wanted: RowsWanted) -> StreamingResponse:
    if wanted.query() != ResultQuery(filters=[]):
        raise Rejected("whole_run", "a signed ZIP has every set whole: leave out set, sort, filter and q")
    signer = signer_of(deps)
    archive = await opened_archive(deps.results, signer, run_id, deps.clock.now())
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.zip"'}
    return StreamingResponse(archived(archive, deps.results, signer), media_type=ZIP, headers=headers)
