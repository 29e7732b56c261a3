"""Claims runs for pods over HTTP; a request may wait for a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from control_plane.access.auth import Forbidden
from control_plane.concurrency.cache import Cache
from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from control_plane.live.notifier import Notifier
from control_plane.model.views.pods import cards_of
from control_plane.model.views.readable import reading_of
from control_plane.reads.pod_rules import PodRules
from control_plane.runs.shared_look import SharedLook
from control_plane.store.changes import Change
from control_plane.store.queue.claims import Claims
from events.kinds.declaring.queues import QUEUES
from events.queue.claims import Claim
from events.queue.matching import Named, Seeker, WaitingClass, candidates, cards_held, is_open
from events.queue.pod_checks import suspects
from events.queue.requirements import read_class
from events.queue.roster import report_every_s, resets_due
from events.runtime.clock import Clock, Ids

Json = dict[str, Any]

LOOK_AGAIN_S: Final = 2.0  # at most, and jittered: a notification may be lost
WAIT_MAX_S: Final = 30.0
NO_CLASS: Final = Named(frozenset())  # what a pod seeks that may claim nothing
# Of one sender, a key at an address: a pod asks once in some seconds.
BURST: Final = 2_000
EVERY_S: Final = 0.005
# A line of the roster stays: what one key may add to it in a day is bounded.
NEW_PODS_BURST: Final = 1_000
NEW_POD_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Claimer:
    """Claims runs over HTTP for pods that have a key."""

    claims: Claims
    rules: PodRules
    notifier: Notifier
    new_pods: RateLimit
    clock: Clock
    ids: Ids
    failing: Cache[list[Json]]
    shared: SharedLook = field(default_factory=SharedLook)

    async def claim(
        self,
        seeker: Seeker,
        *,
        token: str,
        key_id: str | None,
        wait_s: float,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> Claim | None:
        """Claim the first run that the pod can serve; wait up to `wait_s` for one.

        Nothing is taken for a pod that `is_gone`, or that the rules bar; a process that leaves lets nobody
        wait. Raises `Forbidden`, `Transient`.
        """
        cards = await self._require_own(seeker.pod, key_id)
        seeker = replace(seeker, abilities=replace(seeker.abilities, cards=cards))

        async def take(waiting: Sequence[WaitingClass]) -> Claim | None:
            if not waiting:
                return None
            shares = await self.claims.shares(self.clock.monotonic_s())
            for wanted in candidates(waiting, seeker, shares):
                if await is_gone():
                    return None
                if not is_open(wanted.class_key, shares, cards):
                    continue  # another request has what was free
                project, held = read_class(wanted.class_key).project, cards_held(wanted.class_key, cards)
                noted = shares.note(project, held, self.clock.monotonic_s())
                claim = await self.claims.take(wanted, token=token, pod=seeker.pod, key_id=key_id)
                if claim is not None:
                    return claim
                shares.forget(noted)
            return None

        until_s = self.clock.monotonic_s() + wait_s
        with self.notifier.waiting(NO_CLASS, key_id) as waiter:  # it would hear what others could take
            while await self._is_barred(seeker, key_id):
                left_s = until_s - self.clock.monotonic_s()
                if waiter is None or left_s <= 0 or self.notifier.is_closed or await is_gone():
                    return None
                await waiter.wait(min(left_s, LOOK_AGAIN_S))
        change: Change | None = None
        with self.notifier.waiting(seeker, key_id) as waiter:
            while True:
                known = [] if change is None else change.waiting
                claim = await take(known or await self.claims.narrow(seeker, self.clock.monotonic_s()))
                if claim is None and not known:
                    claim = await take(await self._whole(seeker, is_told=waiter is not None and wait_s > 0))
                if claim is not None:
                    return claim
                if known:
                    change = None  # another pod was faster: there may be more
                    continue
                left_s = until_s - self.clock.monotonic_s()
                if waiter is None or left_s <= 0:
                    return None
                change = await waiter.wait(min(left_s, LOOK_AGAIN_S * (0.5 + self.ids.fraction() / 2)))
                if self.notifier.is_closed:
                    return None
                if await is_gone() or await self._is_barred(seeker, key_id):
                    self._pass_on(change)
                    return None

    async def hear(
        self,
        sought: Named,
        *,
        key_id: str | None,
        wait_s: float,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> list[WaitingClass] | None:
        """Return which of these classes a run waits in, as soon as one may, None after `wait_s` without.

        The list is empty where a run may wait and its class is not known. A notification that reaches a pod
        that `is_gone` is passed on to the next one.
        """
        with self.notifier.waiting(sought, key_id) as waiter:
            shares = await self.claims.shares(self.clock.monotonic_s())
            if waiter is None:
                waiting = await self.claims.waiting(QUEUES, sought.pod)
            else:
                waiting = [*await self._shared(), *await self.claims.pinned(QUEUES, sought.pod)]
            # what is closed would wake a pod again and again, in vain
            if found := [
                each
                for each in waiting
                if sought.serves(each.collection, each.class_key) and is_open(each.class_key, shares, 0)
            ]:
                return found
            change = None if waiter is None else await waiter.wait(wait_s)
        if change is None:
            return None
        if await is_gone():
            self._pass_on(change)
            return None
        return change.waiting

    async def _whole(self, seeker: Seeker, *, is_told: bool) -> list[WaitingClass]:
        """List what waits for a pod: by a look that those share who are told of runs from before it on."""
        if not is_told:
            return await self.claims.whole(seeker, self.clock.monotonic_s())
        return await self.claims.beside(await self._shared(), seeker, self.clock.monotonic_s())

    async def _shared(self) -> list[WaitingClass]:
        now_s = self.clock.monotonic_s()
        return await self.shared.get(self.notifier.heard, now_s, lambda: self.claims.waiting(QUEUES))

    async def report(self, line: Json, *, key_id: str | None) -> Json:
        """Write a pod's entry in the roster; return the orders for the pod, and the store's now.

        Raises `Forbidden`, `RateLimited`.
        """
        fields = {name: value for name, value in line.items() if name not in ("id", "startedAt")}
        pod_id, started_at = line["id"], line["startedAt"]
        is_new = key_id is not None and await self.claims.reporter_of(pod_id) is None
        if is_new and (wait_s := self.new_pods.wait_s(str(key_id))):
            raise RateLimited("too many new pods report with this key", wait_s)
        document = await self.claims.report(pod_id, fields, started_at, key_id=key_id)
        if document is None:
            raise _foreign(pod_id)
        rules = await self.rules.in_force()
        with reading_of("pod", pod_id):
            orders = rules.orders(pod_id, key_id, document)
            told = {"reportEveryS": report_every_s(document), "resets": resets_due(document)}
        return {**orders, **told, "now": document["reportedAt"]}

    async def suspects(self, pod_id: str) -> tuple[str, ...]:
        """Return the names of checks that other live pods report as failing."""
        failing = await self.failing.get("pods", lambda: self.claims.failing_pods(self.clock.now()))
        return suspects(failing, of=pod_id)

    def _pass_on(self, change: Change | None) -> None:
        """Notify the next pod, if this one disconnected."""
        if change is not None:
            self.notifier.hear(change)

    async def _is_barred(self, seeker: Seeker, key_id: str | None) -> bool:
        return (await self.rules.in_force()).bar(seeker.pod, key_id)

    async def _require_own(self, pod_id: str, key_id: str | None) -> int:
        """Return how many GPUs a pod has told. Raises `Forbidden` where another key reports it."""
        found = await self.claims.reporter_of(pod_id)
        if found is None:
            return 0
        if found.get("keyId") != key_id:
            raise _foreign(pod_id)
        return cards_of(found)


def _foreign(pod_id: str) -> Forbidden:
    return Forbidden("foreign_pod", f"pod {pod_id} reports with another key")
