"""Boards: by their address, as a file, and saved under a name."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError

from control_plane.model.views.boards.board import Show
from control_plane.model.views.boards.run_fields import FIELD_CHARS_MAX, read_field
from control_plane.reads.reading import SEARCH_CHARS_MAX, RunFilters
from control_plane.runs.boards.boards import in_csv
from control_plane.runs.boards.query import BoardQuery, checked
from control_plane.runs.boards.saved import Page as Saved
from control_plane.server.api.contract.bodies import FEW, Body, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page, RunsView
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.kinds.boards import Board, History, SavedBoard
from events.runtime.errors import Rejected

QUERY_MAX: Final = 20  # parts of an address that is saved
TEXT_CHARS_MAX: Final = 1_000
CSV: Final = "text/csv; charset=utf-8"
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {CSV: {}}, "description": "The board as a file"}
}

BOARD_ID: Final = re.compile("[a-z0-9][a-z0-9-]{0,62}")
BoardId = Annotated[str, StringConstraints(pattern=f"^{BOARD_ID.pattern}$")]
Text = Annotated[str, StringConstraints(max_length=FIELD_CHARS_MAX)]
Filter = Annotated[str | None, Field(max_length=SEARCH_CHARS_MAX), BeforeValidator(lambda text: text or None)]


class BoardWanted(BaseModel):
    """A board: the number `cell` of the runs of `kind` that succeeded, by the fields `rows` and `columns`.

    These are the completed ones and those that a person has validated; `status` chooses one of the two.

    Several numbers, with commas between them, are a column each; `beside` names more numbers of the run of
    each cell. Without `rows` and `cell` it is the board that the kind proposes.

    A field is `spec.PATH` or `label.NAME`; without `columns` there is one column. `complete` leaves out rows
    that lack a cell.
    """

    kind: Text
    rows: Text = ""
    columns: Text = ""
    cell: Text = ""
    beside: Text = ""
    show: Show = "newest"
    complete: bool = False
    status: Literal["", "COMPLETED", "HUMAN_VALIDATED"] = ""
    group: Filter = None
    label: Filter = None
    hypothesis: Filter = None
    pod: Filter = None
    region: Filter = None
    project: Filter = None
    q: Filter = None

    def asked(self) -> BoardQuery:
        """Return what is asked for."""
        own = {"kind", "rows", "columns", "cell", "beside", "show", "complete", "status"}
        filters = RunFilters(
            **self.model_dump(include={"group", "label", "hypothesis", "pod", "region", "project", "q"})
        )
        return BoardQuery(**self.model_dump(include=own), filters=filters)


class BoardFile(BoardWanted):
    """A board as a file."""

    format: Literal["csv"] = "csv"


class SavedBody(Body):
    """What is saved: the query of a board, or of a view of the list of runs (`page` is `runs`)."""

    page: Saved = "board"
    query: Annotated[
        dict[
            Annotated[str, StringConstraints(pattern="^[a-z]{1,20}$")],
            Annotated[str, StringConstraints(max_length=TEXT_CHARS_MAX), Storable],
        ],
        Field(max_length=QUERY_MAX, json_schema_extra={"additionalProperties": False}),
        FEW,
    ]


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/boards`."""
    routes = Routes(prefix="/api", tags=["boards"])
    shelf = deps.board_shelf

    @routes.get("/boards")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[SavedBoard]:
        return await shelf.page(wanted.limit, wanted.after)

    @routes.get("/boards/view")
    async def view(_: MayRead, wanted: Annotated[BoardWanted, Query()]) -> Board:
        return await deps.boards.board(wanted.asked())

    @routes.get("/boards/export", response_class=Response, responses=FILE)
    async def export(_: MayRead, wanted: Annotated[BoardFile, Query()]) -> Response:
        board = await deps.boards.board(wanted.asked())
        headers = {"Content-Disposition": f'attachment; filename="board-{board.kind}.csv"'}
        return Response(in_csv(board), media_type=CSV, headers=headers)

    @routes.get("/board-history")
    async def history(_: MayRead, wanted: Annotated[BoardWanted, Query()]) -> History:
        return await deps.histories.history(wanted.asked())

    @routes.get("/boards/{board_id}")
    async def one(board_id: str, _: MayRead) -> SavedBoard:
        return await shelf.find(board_id)

    @routes.put("/boards/{board_id}")
    async def save(board_id: BoardId, body: SavedBody, principal: MaySubmit) -> SavedBoard:
        return await shelf.save(board_id, body.page, saveable(body.page, body.query), by=principal.name)

    @routes.delete("/boards/{board_id}", status_code=204)
    async def remove(board_id: str, _: MaySubmit) -> None:
        await shelf.remove(board_id)

    return routes


def saveable(page: Saved, query: dict[str, str]) -> dict[str, str]:
    """Return a query without its empty parts, if its page could be shown. Raises `Rejected`."""
    given = {name: value for name, value in query.items() if value.strip() and name != "after"}
    model = BoardWanted if page == "board" else RunsView
    if unknown := sorted(set(given) - set(model.model_fields)):
        known = ", ".join(model.model_fields)
        raise Rejected("bad_query", f"query: {unknown[0]!r} is no part of the address; known: {known}")
    try:
        if page == "board":
            checked(BoardWanted.model_validate(given).asked())
        else:
            view = RunsView.model_validate({**given, "columns": [given.get("columns", "")]})
            view.filters().conditions()
            view.fields()
            if view.sort:
                read_field(view.sort.removeprefix("-"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Rejected("bad_query", f"query.{where}: {first['msg']}") from error
    return given
