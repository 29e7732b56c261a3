"""Webhooks over HTTP: made, changed, rotated, tested and removed by administrators; their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, Field, StringConstraints

from control_plane.model.views.readable import readable
from control_plane.reads import paging
from control_plane.reads.reading import listing, moment_key
from control_plane.server.api.contract.bodies import Body, ProjectName, ShortText, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.deps import Deps
from control_plane.upkeep.notifications.notification import TYPES
from control_plane.upkeep.notifications.service import WantedWebhook
from control_plane.upkeep.notifications.subscription import FILTERS, URL_CHARS_MAX, Format, is_label
from events.answers.access.webhooks import MadeWebhook, Replayed, Webhook, WebhookDelivery
from events.answers.answer import Listing
from events.runtime.errors import NotFound

LIST_MAX: Final = 20
FAMILIES: Final = tuple(dict.fromkeys(each.partition(".")[0] for each in TYPES))

WebhookId = Annotated[str, StringConstraints(min_length=1, max_length=100), Storable]
Url = Annotated[str, StringConstraints(min_length=1, max_length=URL_CHARS_MAX), Storable]
Word = Annotated[ShortText, Storable]


def _type(value: str) -> str:
    if value not in TYPES and value not in FAMILIES:
        raise ValueError(
            f"{value!r} is no type; the types are {', '.join(TYPES)}, or one of {', '.join(FAMILIES)}"
        )
    return value


def _label(value: str) -> str:
    if not is_label(value):
        raise ValueError("a label is like team=vision")
    return value


class FiltersBody(Body):
    """What a webhook is told of: each list that is not empty holds. `owners` are names of keys and people."""

    types: list[Annotated[Word, AfterValidator(_type)]] = Field(default_factory=list, max_length=LIST_MAX)
    projects: list[ProjectName] = Field(default_factory=list, max_length=LIST_MAX)
    kinds: list[Word] = Field(default_factory=list, max_length=LIST_MAX)
    labels: list[Annotated[Word, AfterValidator(_label)]] = Field(default_factory=list, max_length=LIST_MAX)
    owners: list[Word] = Field(default_factory=list, max_length=LIST_MAX)


class NewWebhook(FiltersBody):
    """A webhook to make; of a mail the URL is like mailto:name@host."""

    url: Url = Field(repr=False)
    format: Format = "standard"


class WebhookChanges(FiltersBody):
    """What shall be different; what is left out stays."""

    url: Url | None = Field(default=None, repr=False)
    enabled: bool | None = None


class ReplayBody(Body):
    """The delivery to send again; without one all dead letters."""

    delivery: Annotated[str, StringConstraints(min_length=1, max_length=100), Storable] | None = None


State = Annotated[Literal["pending", "delivered", "dead"] | None, Query()]


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/webhooks`."""
    routes = Routes(prefix="/api/webhooks", tags=["webhooks"])
    service = deps.webhooks

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[Webhook]:
        return await listed(deps, wanted)

    @routes.post("", status_code=201)
    async def create(body: NewWebhook, principal: MaySteer, response: Response) -> MadeWebhook:
        made, secret = await service.create(wanted_webhook(body, principal.name))
        response.headers["Location"] = f"/api/webhooks/{made['_id']}"
        return MadeWebhook(webhook=shown(made), secret=secret)

    @routes.get("/{webhook_id}")
    async def one(webhook_id: WebhookId, _: MayRead) -> Webhook:
        return await found(deps, webhook_id)

    @routes.patch("/{webhook_id}")
    async def change(webhook_id: WebhookId, body: WebhookChanges, principal: MaySteer) -> Webhook:
        given = body.model_dump(exclude_unset=True)
        filters: dict[str, list[str]] = {name: given[name] for name in FILTERS if name in given}
        changed = await service.change(
            webhook_id, url=body.url, filters=filters, enabled=body.enabled, by=principal.name
        )
        return shown(changed)

    @routes.delete("/{webhook_id}", status_code=204)
    async def remove(webhook_id: WebhookId, _: MaySteer) -> None:
        await service.remove(webhook_id)

    @routes.post("/{webhook_id}/rotate")
    async def rotate(webhook_id: WebhookId, _: MaySteer) -> MadeWebhook:
        changed, secret = await service.rotate(webhook_id)
        return MadeWebhook(webhook=shown(changed), secret=secret)

    @routes.post("/{webhook_id}/test", status_code=201)
    async def test(webhook_id: WebhookId, principal: MaySteer) -> WebhookDelivery:
        return shown_delivery(await service.test(webhook_id, principal.name))

    @routes.post("/{webhook_id}/replay")
    async def replay(webhook_id: WebhookId, body: ReplayBody, _: MaySteer) -> Replayed:
        return Replayed(count=await service.replay(webhook_id, body.delivery))

    @routes.get("/{webhook_id}/deliveries")
    async def deliveries(
        webhook_id: WebhookId, _: MayRead, wanted: Annotated[Page, Query()], state: State = None
    ) -> Listing[WebhookDelivery]:
        await found(deps, webhook_id)
        return await listed_deliveries(deps, webhook_id, wanted, state)

    return routes


def wanted_webhook(body: NewWebhook, by: str) -> WantedWebhook:
    """Return the webhook that a body says."""
    filters = {name: getattr(body, name) for name in FILTERS}
    return WantedWebhook(url=body.url, format=body.format, filters=filters, by=by)


async def found(deps: Deps, webhook_id: str) -> Webhook:
    """Return one webhook. Raises `NotFound`."""
    webhook = await deps.webhooks.webhooks.find(webhook_id)
    if webhook is None:
        raise NotFound("unknown_webhook", f"there is no webhook {webhook_id}")
    return shown(webhook)


async def listed(deps: Deps, wanted: Page) -> Listing[Webhook]:
    """Return a page of webhooks, newest first."""
    after = None if wanted.after is None else paging.decode("webhooks", wanted.after, str)
    return listing("webhooks", await deps.webhooks.webhooks.page(after, paging.limited(wanted.limit)), shown)


async def listed_deliveries(
    deps: Deps, webhook_id: str, wanted: Page, state: str | None
) -> Listing[WebhookDelivery]:
    """Return a page of the deliveries of a webhook, newest first."""
    name = "deliveries"
    after, limit = moment_key(name, wanted.after), paging.limited(wanted.limit)
    page = await deps.webhooks.deliveries.page(webhook_id, state, after, limit)
    return listing(name, page, shown_delivery)


def shown(webhook: Mapping[str, Any]) -> Webhook:
    """Return a stored webhook as an answer."""
    return readable(Webhook, "webhook", webhook)


def shown_delivery(delivery: Mapping[str, Any]) -> WebhookDelivery:
    """Return a stored delivery as an answer."""
    return readable(WebhookDelivery, "delivery", delivery)
