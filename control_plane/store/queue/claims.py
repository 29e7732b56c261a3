"""Claims for pods without a database of their own: executes the statements of `events.queue.claims`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES, collections
from events.queue import claims, pod_checks, roster
from events.queue.claims import Claim, Orders
from events.queue.fair.shares import FLEET, Shares
from events.queue.lease_times import LEASE_TTL_S
from events.queue.looks import BATCH, Looks, classes_of, heads_pinned_to
from events.queue.matching import Seeker, WaitingClass
from events.queue.settlement import End
from events.runtime.errors import Conflict, Transient
from events.text.key_text import RunToken

log = logging.getLogger(__name__)

_IN_FLIGHT: Final = "an earlier claim with this token took a run: ask for that"


@dataclass(frozen=True, slots=True)
class Claims:
    """The queue for the holders of tokens. Raises `Conflict` if the lease is lost, and `Transient`."""

    db: Database
    ttl_s: float = LEASE_TTL_S
    looks: Looks = field(default_factory=Looks)
    known: Shares = field(default_factory=Shares)

    async def waiting(self, collections: Sequence[str], pod: str | None = None) -> list[WaitingClass]:
        """List the waiting classes in the order of `collections`, with those of a pod's pins."""
        found = []
        async with answers():
            for name in collections:
                cursor = await self.db[name].aggregate(self.looks.whole(name, pod), batchSize=BATCH)
                seen = classes_of(name, await cursor.to_list())
                self.looks.note(name, seen)
                found += seen
        return found

    async def whole(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        """List the classes that wait in the queues of a pod, and remember which of them it serves."""
        found = await self.waiting(collections(seeker.mode), seeker.abilities.pod)
        self.looks.remember(seeker, found, now_s)
        return found

    async def beside(
        self, shared: Sequence[WaitingClass], seeker: Seeker, now_s: float
    ) -> list[WaitingClass]:
        """Add a pod's pins to a look of others at all queues, and remember what of both it serves."""
        found = [*shared, *await self.pinned(collections(seeker.mode), seeker.abilities.pod)]
        self.looks.remember(seeker, found, now_s)
        return found

    async def pinned(self, collections: Sequence[str], pod: str | None) -> list[WaitingClass]:
        """List the waiting classes that are pinned to a pod."""
        found = []
        async with answers():
            for name in collections if pod is not None else ():
                cursor = await self.db[name].aggregate(heads_pinned_to(str(pod)), batchSize=BATCH)
                found += classes_of(name, await cursor.to_list())
        return found

    async def narrow(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        """List the waiting classes among those that a pod served a moment ago."""
        found = []
        async with answers():
            for name, pipeline in self.looks.narrow(seeker, now_s):
                cursor = await self.db[name].aggregate(pipeline, batchSize=BATCH)
                found += classes_of(name, await cursor.to_list())
        return found

    async def shares(self, now_s: float) -> Shares:
        """Return the shares of projects, read at most once a second."""
        if not self.known.is_fresh(now_s):
            async with answers():
                self.known.read(await self.db.shares.find_one({"_id": FLEET}), now_s)
        return self.known

    async def take(self, wanted: WaitingClass, *, token: str, pod: str, key_id: str | None) -> Claim | None:
        """Take the head of a class for a pod; None when it is empty by now."""
        async with answers():
            try:
                document = await self.db[wanted.collection].find_one_and_update(
                    claims.waiting_in(wanted, pod),
                    claims.taking(token, pod, self.ttl_s, key_id=key_id),
                    sort=claims.CLAIM_ORDER,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError as error:
                raise Transient("claim_in_flight", _IN_FLIGHT) from error
            if document is None:
                return None
            claim = await self._claimed(wanted.collection, document, token)
            elsewhere = [name for name in QUEUES if name != wanted.collection]
            is_second = [
                await self.db[name].find_one(claims.claimed_with(token), {"_id": 1}) for name in elsewhere
            ]
        if any(is_second):  # the unique index guards one queue: of two claims at once each may have taken one
            held = RunToken(claim.run_id, claim.attempt, token)
            await self.settle(
                held, End("preempted", "claimed_twice", "its pod has another run"), 0, jitter=0.0
            )
            raise Transient("claim_in_flight", _IN_FLIGHT)
        return claim

    async def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find the run that a claim with this token holds; a write, so that the answer is a majority's."""
        async with answers():
            for name in collections:
                document = await self.db[name].find_one_and_update(
                    claims.claimed_with(token),
                    claims.extension(self.ttl_s),
                    return_document=ReturnDocument.AFTER,
                )
                if document is not None:
                    return await self._claimed(name, document, token)
        return None

    async def renew(self, held: RunToken) -> Orders:
        """Extend a lease by a whole term from the store's now."""
        for name in QUEUES:
            async with answers():
                document = await self.db[name].find_one_and_update(
                    claims.held(*held),
                    claims.extension(self.ttl_s),
                    projection=claims.ORDERS,
                    return_document=ReturnDocument.AFTER,
                )
            if document is not None:
                return claims.orders_of(document, extended_s=self.ttl_s)
        raise _lost(held)

    async def settle(
        self, held: RunToken, how: End, last: int, *, jitter: float, root: str | None = None
    ) -> None:
        """Decide the end by compare-and-set; a run that moved meanwhile is read again."""
        own = claims.owned(*held)
        for _ in range(claims.SETTLE_TRIES_MAX):
            async with answers():
                found = [(name, run) for name in QUEUES if (run := await self.db[name].find_one(own))]
                if not found:
                    raise _lost(held)
                ((name, run),) = found
                if run["settled"] is not None:
                    return
                decided = claims.settling(run, how, last, jitter=jitter, root=root)
                result = await self.db[name].update_one({**own, "revision": run["revision"]}, decided)
                if result.matched_count:
                    return
        raise Transient("contended", f"run {held.run_id} is changing concurrently; settle it again")

    @answers()
    async def reporter_of(self, pod_id: str) -> Document | None:
        """Return with which key a pod has reported, and its GPUs; None where it never did."""
        return await self.db.pods.find_one({"_id": pod_id}, {"keyId": 1, "capabilities.gpus.name": 1})

    @answers()
    async def failing_pods(self, now: datetime) -> list[Document]:
        """Return the checks of pods that report a failing one now, the latest first."""
        wanted, fields = pod_checks.failing(now)
        found = self.db.pods.find(wanted, fields).sort("reportedAt", -1)
        return await found.limit(pod_checks.PODS_MAX).to_list()

    @answers()
    async def report(
        self, pod_id: str, fields: Mapping[str, Any], started_at: datetime, *, key_id: str | None
    ) -> Document | None:
        """Write a pod's line of the roster; None where it belongs to another key."""
        try:
            document = await self.db.pods.find_one_and_update(
                {"_id": pod_id, "keyId": key_id},
                roster.line(fields, started_at, key_id=key_id),
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None
        assert document is not None, "an upsert answers with its document"
        hour, update = roster.sample(pod_id, document["reportedAt"], fields["telemetry"])
        try:
            await self.db.pod_telemetry.update_one(hour, update, upsert=True)
        except PyMongoError as error:  # a sample may be lost; what the fleet wants of the pod may not
            log.warning("pod.sample_dropped", extra={"why": str(error)})
        return document

    async def _claimed(self, collection: str, document: Document, token: str) -> Claim:
        stored = await self.db.run_specs.find_one({"_id": document["_id"]})
        return claims.claim_of(document, stored, collection=collection, token=token, lease_s=self.ttl_s)


def _lost(held: RunToken) -> Conflict:
    return Conflict(
        "lease_lost", f"attempt {held.attempt} of run {held.run_id} belongs to another pod, or is over"
    )
