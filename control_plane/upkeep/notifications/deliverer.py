"""Sends deliveries: those of one webhook one after the other, all webhooks side by side.

Law: a receiver gets each at least once, with the same id and the same bytes at every try. A slow one delays
its own deliveries and no others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from control_plane.access.secrets.encryption import Cipher
from control_plane.concurrency.loops import end
from control_plane.model.views.readable import reading_of
from control_plane.store.database import Document
from control_plane.store.log.deliveries import DEAD, DELIVERED, PENDING, Deliveries
from control_plane.store.log.webhooks import Webhooks
from control_plane.upkeep.notifications.retrying import Again, Answer, Done, GivenUp, outcome
from control_plane.upkeep.notifications.signing import headers
from control_plane.upkeep.notifications.subscription import MAIL, WEBHOOKS_MAX
from control_plane.upkeep.notifications.target import Target, opened
from control_plane.upkeep.notifications.wording import subject_of, text_of, worded
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Conflict, Transient

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
LEASE: Final = timedelta(seconds=60)  # more than a try takes: after it another replica tries
TURN_MAX: Final = 20  # deliveries, until the webhook is read again
DELIVERED_KEPT: Final = timedelta(days=7)
GONE: Final = "the receiver answered 410: it wants no more"


class Posts(Protocol):
    """Posts to receivers."""

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Send a body; return how that ended."""
        ...


class Mails(Protocol):
    """Sends mail."""

    async def send(self, to: str, message_id: str, subject: str, text: str) -> Answer:
        """Send a mail; return how that ended."""
        ...


@dataclass(slots=True)
class Deliverer:
    """Sends what is due. Several replicas may run it at once: each try is claimed."""

    webhooks: Webhooks
    deliveries: Deliveries
    cipher: Cipher
    posts: Posts
    mails: Mails
    clock: Clock
    ids: Ids
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run_once(self) -> int:
        """Begin with every webhook with which nothing is under way; return with how many."""
        begun = 0
        for each in await self.webhooks.all(WEBHOOKS_MAX):
            if not each.get("enabled") or each["_id"] in self._busy:
                continue
            self._busy[each["_id"]] = asyncio.create_task(self._serve(each))
            begun += 1
        return begun

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def close(self) -> None:
        """End what is under way; it is tried again when its lease is over."""
        await end(self._busy.values())

    async def _serve(self, webhook: Document) -> None:
        try:
            for _ in range(TURN_MAX):
                delivery = await self.deliveries.claim(webhook["_id"], self.clock.now(), LEASE)
                if delivery is None or not await self._deliver(webhook, delivery):
                    return
        except Transient as error:
            log.warning("delivery.waits", extra={"webhook": webhook["_id"], "why": error.message})
        except Exception:  # of a task that nobody awaits: the others go on, and the lease brings it back
            log.exception("delivery.failed", extra={"webhook": webhook["_id"]})
        finally:
            self._busy.pop(webhook["_id"], None)

    async def _deliver(self, webhook: Document, delivery: Document) -> bool:
        """Try a delivery, and write how that ended; say whether to go on with the webhook."""
        try:
            with reading_of("delivery", delivery["_id"]):
                answer = await self._sent(webhook, opened(self.cipher, webhook), delivery)
        except Conflict as error:
            answer = Answer(0, error.message)
        now = self.clock.now()
        next_ = outcome(answer, delivery["tries"], self.ids.fraction())
        told = {"lastStatus": answer.status, "lastProblem": answer.problem, "lastAt": now}
        match next_:
            case Done():
                state: Document = {"state": DELIVERED, "dueAt": None, "expiresAt": now + DELIVERED_KEPT}
            case Again(wait_s=wait_s):
                state = {"state": PENDING, "dueAt": now + timedelta(seconds=wait_s)}
            case GivenUp():
                state = {"state": DEAD, "dueAt": None}
        await self.deliveries.finish(delivery, told | state)
        if not isinstance(next_, Done):
            why = {"webhook": webhook["_id"], "delivery": delivery["_id"], "why": answer.problem}
            log.warning("delivery.not_taken", extra={**why, "tries": delivery["tries"]})
        if isinstance(next_, GivenUp) and next_.is_gone:
            await self.webhooks.disable(webhook["_id"], webhook["revision"], GONE, now)
            return False
        return True

    async def _sent(self, webhook: Document, target: Target, delivery: Document) -> Answer:
        body: str = delivery["body"]
        if target.url.startswith(MAIL):
            address = target.url.removeprefix(MAIL)
            return await self.mails.send(address, delivery["_id"], subject_of(body), text_of(body))
        post, now = worded(webhook["format"], body), self.clock.now()
        secrets = in_force(target, webhook.get("previousUntil"), now)
        signed = headers(secrets, delivery["_id"], int(now.timestamp()), post.content) if secrets else {}
        fixed = {"content-type": post.content_type, "user-agent": "podfleet", "accept-encoding": "identity"}
        return await self.posts.post(target.url, {**fixed, **signed}, post.content)


def in_force(target: Target, previous_until: Any, now: datetime) -> tuple[str, ...]:
    """Return the secrets that sign now: the one before a rotation for a while besides."""
    is_rotating = isinstance(previous_until, datetime) and now < previous_until
    return target.secrets[: 2 if is_rotating else 1]
