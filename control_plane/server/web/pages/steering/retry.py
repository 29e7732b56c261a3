"""The form that runs a finished run again, with other options where some are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from control_plane.runs.options import OptionChanges
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MaySubmit
from control_plane.server.web.forms.changes import changes_in
from control_plane.server.web.forms.commands import submission_like
from control_plane.server.web.forms.fields import Unfit, typed_texts
from control_plane.server.web.forms.parts import KEPT, option_parts, shown
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import refused, see
from events.answers.runs import Run
from events.kinds import stages_of
from events.runtime.errors import Conflict, Rejected

Stage = Annotated[str, Form(max_length=20_000)]
Pressed = Annotated[str, Form(pattern="^[0-9A-Z]{0,26}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What was typed to run a run again; `pressed` names the page whose button was pressed."""

    from_stage: str
    pressed: str
    typed: Mapping[str, str]


def router(site: Site) -> APIRouter:
    """Return the route of the form."""
    routes = Routes(include_in_schema=False)

    @routes.post("/runs/{run_id}/retry")
    async def retry(
        run_id: str, principal: MaySubmit, request: Request, from_stage: Stage = "", pressed: Pressed = ""
    ) -> Response:
        run = await site.deps.reading.run(run_id, lambda _: ())
        again = Again(from_stage=from_stage, pressed=pressed, typed=await typed_texts(request))
        try:
            return await _queued(site, run, again, principal.name)
        except Unfit as unfit:
            return await _asked(site, run, again, unfit.fields, 422)
        except Conflict as error:
            return await refused(site, error, _path(run_id))
        except Rejected as error:
            return await _asked(site, run, again, {"": error.message}, status_of(error))

    return routes


async def _queued(site: Site, run: Run, again: Again, by: str) -> Response:
    """Queue the retry, and show its page. Raises `Unfit`, `Rejected`, `Conflict`."""
    changes = changes_in(again.typed, submission_like(run))
    made = await site.deps.submitter.retry(
        run.id,
        by=by,
        from_stage=again.from_stage or None,
        changes=changes,
        key=_key(run.id, again, changes),
        named_by=by,
    )
    return see(_path(made.run_id))


async def _asked(site: Site, run: Run, again: Again, problems: Mapping[str, str], code: int) -> Response:
    """Show the form with what was typed, and its problems."""
    return await site.show(
        "retry.html",
        code,
        run={"id": run.id, "title": run.title, "status": run.status},
        stages=stages_of(run.kind),
        from_stage=again.from_stage,
        pressed=again.pressed,
        parts=shown(option_parts(KEPT), again.typed, problems),
        problems=problems,
    )


def _key(run_id: str, again: Again, changes: OptionChanges) -> str | None:
    """Return the name of a choice: one page makes one run of it, however often its button is pressed."""
    if not again.pressed:
        return None
    key = f"again/{run_id}/{again.from_stage}/{again.pressed}"
    given = msgspec.json.encode(changes.given, order="deterministic") if changes.given else None
    return key if given is None else f"{key}/{sha256(given).hexdigest()}"


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"
