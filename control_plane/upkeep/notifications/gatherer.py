"""Makes deliveries of what happened: any number of replicas may do so at once, and each is made once.

Law: a delivery's id follows from its webhook and from what happened, and deliveries are stored before the
cursor moves. A replica that dies in between, or comes second, makes what is there already. Each look goes
back behind the cursor, because a write may become visible after a later one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.views.readable import those_readable
from control_plane.store.access.usage_levels import UsageLevels
from control_plane.store.database import Document
from control_plane.store.log.deliveries import PENDING, Deliveries
from control_plane.store.log.notification_sources import BATCH_MAX, NotificationSources
from control_plane.store.log.webhooks import Webhooks
from control_plane.store.queue.pod_rules import RuleStore
from control_plane.upkeep.notifications.notification import (
    Notification,
    of_end,
    of_group,
    of_level,
    of_quarantines,
    of_review,
    of_schedule,
)
from control_plane.upkeep.notifications.subscription import WEBHOOKS_MAX, Subscription, subscription_in
from events.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_S: Final = 2.0
BACK: Final = timedelta(seconds=10)  # so far each look goes back; writes take less
FAR_BACK: Final = timedelta(minutes=5)  # one look a minute, for a write that a fail-over held up
FAR_EVERY_S: Final = 60.0
ROUNDS_MAX: Final = 20  # batches of one look; the next one goes on where it ended
KEPT: Final = timedelta(days=30)  # dead letters, and what waits for a receiver
DELIVERIES_MAX: Final = 20_000  # of one webhook; the oldest go
MESSAGE_CHARS: Final = 32

_Read = Callable[[datetime, datetime], Awaitable[list[Document]]]
_Made = Callable[[Sequence[Document]], Awaitable[list[Notification]]]


@dataclass(slots=True)
class Gatherer:
    """Looks at what happened, by the store's clock alone."""

    sources: NotificationSources
    rules: RuleStore
    levels: UsageLevels
    webhooks: Webhooks
    deliveries: Deliveries
    clock: Clock
    site: str  # the address of the pages, for links
    _far_s: float | None = None

    async def run_once(self) -> int:
        """Do one round; return how many deliveries are new."""
        stored = [each for each in await self.webhooks.all(WEBHOOKS_MAX) if each.get("enabled")]
        wanted = those_readable("webhook", stored, subscription_in)
        if not wanted:
            return 0
        now, cursor = await self.sources.now(), await self.sources.cursor() or {"revision": 0}
        earliest = min(each.since for each in wanted)
        begun = max(cursor.get("since", earliest), earliest)
        is_far = self._far_s is None or self.clock.monotonic_s() - self._far_s >= FAR_EVERY_S
        since = begun - (FAR_BACK if is_far else BACK)
        quarantines = of_quarantines((await self.rules.quarantines())[1], self.site)
        made = await self._store(quarantines, wanted, now)
        until = now
        for read, field, notify in self._kinds():
            count, reached = await self._gather(read, field, notify, since, now, wanted)
            made, until = made + count, min(until, reached)
        await self.sources.move(cursor["revision"], until)
        if is_far:
            self._far_s = self.clock.monotonic_s()
            await self._trim(wanted, now)
        return made

    def _kinds(self) -> Iterable[tuple[_Read, str, _Made]]:
        """Return what is read, the moment by which it is ordered, and what makes notifications of it."""
        return (
            (self.sources.ended, "finishedAt", self._of_ends),
            (self.sources.completed_attempts, "endedAt", self._of_reviews),
            (self.sources.closed_groups, "updatedAt", self._of_groups),
            (self.sources.failed_schedules, "updatedAt", self._of_schedules),
            (self.levels.moved, "updatedAt", self._of_levels),
        )

    async def _gather(
        self,
        read: _Read,
        field: str,
        notify: _Made,
        since: datetime,
        now: datetime,
        wanted: list[Subscription],
    ) -> tuple[int, datetime]:
        """Read all that happened in a time, in batches; return how many are new, and how far it came."""
        made = 0
        for _ in range(ROUNDS_MAX):
            found = await read(since, now)
            made += await self._store(await notify(found), wanted, now)
            if len(found) < BATCH_MAX:
                return made, now
            last: datetime = found[-1][field]
            # what else happened in that very moment comes again with the next batch
            since = last if last > since else last + timedelta(milliseconds=1)
        return made, since

    async def _of_ends(self, runs: Sequence[Document]) -> list[Notification]:
        owners = await self._owners(runs)
        return _those("run", runs, lambda run: of_end(run, owners.get(run["_id"]), self.site))

    async def _of_reviews(self, attempts: Sequence[Document]) -> list[Notification]:
        ended = {str(each["runId"]): each["endedAt"] for each in attempts}
        runs = await self.sources.awaiting_review([*ended]) if ended else []
        owners = await self._owners(runs)
        return _those(
            "run", runs, lambda run: of_review(run, ended[run["_id"]], owners.get(run["_id"]), self.site)
        )

    async def _of_groups(self, groups: Sequence[Document]) -> list[Notification]:
        found = those_readable("group", groups, lambda group: of_group(group, self.site))
        return [each for several in found for each in several]

    async def _of_schedules(self, schedules: Sequence[Document]) -> list[Notification]:
        return _those("schedule", schedules, lambda each: of_schedule(each, self.site))

    async def _of_levels(self, levels: Sequence[Document]) -> list[Notification]:
        found = those_readable("usage level", levels, lambda each: of_level(each, self.site))
        return [each for several in found for each in several]

    async def _owners(self, runs: Sequence[Document]) -> dict[str, str]:
        """Return who submitted these runs: by their journals, where the log does not have it yet."""
        if not runs:
            return {}
        first = {each["_id"]: line for each in runs for line in each.get("journal") or () if line["n"] == 1}
        told = await self.sources.submitters([each["_id"] for each in runs])
        found = {run_id: line.get("by") for run_id, line in first.items()} | told
        return {run_id: by for run_id, by in found.items() if isinstance(by, str)}

    async def _store(
        self, told: Sequence[Notification], wanted: Sequence[Subscription], now: datetime
    ) -> int:
        documents = {
            message_id(each.id, one.key): (each, one) for one in told for each in wanted if each.wants(one)
        }
        missing = [*documents.keys() - await self.deliveries.known([*documents])] if documents else []
        if not missing:
            return 0
        bodies: dict[str, str] = {}
        for id_ in missing:
            one = documents[id_][1]
            bodies.setdefault(one.key, one.body())
        return await self.deliveries.add(
            [delivery(id_, documents[id_][0].id, documents[id_][1], bodies[documents[id_][1].key], now)
             for id_ in missing]
        )  # fmt: skip

    async def _trim(self, wanted: Sequence[Subscription], now: datetime) -> None:
        for each in wanted:
            # what the next far look makes again stays, or it would be told twice
            gone = await self.deliveries.trim(each.id, DELIVERIES_MAX, now - 3 * FAR_BACK)
            if gone:
                log.warning("deliveries.removed", extra={"webhook": each.id, "count": gone})


def message_id(webhook_id: str, key: str) -> str:
    """Return the id of a delivery, which is the same however often it is made."""
    return "msg_" + hashlib.sha256(f"{webhook_id}\n{key}".encode()).hexdigest()[:MESSAGE_CHARS]


def delivery(id_: str, webhook_id: str, told: Notification, body: str, now: datetime) -> Document:
    """Return a new delivery as it is stored: it is due at once."""
    return {
        "_id": id_,
        "webhookId": webhook_id,
        "type": told.type,
        "subject": told.subject,
        "body": body,
        "state": PENDING,
        "tries": 0,
        "dueAt": now,
        "lastStatus": None,
        "lastProblem": None,
        "lastAt": None,
        "createdAt": now,
        "expiresAt": now + KEPT,
    }


def _those(
    what: str, found: Sequence[Document], made: Callable[[Mapping[str, Any]], Notification | None]
) -> list[Notification]:
    return [each for each in those_readable(what, found, made) if each is not None]
