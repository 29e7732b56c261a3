"""Batches concurrent requests into one call; each request gets the result of its own part.

Law: a call belongs to no request. A request that stops waiting takes nothing from the others, and an error
of a call reaches only the requests whose parts were in it. A waiting request has a place in `Admission`,
which bounds how many wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

CALLS_MAX: Final = 2  # one that the store works on, one that is made ready meanwhile
WEIGHT_MAX: Final = 2_000  # of one call: events, runs

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Batcher(Generic[Part, Result]):
    """Calls `do` with all parts that wait, as soon as fewer than `CALLS_MAX` calls are under way.

    `do` answers with a result for each part, or with the error that is to be raised for it.
    """

    do: Callable[[Sequence[Part]], Awaitable[Sequence[Result | Exception]]]
    weigh: Callable[[Part], int]
    _waiting: deque[tuple[Part, asyncio.Future[Result]]] = field(default_factory=deque)
    _calls: set[asyncio.Task[Sequence[Result | Exception]]] = field(default_factory=set)

    async def __call__(self, part: Part) -> Result:
        """Return the result of this part."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, future))
        # In the next turn of the loop: who was woken by the same call asks again in this one.
        asyncio.get_running_loop().call_soon(self._begin)
        return await future

    def _begin(self) -> None:
        while self._waiting and len(self._calls) < CALLS_MAX:
            taken = self._take()
            if taken:
                self._calls.add(call := asyncio.ensure_future(self.do([part for part, _ in taken])))
                call.add_done_callback(partial(self._end, [future for _, future in taken]))

    def _take(self) -> list[tuple[Part, asyncio.Future[Result]]]:
        """Return the waiting parts that were not canceled, up to the weight of one call."""
        taken: list[tuple[Part, asyncio.Future[Result]]] = []
        room = WEIGHT_MAX
        while self._waiting and (not taken or self.weigh(self._waiting[0][0]) <= room):
            part, future = self._waiting.popleft()
            if not future.done():
                taken.append((part, future))
                room -= self.weigh(part)
        return taken

    def _end(
        self, futures: Sequence[asyncio.Future[Result]], call: asyncio.Task[Sequence[Result | Exception]]
    ) -> None:
        self._calls.discard(call)
        error = None if call.cancelled() else call.exception()
        for index, future in enumerate(futures):
            if future.done():
                continue
            if call.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                _tell(future, call.result()[index])
        self._begin()


def _tell(future: asyncio.Future[Result], result: Result | Exception) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
