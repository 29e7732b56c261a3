"""Claims over HTTP that wait: those of pods that may claim nothing are bounded, and end with the process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from control_plane.concurrency.cache import Cache
from control_plane.concurrency.rate_limit import RateLimit
from control_plane.live import notifier as live
from control_plane.live.notifier import Notifier
from control_plane.runs import claiming
from control_plane.runs.claiming import Claimer
from events.queue.abilities import Abilities
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

    async def reporter_of(self, pod_id: str) -> None:
        return None

    async def narrow(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        return []

    async def whole(self, seeker: Seeker, now_s: float) -> list[WaitingClass]:
        return [] if self.is_empty else [WaitingClass("runs", "probe/cpu/any", 0)]

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
        waits = await waiting(asked)
        asked.notifier.close()
        queue.is_empty = False
        assert (await asyncio.wait_for(waits, 60), queue.taken) == (None, 0)

    asyncio.run(scenario())


def test_a_pod_that_is_cordoned_while_it_waits_takes_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(claiming, "LOOK_AGAIN_S", 0.01)

    async def scenario() -> None:
        queue, orders = Queue(is_empty=True), Orders(Rules())
        asked = claimer(queue, orders)
        waits = await waiting(asked)
        orders.rules, queue.is_empty = Rules({"p": CORDON}), False
        assert (await asyncio.wait_for(waits, 60), queue.taken) == (None, 0)

    asyncio.run(scenario())
