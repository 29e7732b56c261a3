"""The pages of boards: the saved ones, one by its address or its name, and the form that chooses one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import ValidationError

from control_plane.reads.comparison import RUNS_MAX
from control_plane.runs.boards.saved import Page as Saved
from control_plane.server.api.boards import BOARD_ID, TEXT_CHARS_MAX, BoardWanted, SavedBody, saveable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page
from control_plane.server.web.forms.fields import Unfit, read_body
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import carried_out, refused, see
from events.answers.kinds.boards import SavedBoard
from events.kinds import KINDS, RUN_KINDS
from events.runtime.errors import Rejected

STATUSES: Final = {
    "": "all that succeeded",
    "COMPLETED": "completed, not judged by a person",
    "HUMAN_VALIDATED": "validated by a person",
}
SHOWS: Final = {"newest": "the newest", "best": "the best", "mean": "the mean"}
QUERY_CHARS_MAX: Final = 4_000
MODEL_LABEL: Final = "model"


def router(site: Site) -> APIRouter:
    """Return the routes of the pages of boards."""
    routes = Routes(include_in_schema=False)
    shelf = site.deps.board_shelf

    @routes.get("/boards")
    async def listed(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        page = await shelf.page(wanted.limit, wanted.after)
        return await site.show("boards.html", page=page, **_form({}))

    @routes.get("/boards/view")
    async def view(_: MayRead, request: Request) -> HTMLResponse:
        return await _board(site, dict(request.query_params))

    @routes.get("/boards/{board_id}")
    async def one(board_id: str, _: MayRead) -> Response:
        saved = await shelf.find(board_id)
        return see(saved.address) if saved.page == "runs" else await _board(site, saved.query, saved)

    @routes.post("/boards")
    async def save(
        principal: MaySubmit,
        id: Annotated[str, Form(max_length=TEXT_CHARS_MAX)],
        query: Annotated[str, Form(max_length=QUERY_CHARS_MAX)],
        page: Annotated[Saved, Form()] = "board",
    ) -> Response:
        path = f"/boards/{quote(id, safe='')}"
        try:
            if not BOARD_ID.fullmatch(id):
                raise Rejected("bad_id", "a name has lower-case letters, digits and dashes, at most 63")
            body = read_body(SavedBody, {"page": page, "query": dict(parse_qsl(query))})
            order = shelf.save(id, page, saveable(page, body.query), by=principal.name)
        except Unfit as unfit:
            return await site.problem(422, str(unfit), back="/boards")
        except Rejected as error:
            return await refused(site, error, "/boards")
        return await carried_out(site, order, path)

    @routes.post("/boards/{board_id}/remove")
    async def remove(board_id: str, _: MaySubmit) -> Response:
        await shelf.remove(board_id)
        return see("/boards")

    return routes


async def _board(site: Site, query: Mapping[str, str], saved: SavedBoard | None = None) -> HTMLResponse:
    """Show a board with its form; where it cannot be made, the form with what is wrong."""
    given = {name: value for name, value in query.items() if value.strip() and name in _PARTS}
    live = site.live("runs")
    board, problems = None, []
    try:
        board = await site.deps.boards.board(BoardWanted.model_validate(given).asked())
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    except Rejected as error:
        problems = [error.message]
    return await site.show(
        "board.html",
        200 if board else 422,
        live=live,
        board=board,
        saved=saved,
        problems=problems,
        compared_max=RUNS_MAX,
        **_form(given),
    )


def _form(query: Mapping[str, str]) -> dict[str, Any]:
    return {
        "query": query,
        "encoded": urlencode(query),
        "kinds": sorted(RUN_KINDS),
        "shows": SHOWS,
        "statuses": STATUSES,
        **_known(),
        "proposed": proposed(),
    }


def proposed() -> list[dict[str, str]]:
    """Return the boards that installed kinds propose, each with its whole address."""
    found = []
    for name in sorted(RUN_KINDS):
        board = KINDS[name].leaderboard
        if board is not None:
            query = {"kind": name, "rows": board.rows, "cell": ",".join(board.cells)}
            query |= {"beside": ",".join(board.beside)} if board.beside else {}
            address = f"/boards/view?{urlencode(query)}"
            found.append({"kind": name, "title": board.title, "address": address})
    return found


def histories() -> list[tuple[str, str]]:
    """Return what shows a model's history, of kinds that propose a board: its title, and its address so far.

    The name of a model is appended: it is a label of the runs.
    """
    kinds = [KINDS[name] for name in sorted(RUN_KINDS)]
    found = [(each, by) for each in kinds if each.leaderboard for by in each.labels if by == MODEL_LABEL]
    return [
        (each.says, f"/boards/history?{urlencode({'kind': each.name, 'label': f'{by}='})}")
        for each, by in found
    ]


def _known() -> dict[str, Sequence[str]]:
    """Return the fields and numbers that the installed kinds declare, for the form to propose."""
    kinds = [KINDS[name] for name in sorted(RUN_KINDS)]
    fields = {f"spec.{each.name}": None for kind in kinds for each in msgspec.structs.fields(kind.spec)}
    numbers = {each.name: None for kind in kinds for each in kind.headline if each.type == "number"}
    return {"known_fields": [*fields], "known_numbers": [*numbers]}


_PARTS: Final = frozenset(BoardWanted.model_fields)
