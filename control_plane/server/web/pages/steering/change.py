"""The page that changes the options of a run while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MaySubmit
from control_plane.server.web.forms.changes import changes_in
from control_plane.server.web.forms.commands import submission_like
from control_plane.server.web.forms.fields import Unfit, typed_texts, whole
from control_plane.server.web.forms.parts import KEPT, option_parts, shown, typed_as
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import see
from events.answers.runs import Run
from events.lifecycle import INITIAL
from events.runtime.errors import Conflict, Rejected


@dataclass(frozen=True, slots=True)
class ChangePages:
    """The form with the present options of a run, and what is typed into it."""

    site: Site

    async def form(
        self,
        run_id: str,
        typed: Mapping[str, str] | None = None,
        problems: Mapping[str, str] | None = None,
        code: int = 200,
    ) -> HTMLResponse:
        """Show the options of a run that waits, or those that were typed with their problems."""
        run, options = await self._present(run_id)
        if run.status not in INITIAL:
            detail = f"The run is {run.status}; its options can be changed only while it waits."
            return await self.site.problem(409, detail, back=_run(run_id))
        parts = option_parts(KEPT)
        texts = {**typed_as(parts, options), "seen": str(run.revision)} if typed is None else typed
        return await self.site.show(
            "change_run.html",
            code,
            run={"id": run_id, "title": run.title, "status": run.status},
            parts=shown(parts, texts, problems or {}),
            problems=problems or {},
            seen=texts.get("seen", ""),
        )

    async def change(self, run_id: str, typed: Mapping[str, str], by: str) -> Response:
        """Give a run the typed options, if it is still as it was shown."""
        _, options = await self._present(run_id)
        try:
            changes = changes_in(typed, options)
            seen = whole(typed.get("seen", ""))
            if not isinstance(seen, int):
                raise Unfit(["The page is too old"], {"": "the form does not say which revision it shows"})
            await self.site.deps.decider.change(run_id, changes, by=f"user:{by}", revision=seen)
        except Unfit as unfit:
            return await self.form(run_id, typed, unfit.fields, 422)
        except (Rejected, Conflict) as error:
            return await self.form(run_id, typed, {"": error.message}, status_of(error))
        return see(_run(run_id))

    async def _present(self, run_id: str) -> tuple[Run, dict[str, Any]]:
        """Return a run, and its options by name. Raises `NotFound`."""
        run = await self.site.deps.reading.run(run_id, lambda _: ())
        start = {} if run.not_before is None else {"not_before": run.not_before}
        return run, {**submission_like(run), **start}


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = Routes(include_in_schema=False)
    pages = ChangePages(site)

    @routes.get("/runs/{run_id}/change")
    async def form(run_id: str, _: MaySubmit) -> HTMLResponse:
        return await pages.form(run_id)

    @routes.post("/runs/{run_id}/change")
    async def change(run_id: str, principal: MaySubmit, request: Request) -> Response:
        return await pages.change(run_id, await typed_texts(request), principal.name)

    return routes


def _run(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"
