"""The first page: what needs a person, what runs, what waits and why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from fastapi.responses import HTMLResponse

from control_plane.reads.failures import LOOKED_AT_MAX, grouped
from control_plane.reads.reading import Overview, RunFilters
from control_plane.runs.explainer import behind, class_reasons
from control_plane.server.web.page_renderer import Site
from events.lifecycle import Status

HOUR: Final = timedelta(hours=1)
FAILED_LATELY: Final = timedelta(days=1)
RUNS_SHOWN: Final = 10
CAUSES_SHOWN: Final = 12
FIRST: Final = (Status.RUNNING, Status.QUEUED, Status.AWAITING_HUMAN)
BAD_PODS: Final = {"quarantine": "in quarantine", "cordon": "cordoned", "drain": "draining"}


async def home(site: Site, project: str | None = None) -> HTMLResponse:
    """Show what the fleet does, and what needs a person; its queue of one project, where that is named."""
    live, reading = site.live("runs", "pods"), site.deps.reading
    now = reading.clock.now()
    overview, recent, running, failed, failing, today = await asyncio.gather(
        reading.overview(),
        reading.runs(RunFilters(), RUNS_SHOWN),
        reading.runs(RunFilters(status=Status.RUNNING), RUNS_SHOWN),
        reading.run_reads.failed(LOOKED_AT_MAX),
        reading.failing_checks(),
        site.deps.accounts.today(),
    )
    queue = [each for each in overview.queue if project in (None, each.project)]
    why, waiting = await asyncio.gather(
        class_reasons(reading, [each.class_key for each in queue]), behind(reading, project)
    )
    hours = (now - today.start) / HOUR
    causes = grouped(failed, now - FAILED_LATELY)
    return await site.show(
        "home.html",
        live=live,
        overview=overview,
        statuses=_counted(overview),
        bad_pods=_bad_pods(overview, failing),
        causes=causes[:CAUSES_SHOWN],
        more_causes=len(causes[CAUSES_SHOWN:]),
        is_cut=len(failed) >= LOOKED_AT_MAX,
        today=today,
        # of the first hour nothing can be told yet
        an_hour=today.finished / hours if hours >= 1 else None,
        runs=recent.items,
        running=running.items,
        why=why,
        queue=queue,
        behind=waiting,
        project=project,
    )


def _counted(overview: Overview) -> dict[str, int]:
    """Return the statuses that runs are in, those that matter now first."""
    found = overview.statuses
    names = [*FIRST, *(name for name in found if name not in FIRST)]
    return {str(name): found[name] for name in names if found.get(name)}


def _bad_pods(overview: Overview, failing: Mapping[str, int]) -> list[str]:
    """Return what is wrong with pods, in words."""
    told = [f"{count} {BAD_PODS.get(by, by)}" for by, count in overview.held_back.items() if count]
    told += [f"{count} with a failing check of {name}" for name, count in failing.items()]
    silent = overview.pods.get("gone", 0)
    return [*told, *([f"{silent} gone silent in the last day"] if silent else [])]
