"""Reads that are shared begin after whoever shares them asked."""

from __future__ import annotations

import asyncio

import pytest

from control_plane.concurrency.singleflight import Singleflight


class Counter:
    """A read that counts its calls, and ends when it is let."""

    def __init__(self) -> None:
        self.begun = 0
        self.goes_on = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        mine = self.begun
        await self.goes_on.wait()
        return mine


async def test_who_comes_during_a_read_waits_for_the_next_one_with_all_others() -> None:
    joined: Singleflight[int] = Singleflight()
    read = Counter()
    first = asyncio.create_task(joined.read("a", read))
    with_first = asyncio.create_task(joined.read("a", read))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert read.begun == 1
    later = [asyncio.create_task(joined.read("a", read)) for _ in range(50)]
    other = asyncio.create_task(joined.read("b", read))
    await asyncio.sleep(0.01)
    assert read.begun == 2, "the other thing does not wait"
    read.goes_on.set()
    assert [await first, await with_first, await other] == [1, 1, 2]
    assert {await each for each in later} == {3}
    assert await joined.read("a", read) == 4
    assert not joined._running
    assert not joined._next


async def test_who_leaves_takes_nothing_from_the_others_and_an_error_is_everybodys() -> None:
    joined: Singleflight[int] = Singleflight()
    read = Counter()
    leaver = asyncio.create_task(joined.read("a", read))
    stayer = asyncio.create_task(joined.read("a", read))
    await asyncio.sleep(0.01)
    leaver.cancel()
    read.goes_on.set()
    assert await stayer == 1

    async def broken() -> int:
        raise ValueError("broken")

    for result in await asyncio.gather(
        joined.read("a", broken), joined.read("a", broken), return_exceptions=True
    ):
        assert isinstance(result, ValueError)
    with pytest.raises(ValueError, match="broken"):
        await joined.read("a", broken)
    assert not joined._running
    assert not joined._next
