"""Webhooks as people make, change, test and remove them, and replay what was not delivered.

Law: a secret is returned once, when it is made.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from control_plane.access.secrets.encryption import Cipher
from control_plane.model.views.readable import reading_of
from control_plane.store.database import Document
from control_plane.store.log.deliveries import Deliveries
from control_plane.store.log.webhooks import Webhooks
from control_plane.upkeep.notifications.gatherer import KEPT, delivery, message_id
from control_plane.upkeep.notifications.notification import of_test
from control_plane.upkeep.notifications.signing import new_secret
from control_plane.upkeep.notifications.subscription import (
    FILTERS,
    WEBHOOKS_MAX,
    fault_of_target,
    place_of,
)
from control_plane.upkeep.notifications.target import Target, opened, sealed
from events.runtime.clock import Clock, Ids
from events.runtime.egress_policy import EgressPolicy
from events.runtime.errors import Conflict, NotFound, Rejected, Transient

OVERLAP: Final = timedelta(days=1)  # in which both secrets sign after a rotation
TRIES_MAX: Final = 20
SIGNED: Final = frozenset({"standard", "plain"})  # chats and mail look at no signature


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedWebhook:
    """A webhook as its author wants it; the filters by their names in `FILTERS`."""

    url: str = field(repr=False)
    format: str
    filters: Mapping[str, Sequence[str]]
    by: str


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Changes webhooks. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    webhooks: Webhooks
    deliveries: Deliveries
    cipher: Cipher
    egress: EgressPolicy
    clock: Clock
    ids: Ids

    async def create(self, wanted: WantedWebhook) -> tuple[Document, str | None]:
        """Store a new webhook; return it, and the secret that it signs with, where it signs."""
        self._require_target(wanted.url, wanted.format)
        if not await self.webhooks.has_room(WEBHOOKS_MAX):
            raise Conflict(
                "too_many_webhooks", f"there are {WEBHOOKS_MAX} webhooks already; remove one first"
            )
        secret = self._secret() if wanted.format in SIGNED else None
        id_, now = self.ids.ulid(), self.clock.now()
        target = Target(wanted.url, (secret,) if secret else ())
        document: Document = {
            "_id": id_,
            "format": wanted.format,
            "place": place_of(wanted.url),
            **sealed(self.cipher, id_, target),
            "previousUntil": None,
            "filters": {name: list(wanted.filters.get(name) or ()) for name in FILTERS},
            "enabled": True,
            "disabledWhy": None,
            "since": now,
            "createdBy": wanted.by,
            "createdAt": now,
            "updatedAt": now,
            "revision": 1,
        }
        await self.webhooks.add(document)
        return document, secret

    async def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        filters: Mapping[str, Sequence[str]] | None = None,
        enabled: bool | None = None,
        by: str = "",
    ) -> Document:
        """Change what is given; what was missed while it was disabled is not told later."""
        for _ in range(TRIES_MAX):
            webhook, now = await self._find(webhook_id), self.clock.now()
            fields: Document = {"updatedAt": now}
            if url is not None:
                self._require_target(url, webhook["format"])
                target = Target(url, opened(self.cipher, webhook).secrets)
                fields |= {"place": place_of(url), **sealed(self.cipher, webhook_id, target)}
            if filters is not None:
                fields["filters"] = {
                    **webhook["filters"],
                    **{name: list(each) for name, each in filters.items()},
                }
            if enabled is not None and enabled != webhook["enabled"]:
                fields |= {"enabled": enabled, "disabledWhy": None if enabled else f"by {by}"}
                fields |= {"since": now} if enabled else {}
            if (changed := await self.webhooks.change(webhook, fields)) is not None:
                return changed
        raise _contended(webhook_id)

    async def rotate(self, webhook_id: str) -> tuple[Document, str]:
        """Sign with a new secret, and for `OVERLAP` with the former one, too; return the new one."""
        for _ in range(TRIES_MAX):
            webhook, now = await self._find(webhook_id), self.clock.now()
            if webhook["format"] not in SIGNED:
                raise Rejected("unsigned_format", f"a webhook of format {webhook['format']} signs nothing")
            target, secret = opened(self.cipher, webhook), self._secret()
            renewed = sealed(self.cipher, webhook_id, Target(target.url, (secret, *target.secrets[:1])))
            fields = {**renewed, "previousUntil": now + OVERLAP, "updatedAt": now}
            if (changed := await self.webhooks.change(webhook, fields)) is not None:
                return changed, secret
        raise _contended(webhook_id)

    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook, and everything that was to be sent to it."""
        if not await self.webhooks.remove(webhook_id):
            raise _unknown(webhook_id)
        await self.deliveries.remove_all(webhook_id)

    async def test(self, webhook_id: str, by: str) -> Document:
        """Have a test delivered; return its delivery."""
        webhook, now = await self._find(webhook_id), self.clock.now()
        if not webhook["enabled"]:
            raise Conflict("webhook_disabled", f"webhook {webhook_id} is disabled: enable it first")
        told = of_test(webhook_id, f"test/{self.ids.ulid()}", now, by)
        made = delivery(message_id(webhook_id, told.key), webhook_id, told, told.body(), now)
        await self.deliveries.add([made])
        return made

    async def replay(self, webhook_id: str, delivery_id: str | None) -> int:
        """Have one delivery sent again that has ended, or all dead letters; return how many."""
        await self._find(webhook_id)
        if delivery_id is not None:
            found = await self.deliveries.find(delivery_id)
            if found is None or found["webhookId"] != webhook_id:
                raise NotFound("unknown_delivery", f"webhook {webhook_id} has no delivery {delivery_id}")
        now = self.clock.now()
        return await self.deliveries.replay(
            webhook_id, delivery_id, {"dueAt": now, "expiresAt": now + KEPT, "lastProblem": None}
        )

    async def reseal(self) -> tuple[int, list[str]]:
        """Encrypt with the current key what has an older one; return how many, and what cannot be read."""
        current, count = self.cipher.current, 0
        unreadable: list[str] = []
        for webhook in await self.webhooks.all(WEBHOOKS_MAX):
            if webhook["keyId"] == current:
                continue
            try:
                fields = sealed(self.cipher, webhook["_id"], opened(self.cipher, webhook))
            except Conflict:
                unreadable.append(f"webhook/{webhook['_id']}")
                continue
            count += await self.webhooks.change(webhook, fields) is not None
        return count, unreadable

    def _require_target(self, url: str, form: str) -> None:
        if fault := fault_of_target(url, form, self.egress):
            raise Rejected("bad_target", fault)

    def _secret(self) -> str:
        return new_secret(base64.urlsafe_b64decode(self.ids.token() + "="))

    async def _find(self, webhook_id: str) -> Mapping[str, Any]:
        webhook = await self.webhooks.find(webhook_id)
        if webhook is None:
            raise _unknown(webhook_id)
        with reading_of("webhook", webhook_id):
            for name in ("format", "filters", "enabled", "revision", "keyId", "sealed"):
                _ = webhook[name]
        return webhook


def _unknown(webhook_id: str) -> NotFound:
    return NotFound("unknown_webhook", f"there is no webhook {webhook_id[:100]}")


def _contended(webhook_id: str) -> Transient:
    return Transient("contended", f"webhook {webhook_id} is changing concurrently; try again")
