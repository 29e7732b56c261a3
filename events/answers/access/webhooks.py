"""Webhooks and their deliveries as the HTTP interface shows them: without URLs and secrets."""

from __future__ import annotations

from events.answers.answer import Answer, Count, Moment


class WebhookFilters(Answer, frozen=True, kw_only=True):
    """What a webhook is told of; an empty list takes all. `labels` are like `team=vision`."""

    types: list[str]
    projects: list[str]
    kinds: list[str]
    labels: list[str]
    owners: list[str]


class Webhook(Answer, frozen=True, kw_only=True):
    """A subscription: what is told, and at which server; `place` is the URL without its path.

    Until `previous_until` the secret before the last rotation signs, too. `disabled_why` says who or what
    ended it.
    """

    id: str
    format: str
    place: str
    filters: WebhookFilters
    enabled: bool
    disabled_why: str | None
    previous_until: Moment | None
    created_by: str
    created_at: Moment
    updated_at: Moment


class MadeWebhook(Answer, frozen=True, kw_only=True):
    """A webhook, and the secret that it signs with from now on: it is shown only once.

    It is null where nothing is signed, as for chats and mail.
    """

    webhook: Webhook
    secret: str | None

    def __repr__(self) -> str:
        return f"MadeWebhook({self.webhook.id})"


class WebhookDelivery(Answer, frozen=True, kw_only=True):
    """Something that is sent to a webhook: `state` is `pending`, `delivered` or `dead`.

    `last_status` is what the receiver answered to the last of `tries`, 0 without an answer. The next try is
    due at `due_at`.
    """

    id: str
    webhook_id: str
    type: str
    subject: str
    state: str
    tries: Count
    due_at: Moment | None
    last_status: Count | None
    last_problem: str | None
    last_at: Moment | None
    created_at: Moment
    body: str


class Replayed(Answer, frozen=True, kw_only=True):
    """How many deliveries are sent again."""

    count: Count
