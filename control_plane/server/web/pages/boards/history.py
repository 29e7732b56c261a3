"""The page of a headline number over time: a chart, and a table with each run and its schedule."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from control_plane.model.views.boards.values import value_of
from control_plane.server.api.boards import BoardWanted
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.web.drawing.chart_figure import chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, letter
from control_plane.server.web.page_renderer import Site
from events.answers.kinds.boards import History, HistoryPoint
from events.runtime.errors import Rejected

LINES_MAX: Final = 12
WIDTH: Final = 720.0
HEIGHT: Final = 260.0


def router(site: Site) -> APIRouter:
    """Return the route of the page."""
    routes = Routes(include_in_schema=False)

    @routes.get("/boards/history")
    async def history(_: MayRead, wanted: Annotated[BoardWanted, Query()]) -> HTMLResponse:
        found, problems = None, []
        try:
            found = await site.deps.histories.history(wanted.asked())
        except Rejected as error:
            problems = [error.message]
        return await site.show(
            "history.html",
            200 if found else 422,
            history=found,
            figure=None if found is None else chart_figure(_chart(found)),
            problems=problems,
            wanted=wanted,
        )

    return routes


def _moment(point: HistoryPoint) -> float:
    return datetime.fromisoformat(point.finished_at).timestamp()


def _chart(history: History) -> Chart:
    lines: dict[Any, list[HistoryPoint]] = defaultdict(list)
    for point in history.points:
        lines[value_of(point.line)].append(point)
    drawn = [
        Line(
            name=history.cell if value.shown is None else str(value.shown),
            points=[(_moment(each), float(each.number)) for each in points],
            band=[
                (_moment(each), float(each.low), float(each.high))
                for each in points
                if each.low is not None and each.high is not None
            ],
            letter=letter(number),
        )
        for number, (value, points) in enumerate(sorted(lines.items())[:LINES_MAX])
    ]
    return Chart(title=history.cell, lines=drawn, x="time", width=WIDTH, height=HEIGHT)
