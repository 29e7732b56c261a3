"""The pages of hypotheses: the list, one with its ideas and runs, and their forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.kinds.ideation.forms import LaunchForm, ProposalForm
from control_plane.kinds.ideation.proposing import NewHypothesis, Proposer, WantedLaunch
from control_plane.kinds.ideation.reads import HypothesisReads
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit, Page
from control_plane.server.web.forms.fields import FormWithParts, Unfit, typed_texts
from control_plane.server.web.forms.parts import Input, Part, option_parts, shown
from control_plane.server.web.page_renderer import NOT_LIVE, Live, Site, topics_of
from control_plane.server.web.pages.form_actions import carried_out, see
from events.runtime.errors import Conflict, Rejected

IDEAS_SHOWN: Final = 100  # nobody asks for so many


@dataclass(frozen=True, slots=True)
class HypothesisPages:
    """The pages, with the reads and templates that they need."""

    site: Site
    reads: HypothesisReads

    async def all(
        self,
        wanted: Page | None = None,
        *,
        form: ProposalForm | None = None,
        unfit: Unfit | None = None,
        code: int = 422,
        measures: str = "",
    ) -> HTMLResponse:
        """Show the hypotheses and the form of a new one, with its problems, or what it would measure."""
        wanted, form = wanted or Page(), form or ProposalForm()
        # a page that is looked at again comes without what was typed
        live = NOT_LIVE if unfit or measures else self.site.live("hypotheses")
        page = await self.reads.page(wanted.limit, wanted.after)
        return await self.site.show(
            "ideation/hypotheses.html",
            code if unfit else 200,
            live=live,
            page=page,
            form=form,
            pressed=self.site.deps.ids.ulid(),
            parts=_parts(form, unfit),
            problems=unfit.problems if unfit else (),
            measures=measures,
        )

    async def one(
        self,
        hypothesis_id: str,
        *,
        form: LaunchForm | None = None,
        unfit: Unfit | None = None,
        code: int = 422,
        measures: str = "",
    ) -> HTMLResponse:
        """Show a hypothesis with its ideas and runs; `code` is the answer's status if `form` is invalid.

        `measures` is what its run would measure, to be confirmed.
        """
        since = self.site.live().since
        found = await self.reads.one(hypothesis_id)
        requests = [found.ideation.request_id] if found.ideation else []
        topics = (
            f"hypothesis/{hypothesis_id}",
            *(f"run/{each}" for each in requests),
            *topics_of(found.runs),
        )
        index = found.idea_index
        form = form or LaunchForm(idea_index="" if index is None else str(index))
        ideas, unfinished = found.ideas[:IDEAS_SHOWN], found.unfinished_ideas[:IDEAS_SHOWN]
        return await self.site.show(
            "ideation/hypothesis.html",
            code if unfit else 200,
            live=NOT_LIVE if unfit or measures else Live(topics, since),
            hypothesis=msgspec.structs.replace(found, ideas=ideas, unfinished_ideas=unfinished),
            more_ideas=len(found.ideas) - len(ideas) + len(found.unfinished_ideas) - len(unfinished),
            form=form,
            pressed=self.site.deps.ids.ulid(),
            parts=_parts(form, unfit),
            problems=unfit.problems if unfit else (),
            measures=measures,
        )


def _parts(form: FormWithParts, unfit: Unfit | None) -> list[tuple[Part, list[Input]]]:
    """Return the options of a run as the form shows them."""
    return shown(option_parts(), form.typed, unfit.fields if unfit else {})


def router(site: Site, reads: HypothesisReads, proposer: Proposer) -> APIRouter:
    """Return the routes of the pages and forms."""
    routes = Routes(include_in_schema=False)
    pages = HypothesisPages(site, reads)

    @routes.get("/hypotheses")
    async def hypotheses(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await pages.all(wanted)

    @routes.get("/hypotheses/{hypothesis_id}")
    async def hypothesis(hypothesis_id: str, _: MayRead) -> HTMLResponse:
        return await pages.one(hypothesis_id)

    @routes.post("/hypotheses")
    async def propose(principal: MaySubmit, request: Request) -> Response:
        form = ProposalForm.read(await typed_texts(request))
        try:
            wanted = NewHypothesis(**form.body().model_dump(), by=principal.name, pressed=form.pressed)
            measures = await proposer.measures(wanted)
            if measures != form.confirmed:
                return await pages.all(form=form, measures=measures)
            hypothesis_id, _ = await proposer.propose(wanted)
        except Unfit as unfit:
            return await pages.all(form=form, unfit=unfit)
        except Rejected as error:
            return await pages.all(form=form, unfit=Unfit([error.message]), code=status_of(error))
        return see(f"/hypotheses/{hypothesis_id}")

    @routes.post("/hypotheses/{hypothesis_id}/runs")
    async def launch(hypothesis_id: str, principal: MaySubmit, request: Request) -> Response:
        form = LaunchForm.read(await typed_texts(request))
        try:
            body = form.body().model_dump()
            wanted = WantedLaunch(
                **body, hypothesis_id=hypothesis_id, by=principal.name, pressed=form.pressed
            )
            measures = await proposer.launch_measures(wanted)
            if measures != form.confirmed:
                return await pages.one(hypothesis_id, form=form, measures=measures)
            submitted = await proposer.launch(wanted)
        except Unfit as unfit:
            return await pages.one(hypothesis_id, form=form, unfit=unfit)
        except (Rejected, Conflict) as error:
            code = status_of(error)
            return await pages.one(hypothesis_id, form=form, unfit=Unfit([error.message]), code=code)
        return see(f"/runs/{submitted.run_id}")

    @routes.post("/hypotheses/{hypothesis_id}/cancel")
    async def cancel(hypothesis_id: str, principal: MaySubmit) -> Response:
        back = f"/hypotheses/{quote(hypothesis_id, safe='')}"
        ideation = (await reads.one(hypothesis_id)).ideation
        if ideation is None:
            return await site.problem(409, "This hypothesis looks for no ideas.", back=back)
        order = site.deps.decider.cancel(ideation.request_id, by=f"user:{principal.name}")
        return await carried_out(site, order, back)

    return routes
