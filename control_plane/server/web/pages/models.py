"""The page of the catalogue of models: each with its prices, limits and last scores; forms to change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from control_plane.reads.reading import RunFilters
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.models import SyncBody
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.web.forms import fields
from control_plane.server.web.forms.fields import Unfit, read_body, typed_texts
from control_plane.server.web.forms.model import ModelForm
from control_plane.server.web.page_renderer import QUICK, Site
from control_plane.server.web.pages.boards.boards import histories, proposed
from control_plane.server.web.pages.form_actions import carried_out, see
from events.answers.kinds.models import SyncedModels
from events.answers.runs import RunRow
from events.formatting import result
from events.kinds.kind import Kind
from events.kinds.results import is_measured
from events.lifecycle import Status
from events.runtime.errors import Rejected, Transient

RUNS_LOOKED_AT: Final = 20  # the newest of a model


@dataclass(frozen=True, slots=True)
class Score:
    """A headline number in words, and the run that said it."""

    name: str
    words: str
    run_id: str


class SyncForm(fields.Form):
    """The address of a listing of models, as it was typed."""

    url: str = ""


async def scores_of(site: Site, names: Sequence[str]) -> Mapping[str, Sequence[Score]]:
    """Return the headline numbers of each model that the newest whole run of a kind with models said."""
    found: dict[str, list[Score]] = {}
    for kind in QUICK:
        models = "" if kind.quick is None else kind.quick.models
        labels = [label for label, field in kind.labels.items() if field == models]
        for name in names if labels else ():
            past = await site.deps.reading.runs(RunFilters(label=f"{labels[0]}={name}"), RUNS_LOOKED_AT)
            of_kind = [each for each in past.items if each.kind == kind.name]
            found.setdefault(name, []).extend(_newest(of_kind, kind))
    return found


def _newest(runs: Sequence[RunRow], kind: Kind) -> list[Score]:
    """Return of each headline number that more is better of its newest value, of runs that completed."""
    scores: dict[str, Score] = {}
    for run in runs:
        summary = run.summary if isinstance(run.summary, Mapping) else {}
        for column in kind.headline if run.status == Status.COMPLETED else ():
            value = summary.get(column.name)
            if column.direction == "higher" and is_measured(value):
                scores.setdefault(column.name, Score(column.name, result(value, column.format), run.id))
    return list(scores.values())


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = Routes(include_in_schema=False)
    catalogue = site.deps.catalogue

    async def page(
        wanted: Page,
        *,
        form: SyncForm | None = None,
        problems: Sequence[str] = (),
        synced: SyncedModels | None = None,
        model: ModelForm | None = None,
        code: int = 200,
    ) -> HTMLResponse:
        found = await catalogue.page(wanted.limit, wanted.after)
        return await site.show(
            "models.html",
            code,
            page=found,
            scores=await scores_of(site, [each.id for each in found.items]),
            form=form or SyncForm(),
            model=model or ModelForm(),
            problems=problems,
            synced=synced,
            proposed=proposed(),
            histories=histories(),
        )

    @routes.get("/models")
    async def all_of_them(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await page(wanted)

    @routes.post("/models/sync")
    async def sync(principal: MaySteer, form: Annotated[SyncForm, Form()]) -> Response:
        try:
            body = read_body(SyncBody, {"url": form.url.strip()})
            synced = await catalogue.sync(body.url, by=principal.name)
        except Unfit as unfit:
            return await page(Page(), form=form, problems=unfit.problems, code=422)
        except (Rejected, Transient) as error:
            return await page(Page(), form=form, problems=[error.message], code=status_of(error))
        return await page(Page(), synced=synced)

    @routes.get("/models/{model_id}/edit")
    async def edit(model_id: str, _: MaySteer) -> HTMLResponse:
        return await page(Page(), model=ModelForm.of(await catalogue.find(model_id)))

    @routes.post("/models")
    async def put(principal: MaySteer, request: Request) -> Response:
        form = ModelForm.model_validate(await typed_texts(request))
        try:
            body = form.body()
            await catalogue.set(body.name, body.stored(), by=principal.name)
        except Unfit as unfit:
            return await page(Page(), model=form, problems=unfit.problems, code=422)
        except Rejected as error:
            return await page(Page(), model=form, problems=[error.message], code=status_of(error))
        return see(f"/models#m-{body.name}")

    @routes.post("/models/{model_id}/remove")
    async def remove(model_id: str, _: MaySteer) -> Response:
        return await carried_out(site, catalogue.remove(model_id), "/models")

    return routes
