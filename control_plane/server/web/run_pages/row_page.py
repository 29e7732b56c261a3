"""The page of one row of results: its long texts side by side, its values, and the rows beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi.responses import HTMLResponse

from control_plane.model.projection import artifact_id
from control_plane.server.api.results import RowsPage
from control_plane.server.web.page_renderer import NOT_LIVE, Site
from control_plane.server.web.run_pages.frame import framed
from control_plane.server.web.run_pages.results_tab import Addresses
from control_plane.server.web.run_pages.tabs import RESULTS
from control_plane.server.web.viewer import View
from events.runtime.errors import PodfleetError

TEXTS_MAX: Final = 24


async def row_page(site: Site, run_id: str, key: str, wanted: RowsPage) -> HTMLResponse:
    """Show a row. Raises `NotFound`, and `Rejected` for an unknown set or column."""
    frame = await framed(site, run_id, RESULTS)
    found = await site.deps.results.beside(run_id, wanted.query(), key)
    shown, problem = None, ""
    if found.row.detail:
        try:
            shown = await site.file(artifact_id(run_id, found.attempt, found.row.detail))
        except PodfleetError as error:
            problem = error.message  # the row's own values are here in any case
    texts = {} if shown is None else await asyncio.to_thread(_texts, shown["view"])
    return await frame.show(
        "run/row.html",
        live=NOT_LIVE,
        found=found,
        columns=found.opened.declared.columns,
        texts=texts,
        shown=shown,
        problem=problem,
        address=Addresses(run_id, found.opened.declared.name, found.attempt, wanted),
    )


def _texts(view: View) -> Mapping[str, str]:
    """Return the texts of a file that is a JSON object of texts; none of any other."""
    try:
        found: dict[str, Any] = msgspec.json.decode(view.text, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}
    return found if len(found) <= TEXTS_MAX else {}
