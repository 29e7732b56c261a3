"""The page of a run: its state, the possible actions, and its sections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from fastapi.responses import HTMLResponse

from control_plane.runs.explainer import explanation
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.sections import RunPage, sections
from events.answers.kind_parts import in_json
from events.answers.runs import Reason, Run
from events.kinds import RUN_KINDS, stages_of
from events.lifecycle import FINAL, HELD, INITIAL, Cause, Illegal, Status, next_status

NUMBERS_DRAWN: Final = 1_000  # a page that stays current is made again and again


async def run_page(site: Site, run_id: str) -> HTMLResponse:
    """Show the complete page of a run. Raises `NotFound`."""
    live, reading = site.live(f"run/{run_id}"), site.deps.reading
    found, visible, numbers, is_keyless = await asyncio.gather(
        reading.run(run_id),
        reading.visible_artifacts([run_id]),
        reading.measured(run_id, NUMBERS_DRAWN),
        site.deps.authenticator.is_open(),
    )
    pace, why, shown = await asyncio.gather(
        reading.pace(found),
        _reasons(site, found),
        sections(RunPage(site.deps, found, visible[run_id], numbers)),
    )
    status = Status(found.status)
    return await site.show(
        "run.html",
        live=live,
        run=in_json(found),
        sections=shown,
        parts=[each.name for each in found.sections],
        pace=pace,
        why=why,
        can_cancel=status not in FINAL and status != Status.CANCELING,
        can_rescue=_allows(status, Cause.RESCUE),
        can_revise=_allows(status, Cause.REVISE),
        can_retry=status in FINAL and found.kind in RUN_KINDS,
        can_change=_allows(status, Cause.CHANGE),
        can_copy=found.kind in RUN_KINDS,
        pressed=site.deps.ids.ulid(),
        can_pause=_allows(status, Cause.PAUSE) and not found.paused,
        can_resume=_allows(status, Cause.RESUME) and found.paused,
        stages=stages_of(found.kind),
        is_held=status in HELD,
        is_over=status in FINAL,
        is_keyless=is_keyless,
    )


async def _reasons(site: Site, run: Run) -> Sequence[Reason]:
    """Return why a run waits; nothing if it has begun."""
    if Status(run.status) not in INITIAL:
        return ()
    return (await explanation(site.deps.reading, run.id)).reasons


def _allows(status: Status, cause: Cause) -> bool:
    return not isinstance(next_status(status, cause), Illegal)
