"""The end of background loops."""

from __future__ import annotations

import asyncio

from control_plane.concurrency.loops import end, run_every


async def test_a_loop_whose_cancellation_was_lost_is_cancelled_again() -> None:
    waits, rounds = asyncio.Event(), 0

    async def loses_one() -> None:
        nonlocal rounds
        rounds += 1
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if rounds > 1:
                raise

    loop = asyncio.create_task(run_every(0, "one that loses a cancellation", loses_one))
    await waits.wait()

    async with asyncio.timeout(100):
        await end([loop])

    assert loop.cancelled()
    assert rounds == 2


async def test_tasks_that_have_ended_are_left_as_they_are() -> None:
    async def one() -> int:
        return 1

    task = asyncio.create_task(one())
    await task

    await end([task])
    await end([])

    assert task.result() == 1
