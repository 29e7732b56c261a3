"""The page of a new run: its kind is chosen, then its specification is filled in, checked and submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.runs.submission import Submission, checked, order_of
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.runs import MaySubmit
from control_plane.server.web.forms.fields import Unfit
from control_plane.server.web.forms.run import RunForm
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import see
from events.answers.runs import CheckedRun
from events.kinds import KINDS, RUN_KINDS, kind_of
from events.runtime.errors import Conflict, Rejected

PATH: Final = "/runs/new"
PRESSED_MAX: Final = 26

Name = Annotated[str | None, Query(max_length=200)]


@dataclass(frozen=True, slots=True)
class NewRunPages:
    """The page to choose a kind, and the form of a run of it."""

    site: Site

    async def choice(self) -> HTMLResponse:
        return await self.site.show("new_run.html", kinds=_kinds(), form=None)

    async def one(
        self,
        form: RunForm,
        *,
        problems: Mapping[str, str] | None = None,
        code: int = 200,
        found: CheckedRun | None = None,
    ) -> HTMLResponse:
        """Show a form with the typed texts, and with its problems or the run that it would queue."""
        return await self.site.show(
            "new_run.html",
            code,
            kinds=_kinds(),
            form=form,
            parts=form.shown(problems or {}),
            problems=problems or {},
            found=found,
            pressed=self.site.deps.submitter.ids.ulid(),
        )

    async def order(self, typed: Mapping[str, str], by: str) -> Response:
        """Check the form and show what it would queue, or queue the run and redirect to its page."""
        form = RunForm(kind_of(typed.get("kind", ""), among=RUN_KINDS), typed)
        try:
            wanted = Submission(**form.body().model_dump(), by=by, named_by=by)
            order = await order_of(wanted)
            # what is measured is confirmed before it is queued, and again after a change of the words
            if typed.get("do") == "check" or order.measures != typed.get("confirmed", ""):
                return await self.one(form, found=await checked(wanted))
            # one page makes one run of what it says, however often its button is pressed
            key = f"new/{typed.get('pressed', '')[:PRESSED_MAX]}/{order.digest}"
            made = await self.site.deps.submitter.submit(replace(wanted, idempotency_key=key))
        except Unfit as unfit:
            return await self.one(form, problems=unfit.fields, code=422)
        except (Rejected, Conflict) as error:
            return await self.one(form, problems={"": error.message}, code=status_of(error))
        return see(f"/runs/{quote(made.run_id, safe='')}")


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = APIRouter(include_in_schema=False)
    pages = NewRunPages(site)

    @routes.get(PATH)
    async def new(_: MaySubmit, kind: Name = None) -> HTMLResponse:
        if not kind:
            return await pages.choice()
        return await pages.one(RunForm(kind_of(kind, among=RUN_KINDS), {}))

    @routes.post(PATH)
    async def submit(principal: MaySubmit, request: Request) -> Response:
        typed = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        return await pages.order(typed, principal.name)

    return routes


def _kinds() -> list[Any]:
    return [KINDS[name] for name in sorted(RUN_KINDS)]
