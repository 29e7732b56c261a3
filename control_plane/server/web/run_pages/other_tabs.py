"""The tabs of a run beside the first one, each from the reads that it needs."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from control_plane.model.presentation import plain
from control_plane.reads.comparison import FACTS_MAX, flat
from control_plane.server.api.runs import LogFilters
from control_plane.server.web.drawing.chart_figure import ChartFigure, chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, smoothed
from control_plane.server.web.forms.commands import cli_command, curl_command, submission_like
from control_plane.server.web.page_renderer import NOT_LIVE, Site
from control_plane.server.web.run_pages.file_tree import file_tree
from control_plane.server.web.run_pages.frame import framed
from control_plane.server.web.run_pages.overview import can_revise
from control_plane.server.web.run_pages.tabs import FILES, LOG, METRICS, OF_EVERY_RUN, SPEC
from control_plane.server.web.side_by_side import metrics, written
from events.catalog import TYPES
from events.runtime.errors import NotFound

CURVES_SHOWN: Final = 24
NUMBERS_DRAWN: Final = 1_000  # a page that stays current is made again and again
SECTIONS_ONLY: Final = "run/sections.html"
FILE_CHARS_MAX: Final = 2_000


class MetricsView(BaseModel):
    """How the curves of a run are drawn."""

    log: Literal["", "on"] = ""
    x: Literal["step", "time"] = "step"
    smooth: Annotated[float, Field(ge=0, le=0.99)] = 0.0


async def sections_tab(site: Site, run_id: str, tab: str) -> HTMLResponse:
    """Show a tab that has sections alone. Raises `NotFound`."""
    frame = await framed(site, run_id, tab)
    return await frame.show(
        SECTIONS_ONLY,
        can_revise=can_revise(frame.run),
        is_keyless=await site.deps.authenticator.is_open(),
    )


async def kind_tab(site: Site, run_id: str, tab: str) -> HTMLResponse:
    """Show a tab that only runs of a kind have. Raises `NotFound`."""
    if tab in OF_EVERY_RUN:
        raise NotFound("unknown_tab", f"{tab!r} is no tab of a kind")
    return await sections_tab(site, run_id, tab)


async def metrics_tab(site: Site, run_id: str, wanted: MetricsView) -> HTMLResponse:
    """Show the curves of a run. Raises `NotFound`."""
    frame = await framed(site, run_id, METRICS)
    numbers = await site.deps.reading.measured(run_id, NUMBERS_DRAWN)
    # beside the event loop: what a pod measured decides how long it takes
    drawn, single = await asyncio.to_thread(_curves, numbers, wanted)
    is_cut = len(numbers) >= NUMBERS_DRAWN
    return await frame.show("run/metrics.html", charts=drawn, single=single, wanted=wanted, is_cut=is_cut)


def _curves(numbers: list[dict[str, Any]], wanted: MetricsView) -> tuple[list[ChartFigure], list[Any]]:
    """Return the charts of the metrics that have several values, and the name and value of the others."""
    found = metrics([numbers], wanted.x)
    charts = [
        chart_figure(
            Chart(
                title=each.name,
                lines=[Line(name=each.name, points=smoothed(each.points[0], wanted.smooth))],
                x_name="" if wanted.x == "time" else "step",
                x="time" if wanted.x == "time" else "number",
                is_log=wanted.log == "on",
            )
        )
        for each in [each for each in found if each.is_curve][:CURVES_SHOWN]
    ]
    single = [(each.name, each.last[0]) for each in found if not each.is_curve]
    return charts, single


async def files_tab(site: Site, run_id: str, file: str | None) -> HTMLResponse:
    """Show the files of a run as a tree, and one of them beside it. Raises `NotFound`."""
    frame = await framed(site, run_id, FILES, "artifacts")
    shown = None if file is None else await site.file(file)
    if shown is not None and shown["artifact"].run_id != run_id:
        raise NotFound("unknown_artifact", f"the run has no file {file!r}")
    # beside the event loop: a pod decides how many there are
    root = await asyncio.to_thread(file_tree, frame.run.artifacts, file)
    # a file that somebody reads stays where it is
    live = frame.live if shown is None else NOT_LIVE
    return await frame.show("run/files.html", live=live, root=root, chosen=file, shown=shown)


async def spec_tab(site: Site, run_id: str) -> HTMLResponse:
    """Show what a run was asked to do, beside what the run before it was. Raises `NotFound`."""
    frame = await framed(site, run_id, SPEC)
    run = frame.run
    before = None
    if run.parent_run_id is not None:
        before = await site.deps.reading.run_reads.spec(run.parent_run_id)
    changes = None if before is None else _changes(run.spec or {}, plain(before.get("spec")) or {})
    sent = submission_like(run)
    return await frame.show(
        "run/spec.html", changes=changes, written=written, cli=cli_command(sent), curl=curl_command(sent)
    )


def _changes(spec: dict[str, Any], before: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the fields in which two specifications differ, with both values."""
    mine, theirs = (dict(list(flat(each))[:FACTS_MAX]) for each in (spec, before))
    names = dict.fromkeys([*mine, *theirs])
    return [(name, mine.get(name), theirs.get(name)) for name in names if mine.get(name) != theirs.get(name)]


async def log_tab(site: Site, run_id: str, wanted: LogFilters) -> HTMLResponse:
    """Show a part of a log in order: its end, the part before a cursor, or the part after a position."""
    is_live = wanted.after is None and wanted.at is None
    frame = await framed(site, run_id, LOG, topic="log")
    reading = site.deps.reading
    if wanted.at is not None:
        stretch = await reading.events_from(run_id, wanted.at)
        items, newer = stretch.items, stretch.later
        older: str | None = stretch.earlier
    else:
        page = await reading.events(run_id, **wanted.model_dump(exclude={"at", "order"}))
        items, older, newer = page.items[::-1], page.next, None
    sieve = {"type": wanted.type, "level": wanted.level, "q": wanted.text}
    return await frame.show(
        "run/log.html",
        live=frame.live if is_live else NOT_LIVE,
        is_live=is_live,
        items=items,
        older=older,
        newer=newer,
        chosen=wanted.model_dump(
            include={"type", "level", "text", "limit"}, exclude_none=True, exclude_defaults=True
        ),
        sieve={name: value for name, value in sieve.items() if value is not None},
        wanted=wanted,
        types=sorted(TYPES),
    )
