"""Parts that come at the same time are done in one call; nobody pays for anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from control_plane.concurrency.batching import CALLS_MAX, WEIGHT_MAX, Batcher
from events.runtime.errors import Transient


@dataclass
class Store:
    """Doubles numbers, when it is let; a negative one is an error of its own, and zero one of the call."""

    calls: list[list[int]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def double(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.calls.append(list(numbers))
        await self.gate.wait()
        if 0 in numbers:
            raise Transient("away", "the store is away")
        return [2 * each if each > 0 else ValueError(each) for each in numbers]


def run(scenario: Callable[[Store, Batcher[int, int]], Awaitable[None]]) -> None:
    async def go() -> None:
        store = Store()
        await scenario(store, Batcher(store.double, abs))

    asyncio.run(go())


def test_what_waits_while_calls_are_under_way_is_done_in_one_call() -> None:
    async def scenario(store: Store, doubled: Batcher[int, int]) -> None:
        asked = []
        for number in (1, 2, 3, 4, 5):
            asked.append(asyncio.create_task(doubled(number)))
            await asyncio.sleep(0.001)
        assert store.calls == [[1], [2]]
        assert len(store.calls) == CALLS_MAX
        store.gate.set()
        assert await asyncio.gather(*asked) == [2, 4, 6, 8, 10]
        assert store.calls == [[1], [2], [3, 4, 5]]

    run(scenario)


def test_who_is_woken_by_one_call_asks_in_one_call_again() -> None:
    async def scenario(store: Store, doubled: Batcher[int, int]) -> None:
        async def twice(number: int) -> int:
            return await doubled(await doubled(number))

        store.gate.set()
        assert await asyncio.gather(*(twice(number) for number in (1, 2, 3))) == [4, 8, 12]
        assert store.calls == [[1, 2, 3], [2, 4, 6]]

    run(scenario)


def test_who_stops_waiting_takes_nothing_from_the_others() -> None:
    async def scenario(store: Store, doubled: Batcher[int, int]) -> None:
        asked = [asyncio.create_task(doubled(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0.001)
        asked[0].cancel()  # in a call already
        late = [asyncio.create_task(doubled(WEIGHT_MAX)) for _ in range(3)]
        await asyncio.sleep(0.001)
        late[2].cancel()  # not yet
        store.gate.set()
        assert await asyncio.gather(*asked[1:], *late[:2]) == [4, 6, 2 * WEIGHT_MAX, 2 * WEIGHT_MAX]
        assert [sum(call) for call in store.calls] == [6, WEIGHT_MAX, WEIGHT_MAX]

    run(scenario)


def test_an_error_is_told_to_those_only_whom_it_concerns() -> None:
    async def scenario(store: Store, doubled: Batcher[int, int]) -> None:
        first = [asyncio.create_task(doubled(number)) for number in (1, -2)]
        await asyncio.sleep(0.001)
        second = [asyncio.create_task(doubled(number)) for number in (0, 3)]
        await asyncio.sleep(0.001)
        store.gate.set()
        assert await first[0] == 2
        with pytest.raises(ValueError, match="-2"):
            await first[1]
        for each in second:
            with pytest.raises(Transient):
                await each
        assert await doubled(4) == 8

    run(scenario)
