"""The first tab of a run: what it is, how it stands, what it cost, and what can be done now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import HTMLResponse

from control_plane.model.presentation import plain
from control_plane.runs.explainer import explanation
from control_plane.server.web.drawing.figures import papers as papers_of
from control_plane.server.web.drawing.timeline import timeline
from control_plane.server.web.forms.changes import parts_with
from control_plane.server.web.forms.commands import submission_like
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.run_pages.frame import framed
from control_plane.server.web.run_pages.headline import headline
from control_plane.server.web.run_pages.tabs import OVERVIEW
from events.answers.artifacts import Artifact
from events.answers.runs import Reason, Run
from events.kinds import RUN_KINDS, stages_of
from events.lifecycle import FINAL, HELD, INITIAL, Cause, Illegal, Status, next_status
from events.queue.requirements import read_class

READS: Final = ("attempts", "stages", "usage", "notes", "measures", "successors")


async def overview(site: Site, run_id: str) -> HTMLResponse:
    """Show the first tab of a run. Raises `NotFound`."""
    frame = await framed(site, run_id, OVERVIEW, *READS)
    run, reading = frame.run, site.deps.reading
    pace, why, parent, papers, is_keyless = await asyncio.gather(
        reading.pace(run),
        _reasons(site, run),
        _parent(site, run),
        _papers(site, run) if any(each.name == "paper" for each in frame.tabs) else _none(),
        site.deps.authenticator.is_open(),
    )
    status = Status(run.status)
    can_retry = status in FINAL and run.kind in RUN_KINDS
    return await frame.show(
        "run/overview.html",
        pace=pace,
        why=why,
        papers=papers,
        headline=headline(run.summary or {}, plain(parent.get("summary"))),
        timeline=timeline(run.stages, run.attempts, reading.clock.now()),
        can_cancel=status not in FINAL and status != Status.CANCELING,
        can_rescue=_allows(status, Cause.RESCUE),
        can_retry=can_retry,
        can_delete=can_retry,
        again_parts=parts_with(submission_like(run)) if can_retry else (),
        can_change=_allows(status, Cause.CHANGE),
        can_copy=run.kind in RUN_KINDS,
        pressed=site.deps.ids.ulid(),
        can_pause=_allows(status, Cause.PAUSE) and not run.paused,
        can_resume=_allows(status, Cause.RESUME) and run.paused,
        stages=stages_of(run.kind),
        is_held=status in HELD,
        is_keyless=is_keyless,
        project=read_class(run.class_key).project,
    )


def can_revise(run: Run) -> bool:
    """Say whether a person's verdict on a run can be changed."""
    return _allows(Status(run.status), Cause.REVISE)


async def _reasons(site: Site, run: Run) -> Sequence[Reason]:
    """Return why a run waits; nothing if it has begun."""
    if Status(run.status) not in INITIAL:
        return ()
    return (await explanation(site.deps.reading, run.id)).reasons


async def _parent(site: Site, run: Run) -> Mapping[str, Any]:
    """Return the run that this one repeats, as it is stored; nothing where there is no summary to compare."""
    if run.parent_run_id is None or not run.summary:
        return {}
    found = await site.deps.reading.run_reads.of_ids([run.parent_run_id])
    return found[0] if found else {}


async def _papers(site: Site, run: Run) -> Sequence[Artifact]:
    """Return the papers of a run, the latest attempt's of each name."""
    return papers_of((await site.deps.reading.visible_artifacts([run.id]))[run.id])


async def _none() -> Sequence[Artifact]:
    return ()


def _allows(status: Status, cause: Cause) -> bool:
    return not isinstance(next_status(status, cause), Illegal)
