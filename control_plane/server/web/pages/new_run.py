"""The page of a new run: its kind is chosen, then its specification is filled in, checked and submitted.

It says what the run would cost, where it could start, and which command or request would do the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from control_plane.runs.explainer import placement
from control_plane.runs.submission import Submission, checked, order_of
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MaySubmit
from control_plane.server.web.forms.commands import cli_command, curl_command, submission_like, submission_of
from control_plane.server.web.forms.fields import Unfit, typed_texts
from control_plane.server.web.forms.parts import options_in
from control_plane.server.web.forms.run import RunForm
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import see
from events.answers.runs import CheckedRun
from events.kinds import KINDS, RUN_KINDS, kind_of
from events.kinds.kind import Kind
from events.queue.requirements import class_key, read_requirements
from events.runtime.errors import Conflict, Rejected

PATH: Final = "/runs/new"
PRESSED_MAX: Final = 26
MODELS_SUGGESTED: Final = 200
DATA_SETS_READ: Final = 200  # versions, of which the newest of each name is shown
DATA_SETS_SHOWN: Final = 50

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
        where, cost = await asyncio.gather(self._where(form), self._cost(form))
        quick = form.kind.quick
        return await self.site.show(
            "new_run.html",
            code,
            models=await self._models(form.kind) if quick is not None and quick.models else [],
            data_sets=await self._data_sets() if form.kind.has_inputs else [],
            kinds=_kinds(),
            form=form,
            parts=form.shown(problems or {}),
            problems=problems or {},
            found=found,
            where=where,
            cost=cost,
            commands=_commands(form),
            pressed=self.site.deps.submitter.ids.ulid(),
        )

    async def like(self, run_id: str) -> HTMLResponse:
        """Show a form that is filled in as a run was, with its present options. Raises `NotFound`."""
        run = await self.site.deps.reading.run(run_id, lambda _: ())
        return await self.one(RunForm.like(kind_of(run.kind, among=RUN_KINDS), submission_like(run)))

    async def _models(self, kind: Kind) -> list[str]:
        """Return names of models to choose from: that of the example, then those of the catalogue."""
        assert kind.quick is not None
        named = (await self.site.deps.catalogue.page(MODELS_SUGGESTED, None)).items
        return [*dict.fromkeys([str(kind.example[kind.quick.models]), *(each.id for each in named)])]

    async def _data_sets(self) -> list[str]:
        """Return the newest versions of data sets that a run could read."""
        found: dict[str, str] = {}
        for each in (await self.site.deps.tree_store.versions(None, DATA_SETS_READ, None)).items:
            found.setdefault(each.name, each.id)
        return [*found.values()][:DATA_SETS_SHOWN]

    async def look(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """Return the problem of the field that was typed last, where the run could start, and its commands.

        One whose `part` is set is not all that was typed, and no command.
        """
        form = RunForm(kind_of(typed.get("kind", ""), among=RUN_KINDS), typed)
        is_part = bool(typed.get("part"))
        commands = None if is_part else _commands(form)
        problem = form.problem_of(typed.get("at", ""))
        cost = None if is_part else await self._cost(form)
        return {"problem": problem, "where": await self._where(form), "commands": commands, "cost": cost}

    async def _where(self, form: RunForm) -> str:
        """Return in a sentence where the run could start; empty while its requirements are no ones."""
        try:
            requires = read_requirements(options_in(form.typed).requires)
        except (Unfit, Rejected):
            return ""
        found = await placement(self.site.deps.reading, class_key(form.kind.name, requires))
        return found.words

    async def _cost(self, form: RunForm) -> str:
        """Return in a sentence what the run would take; what is no run yet, as runs of its kind did."""
        estimates = self.site.deps.estimates
        try:
            found = await estimates.of(Submission(**form.body().model_dump(), by=""))
        except (Unfit, Rejected):
            found = await estimates.of_kind(form.kind.name)
        return found.words

    async def order(self, typed: Mapping[str, str], by: str) -> Response:
        """Check the form and show what it would queue, or queue the run and redirect to its page."""
        form = RunForm(kind_of(typed.get("kind", ""), among=RUN_KINDS), typed, "quick" in typed)
        try:
            wanted = Submission(**form.body().model_dump(), by=by, named_by=by)
            order = await order_of(wanted)
            await self.site.deps.submitter.require_permitted(order)
            await self.site.deps.submitter.has_to_wait(wanted.after)
            # what is measured is confirmed before it is queued, and again after a change of the words
            if typed.get("do") == "check" or order.measures != typed.get("confirmed", ""):
                exact = await self.site.deps.submitter.exact(wanted)
                return await self.one(form, found=await checked(exact))
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
    routes = Routes(include_in_schema=False)
    pages = NewRunPages(site)

    @routes.get(PATH)
    async def new(_: MaySubmit, kind: Name = None, like: Name = None, quick: bool = False) -> HTMLResponse:
        if like:
            return await pages.like(like)
        if not kind:
            return await pages.choice()
        wanted = kind_of(kind, among=RUN_KINDS)
        return await pages.one(RunForm.quick(wanted) if quick else RunForm(wanted, {}))

    @routes.get(f"{PATH}/look")
    async def look(_: MaySubmit, request: Request) -> JSONResponse:
        return JSONResponse(await pages.look(dict(request.query_params)))

    @routes.post(PATH)
    async def submit(principal: MaySubmit, request: Request) -> Response:
        return await pages.order(await typed_texts(request), principal.name)

    return routes


def _commands(form: RunForm) -> dict[str, str] | None:
    """Return how else to submit what the form says; None while it says no run."""
    try:
        body = form.body()
    except Unfit:
        return None
    sent = submission_of(body)
    return {"cli": cli_command(sent), "curl": curl_command(sent)}


def _kinds() -> list[Any]:
    return [KINDS[name] for name in sorted(RUN_KINDS)]
