"""The pages of webhooks: who is told of what, and how the deliveries went, with a button to replay them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, Response

from control_plane.server.api.access.webhooks import (
    NewWebhook,
    State,
    WebhookId,
    found,
    listed,
    listed_deliveries,
    wanted_webhook,
)
from control_plane.server.api.contract.problems import status_of
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.web.forms import fields
from control_plane.server.web.forms.fields import Unfit, read_body
from control_plane.server.web.page_renderer import Site
from control_plane.server.web.pages.form_actions import carried_out, refused
from control_plane.upkeep.notifications.notification import TYPES
from control_plane.upkeep.notifications.service import WantedWebhook
from control_plane.upkeep.notifications.subscription import FILTERS, FORMATS
from events.runtime.errors import Conflict, Rejected


class WebhookForm(fields.Form):
    """A webhook to add; the filters are lists with commas. Its URL is not shown again."""

    url: str = ""
    format: str = "standard"
    types: str = ""
    projects: str = ""
    kinds: str = ""
    labels: str = ""
    owners: str = ""

    def wanted(self, by: str) -> WantedWebhook:
        """Return the webhook. Raises `Unfit`."""
        lists = {
            name: [each.strip() for each in getattr(self, name).split(",") if each.strip()]
            for name in FILTERS
        }
        body = read_body(NewWebhook, {"url": self.url.strip(), "format": self.format, **lists})
        return wanted_webhook(body, by)


class ReplayForm(fields.Form):
    """The delivery to send again; without one all dead letters."""

    delivery: str = ""


class EnabledForm(fields.Form):
    """Whether a webhook is to be sent anything."""

    enabled: str = ""


def router(site: Site) -> APIRouter:
    """Return the routes of the pages."""
    routes = Routes(include_in_schema=False)
    service = site.deps.webhooks

    @routes.get("/webhooks")
    async def all_of_them(_: MayRead, wanted: Annotated[Page, Query()]) -> HTMLResponse:
        return await _list(site, wanted)

    @routes.post("/webhooks")
    async def add(principal: MaySteer, form: Annotated[WebhookForm, Form()]) -> Response:
        try:
            made, secret = await service.create(form.wanted(principal.name))
        except Unfit as unfit:
            return await _list(site, Page(), form, unfit.problems, 422)
        except (Rejected, Conflict) as error:
            return await _list(site, Page(), form, [error.message], status_of(error))
        return await _one(site, made["_id"], Page(), secret=secret)

    @routes.get("/webhooks/{webhook_id}")
    async def one(
        webhook_id: WebhookId, _: MayRead, wanted: Annotated[Page, Query()], state: State = None
    ) -> HTMLResponse:
        return await _one(site, webhook_id, wanted, state)

    @routes.post("/webhooks/{webhook_id}/replay")
    async def replay(webhook_id: WebhookId, _: MaySteer, form: Annotated[ReplayForm, Form()]) -> Response:
        return await carried_out(site, service.replay(webhook_id, form.delivery or None), _place(webhook_id))

    @routes.post("/webhooks/{webhook_id}/test")
    async def test(webhook_id: WebhookId, principal: MaySteer) -> Response:
        return await carried_out(site, service.test(webhook_id, principal.name), _place(webhook_id))

    @routes.post("/webhooks/{webhook_id}/enable")
    async def enable(
        webhook_id: WebhookId, principal: MaySteer, form: Annotated[EnabledForm, Form()]
    ) -> Response:
        order = service.change(webhook_id, enabled=form.enabled == "yes", by=principal.name)
        return await carried_out(site, order, _place(webhook_id))

    @routes.post("/webhooks/{webhook_id}/rotate")
    async def rotate(webhook_id: WebhookId, _: MaySteer) -> Response:
        try:
            secret = (await service.rotate(webhook_id))[1]
        except (Rejected, Conflict) as error:
            return await refused(site, error, _place(webhook_id))
        return await _one(site, webhook_id, Page(), secret=secret)

    @routes.post("/webhooks/{webhook_id}/remove")
    async def remove(webhook_id: WebhookId, _: MaySteer) -> Response:
        return await carried_out(site, service.remove(webhook_id), "/webhooks")

    return routes


async def _list(
    site: Site, wanted: Page, form: WebhookForm | None = None, problems: Sequence[str] = (), code: int = 200
) -> HTMLResponse:
    return await site.show(
        "webhooks.html",
        code,
        page=await listed(site.deps, wanted),
        has_key=site.deps.webhooks.cipher.first is not None,
        sends_mail=site.deps.settings.mail is not None,
        formats=FORMATS,
        types=TYPES,
        form=form or WebhookForm(),
        problems=problems,
    )


async def _one(
    site: Site, webhook_id: str, wanted: Page, state: str | None = None, secret: str | None = None
) -> HTMLResponse:
    webhook = await found(site.deps, webhook_id)
    sent = await listed_deliveries(site.deps, webhook_id, wanted, state)
    return await site.show("webhook.html", webhook=webhook, page=sent, state=state, secret=secret)


def _place(webhook_id: str) -> str:
    return f"/webhooks/{quote(webhook_id, safe='')}"
