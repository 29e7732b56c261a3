"""`/numbers`: the fleet's numbers, today and on earlier days."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from control_plane.reads.numbers import Day
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.web.drawing.bars import bars
from control_plane.server.web.page_renderer import Site


def router(site: Site) -> APIRouter:
    """Return the route of the page."""
    routes = Routes(include_in_schema=False)

    @routes.get("/numbers")
    async def numbers(_: MayRead) -> HTMLResponse:
        live = site.live()
        found, overview = await asyncio.gather(site.deps.accounts.now(), site.deps.reading.overview())
        days = await site.deps.accounts.days()
        table = rows(days)
        clocks = {part.replace("_", " "): ahead_s for part, ahead_s in site.deps.timekeeper.offsets().items()}
        return await site.show(
            "numbers.html", live=live, numbers=found, days=table, overview=overview, clocks=clocks
        )

    return routes


def rows(days: Sequence[Day]) -> list[dict[str, Any]]:
    """Return the table's rows, today first, each number with its bar."""
    gpu = bars([day.gpu_hours for day in days], "gpu")
    cost = bars([day.cost_usd for day in days], "cost")
    return [
        {"day": day, "date": f"{day.start:%Y-%m-%d}", "gpu": gpu[place], "cost": cost[place]}
        for place, day in reversed(list(enumerate(days)))
    ]
