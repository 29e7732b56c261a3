"""Claims over HTTP that wait: those of pods that may claim nothing are bounded, and end with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from control_plane.concurrency.cache import Cache
from control_plane.concurrency.rate_limit import RateLimit
from control_plane.live import notifier as live
from control_plane.live.notifier import Notifier
from control_plane.runs import claiming, shared_look
from control_plane.runs.claiming import Claimer
from control_plane.store.changes import Change
from events.kinds.declaring.queues import QUEUES
from events.queue.abilities import Abilities
from events.queue.fair.shares import Shares
from events.queue.matching import Seeker, WaitingClass
from events.queue.rules import Rules
from events.runtime.clock import SystemClock, SystemIds

CORDON = {"reason": "it burns", "by": "vera", "since": None, "until": None}
SEEKER = Seeker("p/1", "hybrid", Abilities(frozenset({"probe"}), 0.0, None))


@dataclass
class Queue:
    """A queue in which a run waits, unless it is empty."""

    taken: int = 0
    is_empty: bool = False
    looks: int = 0
    pins: list[WaitingClass] = field(default_factory=list)

    async def reporter_of(self, pod_id: str) -> None:
        return None

    async def shares(self, now_s: float) -> Shares:
        return Shares()

    async def narrow(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        return []

    async def whole(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        return await self.waiting(QUEUES)

    async def waiting(self, collections: Sequence[str]) -> list[WaitingClass]:
        found = [] if self.is_empty else [WaitingClass("runs", "probe/cpu/any", 0)]
        self.looks += 1
        await asyncio.sleep(0)
        return found

    async def beside(
        self, shared: Sequence[WaitingClass], seeker: Seeker, now_s: float
    ) -> list[WaitingClass]:
        return [*shared, *self.pins]

    async def pinned(self, collections: Sequence[str], pod: str | None) -> list[WaitingClass]:
        return self.pins

    async def take(self, wanted: WaitingClass, **by: Any) -> Any:
        self.taken += 1
        return "a claim"


@dataclass
class Orders:
    """The rules in force."""

    rules: Rules

    async def in_force(self) -> Rules:
        return self.rules


async def stays() -> bool:
    return False


def claimer(queue: Queue, orders: Orders) -> Claimer:
    clock: Any = SystemClock()
    parts: Any = (queue, orders)
    return Claimer(*parts, Notifier(), RateLimit(clock, 1, 1.0), clock, SystemIds(), Cache(clock))


async def ask(asked: Claimer, wait_s: float = 600.0) -> Any:
    return await asked.claim(SEEKER, token="t", key_id="k", wait_s=wait_s, is_gone=stays)


async def looking(asked: Claimer, queue: Queue) -> asyncio.Task[Any]:
    """Return a claim that has begun its first look."""
    waits = await waiting(asked)
    while not queue.looks:
        await asyncio.sleep(0)
    return waits


async def waiting(asked: Claimer) -> asyncio.Task[Any]:
    waits = asyncio.create_task(ask(asked))
    while not len(asked.notifier):
        await asyncio.sleep(0)
    return waits


def test_a_cordoned_pod_waits_takes_nothing_and_claims_when_it_may(monkeypatch: Any) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 0.01)

    async def scenario() -> None:
        queue, orders = Queue(), Orders(Rules({"p": CORDON}))
        asked = claimer(queue, orders)
        assert (await ask(asked, wait_s=0.0), queue.taken) == (None, 0)
        waits = await waiting(asked)
        orders.rules = Rules()
        assert await asyncio.wait_for(waits, 60) == "a claim"

    asyncio.run(scenario())


def test_the_wait_of_a_cordoned_pod_ends_as_soon_as_the_process_is_to_leave() -> None:
    async def scenario() -> None:
        asked = claimer(Queue(), Orders(Rules({"p": CORDON})))
        waits = await waiting(asked)
        asked.notifier.close()
        assert await asyncio.wait_for(waits, 60) is None

    asyncio.run(scenario())


def test_cordoned_pods_of_one_key_wait_in_a_bounded_number(monkeypatch: Any) -> None:
    monkeypatch.setattr(live, "WAITING_OF_ONE_MAX", 1)

    async def scenario() -> None:
        asked = claimer(Queue(), Orders(Rules({"p": CORDON})))
        waits = await waiting(asked)
        assert await asyncio.wait_for(ask(asked), 60) is None
        assert not waits.done()
        asked.notifier.close()
        await waits

    asyncio.run(scenario())


def test_a_claim_that_waits_as_the_process_is_to_leave_takes_nothing() -> None:
    async def scenario() -> None:
        queue = Queue(is_empty=True)
        asked = claimer(queue, Orders(Rules()))
        waits = await looking(asked, queue)
        asked.notifier.close()
        queue.is_empty = False
        assert (await asyncio.wait_for(waits, 60), queue.taken) == (None, 0)

    asyncio.run(scenario())


def test_a_pod_that_is_cordoned_while_it_waits_takes_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 0.01)

    async def scenario() -> None:
        queue, orders = Queue(is_empty=True), Orders(Rules())
        asked = claimer(queue, orders)
        waits = await looking(asked, queue)
        orders.rules, queue.is_empty = Rules({"p": CORDON}), False
        assert (await asyncio.wait_for(waits, 60), queue.taken) == (None, 0)

    asyncio.run(scenario())


def test_pods_that_wait_share_a_look_until_a_run_is_heard_of(monkeypatch: Any) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(shared_look, "BELIEVED_S", 3600.0)

    async def scenario() -> None:
        queue = Queue(is_empty=True)
        asked = claimer(queue, Orders(Rules()))
        found = await asyncio.gather(*(ask(asked, wait_s=0.2) for _ in range(20)))
        assert (found, queue.looks) == ([None] * 20, 1)
        asked.notifier.hear(Change("1", "runs", "r", is_queued=True, class_key="other/cpu/any"))
        assert await ask(asked, wait_s=0.05) is None
        assert queue.looks == 2, "a run was heard of"
        assert [await ask(asked, wait_s=0.0) for _ in range(3)] == [None] * 3
        assert queue.looks == 5, "who does not wait is told of nothing, and looks for itself"
        queue.pins = [WaitingClass("runs", "probe/cpu/any", 0)]
        assert (await ask(asked, wait_s=0.05), queue.looks) == ("a claim", 5)

    asyncio.run(scenario())


def test_a_run_whose_notification_was_lost_is_found_when_the_shared_look_is_too_old(monkeypatch: Any) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(shared_look, "BELIEVED_S", 0.05)

    async def scenario() -> None:
        queue = Queue(is_empty=True)
        asked = claimer(queue, Orders(Rules()))
        waits = await looking(asked, queue)
        queue.is_empty = False
        assert await asyncio.wait_for(waits, 10) == "a claim"

    asyncio.run(scenario())


def test_a_look_that_began_before_a_run_was_heard_of_is_not_shared_behind_it() -> None:
    async def scenario() -> None:
        look, begun, go_on = shared_look.SharedLook(), asyncio.Event(), asyncio.Event()
        counts: list[int] = []

        async def read() -> list[WaitingClass]:
            counts.append(len(counts))
            begun.set()
            await go_on.wait()
            return [WaitingClass("runs", f"probe/{counts[-1]}/any", 0)]

        first = asyncio.create_task(look.get(0, 0.0, read))
        await begun.wait()
        second = asyncio.create_task(look.get(1, 0.0, read))
        await asyncio.sleep(0)
        go_on.set()
        assert [each.class_key for each in await second] == ["probe/1/any"]
        await first
        assert [each.class_key for each in await look.get(1, 0.5, read)] == ["probe/1/any"]
        assert len(counts) == 2

    asyncio.run(scenario())
