"""The page of the catalogue of models: where each is, its prices and limits; forms to sync and to remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.models import SyncBody
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.web.forms import fields
from control_plane.server.web.forms.fields import Unfit, read_body
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.boards.boards import histories, proposed
from control_plane.server.web.pages.form_actions import carried_out
from events.answers.kinds.models import SyncedModels
from events.runtime.errors import Rejected, Transient


class SyncForm(fields.Form):
    """The address of a listing of models, as it was typed."""

    url: str = ""


def router(site: Site) -> APIRouter:
    """Return the routes of the page."""
    routes = APIRouter(include_in_schema=False)
    catalogue = site.deps.catalogue

    async def page(
        wanted: Page,
        *,
        form: SyncForm | None = None,
        problems: Sequence[str] = (),
        synced: SyncedModels | None = None,
        code: int = 200,
    ) -> HTMLResponse:
        found = await catalogue.page(wanted.limit, wanted.after)
        return await site.show(
            "models.html",
            code,
            page=found,
            form=form or SyncForm(),
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

    @routes.post("/models/{model_id}/remove")
    async def remove(model_id: str, _: MaySteer) -> Response:
        return await carried_out(site, catalogue.remove(model_id), "/models")

    return routes
