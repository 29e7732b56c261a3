"""A headline number of runs over time: each run a point, with its interval and the schedule that began it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from control_plane.model.presentation import plain
from control_plane.model.views.boards.run_fields import RunField
from control_plane.model.views.boards.values import value_of
from control_plane.reads.results.rows import answered
from control_plane.runs.boards.boards import SHARES, interval_of
from control_plane.runs.boards.query import BoardQuery, CheckedQuery, checked
from control_plane.runs.schedules.scheduler import LABEL
from control_plane.store.queue.run_fields import FoundRun, NewestRuns, RunFieldReads
from events.answers.kinds.boards import History, HistoryPoint
from events.kinds import KINDS
from events.kinds.results import is_measured
from events.runtime.errors import Rejected

POINTS_MAX: Final = 500  # the newest


@dataclass(frozen=True, slots=True)
class Histories:
    """Histories of runs. Raises `Rejected`."""

    reads: RunFieldReads

    async def history(self, asked: BoardQuery) -> History:
        """Return the history of the number `cell`; a line for each value of the field `rows`."""
        if not asked.cell and asked.kind in KINDS and KINDS[asked.kind].headline:
            asked = replace(asked, cell=KINDS[asked.kind].headline[0].name)
        query = checked(replace(asked, show="newest", columns="", beside="", rows=asked.rows or "label.none"))
        if len(query.declared) > 1:
            raise Rejected("bad_cell", "a history is of one number")
        schedule = RunField("label", LABEL)
        found = await self.reads.newest(query.conditions(), query.filters.search(), [*query.fields, schedule])
        return await asyncio.to_thread(_answered, query, found, has_lines=bool(asked.rows))


def _answered(query: CheckedQuery, found: NewestRuns, *, has_lines: bool) -> History:
    (declared,) = query.declared
    points = [_point(query, each, has_lines=has_lines) for each in found.runs]
    measured = [each for each in points if each is not None]
    measured.sort(key=lambda each: each.finished_at, reverse=True)
    return History(
        kind=query.asked.kind,
        cell=declared.name,
        lines_by=str(query.rows) if has_lines else None,
        number=answered([declared])[0],
        method=f"each run{SHARES}" if declared.share_of else "each run",
        points=measured[:POINTS_MAX][::-1],
        looked_at=len(found.runs),
        unmeasured=len(points) - len(measured),
        left_out=max(0, len(measured) - POINTS_MAX),
        is_partial=found.is_partial,
    )


def _point(query: CheckedQuery, run: FoundRun, *, has_lines: bool) -> HistoryPoint | None:
    line, *values, schedule = run.values
    told: Mapping[str, Any] = {each.name: value for each, value in zip(query.read, values, strict=True)}
    (declared,) = query.declared
    if not is_measured(told[declared.name]) or not isinstance(run.finished_at, datetime):
        return None
    low, high = interval_of(declared, told)
    return HistoryPoint(
        run_id=run.id,
        title=run.title,
        finished_at=plain(run.finished_at),
        number=plain(told[declared.name]),
        low=low,
        high=high,
        line=value_of(line).shown if has_lines else None,
        schedule=schedule if isinstance(schedule, str) else None,
    )
