"""`/ledger`: what the time of pods was spent on, by day, pod, run or project."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from control_plane.reads.ledger.reader import DAYS, DAYS_MAX, By
from control_plane.reads.ledger.segments import CLASSES, Class
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.web.drawing.stacked import stacked
from control_plane.server.web.page_renderer import Site
from events.answers.fleet import Ledger, LedgerRow, LedgerSpent

WORDS: Final[dict[Class, str]] = {
    "useful": "Useful",
    "overhead": "Overhead",
    "lost_run": "Lost by runs",
    "lost_pod": "Lost by pods",
    "lost_outside": "Lost by others",
    "preempted": "Preempted",
    "canceled": "Canceled",
    "running": "Running",
    "idle": "Idle",
}
WINDOWS: Final = {1: "Today", DAYS: "7 days", 31: "31 days", DAYS_MAX: "92 days"}
KEYS: Final[dict[By, str]] = {"day": "Day", "pod": "Pod", "run": "Run", "project": "Project"}


def router(site: Site) -> APIRouter:
    """Return the route of the page."""
    routes = Routes(include_in_schema=False)

    @routes.get("/ledger")
    async def ledger(
        _: MayRead, by: By = "day", days: Annotated[int, Query(ge=1, le=DAYS_MAX)] = DAYS
    ) -> HTMLResponse:
        live = site.live()
        today = site.deps.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        found = await site.deps.ledgers.read(by, since=today - timedelta(days=days - 1))
        has_gpus = found.total.all.gpu_seconds > 0
        return await site.show(
            "ledger.html",
            live=live,
            ledger=found,
            rows=rows(found, has_gpus=has_gpus),
            by=by,
            days=days,
            has_gpus=has_gpus,
            keys=KEYS,
            windows=WINDOWS,
            words=shown(found),
        )

    return routes


def shown(found: Ledger) -> dict[Class, str]:
    """Return the words of the classes that have any time: the others would be empty columns."""
    return {name: word for name, word in WORDS.items() if found.total.classes[name].seconds}


def rows(found: Ledger, *, has_gpus: bool) -> list[dict[str, Any]]:
    """Return the table's rows, the total last: each class in time of GPUs, or of pods where none has any."""
    told = [*found.items, found.total]
    most = max((_time(row.all, has_gpus=has_gpus) for row in found.items), default=0.0)
    return [_row(row, most, has_gpus=has_gpus, is_total=row is found.total) for row in told]


def _row(row: LedgerRow, most: float, *, has_gpus: bool, is_total: bool) -> dict[str, Any]:
    times: dict[str, float] = {name: _time(row.classes[name], has_gpus=has_gpus) for name in CLASSES}
    all_s = _time(row.all, has_gpus=has_gpus)
    return {
        "key": row.key,
        "title": row.title,
        "is_total": is_total,
        "all_s": all_s,
        "times": times,
        "parts": {name: value / all_s if all_s else 0.0 for name, value in times.items()},
        "cost": row.all.cost_usd,
        "lost": row.lost.cost_usd,
        "bar": stacked(times, all_s if is_total else most),
    }


def _time(spent: LedgerSpent, *, has_gpus: bool) -> float:
    return spent.gpu_seconds if has_gpus else spent.seconds
