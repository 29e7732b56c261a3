"""The page that shows runs side by side: parameters, ends, cost, and their curves in common charts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from control_plane.reads.comparison import SPEC, chosen, compared
from control_plane.reads.reading import Json
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.web.drawing.chart_figure import chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, letter
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.side_by_side import Metric, lines, mean, metrics, seed_groups, written
from events.kinds import KINDS
from events.runtime.errors import NotFound, Rejected

CHARTS_MAX: Final = 24
VALUES_MAX: Final = 200
ROWS_SHOWN: Final = 60  # of the numbers of each chart: there are many of them
WIDTH: Final = 480.0
HEIGHT: Final = 220.0
PAIR: Final = 2
ITEMS_SHOWN: Final = 200


class Wanted(BaseModel):
    """The runs to compare, and the options of their charts."""

    ids: list[str] = []
    log: Literal["", "on"] = ""
    smooth: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    seeds: Literal["mean", "each"] = "mean"

    def run_ids(self) -> list[str]:
        """Return the ids, from one list or several."""
        ids = [part.strip() for each in self.ids for part in each.split(",")]
        return [each for each in ids if each]


@dataclass(frozen=True, slots=True)
class ComparePages:
    """The page, with its reads."""

    site: Site

    async def one(self, wanted: Wanted) -> HTMLResponse:
        try:
            run_ids = chosen(wanted.run_ids())
        except Rejected as error:
            return await self.site.problem(422, f"{error.message}: tick them in the list.", back="/runs")
        runs = await self.site.deps.reading.compared(run_ids)
        # beside the event loop: what pods measured decides how long it takes
        return await self.site.show("compare.html", **await asyncio.to_thread(_view, runs, run_ids, wanted))

    async def items(self, run_ids: Sequence[str], set: str | None, after: str | None) -> HTMLResponse:
        try:
            found = await self.site.deps.results.pairs(run_ids, set, limit=ITEMS_SHOWN, after=after)
        except NotFound:
            raise
        except Rejected as error:
            return await self.site.problem(422, error.message, back="/runs")
        runs = {run["id"]: run for run in await self.site.deps.reading.compared(found.runs)}
        titles = [runs[each]["title"] or each if each in runs else each for each in found.runs]
        p_value = f"{found.p_value:.3g}"
        return await self.site.show("compare_items.html", pairs=found, titles=titles, p_value=p_value)


def _view(runs: Sequence[Json], run_ids: Sequence[str], wanted: Wanted) -> dict[str, Any]:
    """Return the data of the page."""
    names = [run["title"] or run["id"] for run in runs]
    letters = [letter(index) for index in range(len(runs))]
    groups = seed_groups([(run["kind"], run["spec"] or {}) for run in runs])
    measured = metrics([run["metrics"] for run in runs])
    curves = [each for each in measured if each.is_curve]
    drawn = groups if wanted.seeds == "mean" else []
    return {
        "runs": runs,
        "ids": ",".join(run["id"] for run in runs),
        "letters": letters,
        "missing": [each for each in run_ids if each not in {run["id"] for run in runs}],
        "parameters": [row for row in compared(runs) if row.field.startswith(SPEC)],
        "written": written,
        "groups": [[letters[index] for index in group] for group in groups],
        "charts": [
            chart_figure(_chart(each, lines(each, names, letters, drawn, wanted.smooth), wanted), ROWS_SHOWN)
            for each in curves[:CHARTS_MAX]
        ],
        "more_charts": max(0, len(curves) - CHARTS_MAX),
        "values": [(each, [mean([each.last[index] for index in group]) for group in groups])
                   for each in measured[:VALUES_MAX]],
        "has_items": len(runs) == PAIR and _has_outcome(runs),
        "is_partial": any(run["isPartial"] for run in runs),
        "wanted": wanted,
    }  # fmt: skip


def _has_outcome(runs: Sequence[Json]) -> bool:
    """Say whether the first result set of the runs' common kind says which rows are right."""
    kinds = {run["kind"] for run in runs}
    declared = [KINDS[each].results for each in kinds if each in KINDS]
    return len(kinds) == 1 and any(sets and sets[0].outcome is not None for sets in declared)


def _chart(metric: Metric, found: list[Line], wanted: Wanted) -> Chart:
    return Chart(
        title=metric.name,
        lines=found,
        is_log=wanted.log == "on",
        x_name="step",
        width=WIDTH,
        height=HEIGHT,
    )


def router(site: Site) -> APIRouter:
    """Return the route of the page."""
    routes = Routes(include_in_schema=False)
    pages = ComparePages(site)

    @routes.get("/runs/compare")
    async def compare(_: MayRead, wanted: Annotated[Wanted, Query()]) -> HTMLResponse:
        return await pages.one(wanted)

    @routes.get("/runs/compare/items")
    async def items(
        _: MayRead,
        ids: Annotated[str, Query(max_length=200)] = "",
        set: Annotated[str | None, Query(max_length=64)] = None,
        after: str | None = None,
    ) -> HTMLResponse:
        return await pages.items([each for each in ids.split(",") if each], set, after)

    return routes
