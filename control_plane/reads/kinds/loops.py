"""Event loops of their own for the kinds of other packages: code that blocks holds up its own kind alone.

Law: a connection belongs to one loop, so that each of them has a connection of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from control_plane.store.database import Database
from events.kinds import ROWS

log = logging.getLogger(__name__)

ANSWER_S: Final = 1.0  # until a loop that does not answer counts as held
CLOSE_S: Final = 1.0

START_S: Final = 20.0  # for what is made before the program serves

T = TypeVar("T")


class Ended(Exception):
    """The code of a kind raised what would end a program, which it may not."""


class Held(Exception):
    """The code of a kind holds its loop: what it is asked for now is not made."""


class KindLoop:
    """The loop of one kind, in a thread that starts at once and ends with the program."""

    def __init__(self, kind: str, connect: Callable[[], Database]) -> None:
        self._kind = kind
        self._connect = connect
        self._db: Database | None = None
        self._loop = asyncio.new_event_loop()
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name=f"kind {kind}", daemon=True)
        self._thread.start()

    async def run(self, make: Callable[[Database], Awaitable[T]]) -> T:
        """Return what `make` makes on the loop of the kind, and raise what it raises.

        Raises `Held` while earlier code of the kind holds the loop, and `Ended` from what is no `Exception`.
        """
        await self._require_answer()
        made, error = await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._made(make), self._loop)
        )
        if isinstance(error, Exception):
            raise error
        if error is not None:
            raise Ended(type(error).__name__) from error
        return made[0]

    def make(self, make: Callable[[Database], T]) -> T:
        """Do as `run`, in a program that does not serve yet; raise anything. Raises `TimeoutError`."""

        async def there(db: Database) -> T:
            return make(db)

        future = asyncio.run_coroutine_threadsafe(self._made(there), self._loop)
        made, error = future.result(START_S)
        if error is not None:
            raise error
        return made[0]

    async def close(self) -> None:
        """End the loop, unless it is held: then its thread ends with the program."""
        try:
            await self._require_answer()
        except Held:
            return
        if self._db is not None:
            closing = asyncio.run_coroutine_threadsafe(self._db.client.close(), self._loop)
            await asyncio.wrap_future(closing)
        self._is_closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, CLOSE_S)

    async def _require_answer(self) -> None:
        came, here = asyncio.Event(), asyncio.get_running_loop()
        self._loop.call_soon_threadsafe(here.call_soon_threadsafe, came.set)
        try:
            async with asyncio.timeout(ANSWER_S):
                await came.wait()
        except TimeoutError:
            raise Held(f"code of the kind {self._kind!r} holds its loop") from None

    async def _made(
        self, make: Callable[[Database], Awaitable[T]]
    ) -> tuple[tuple[T, ...], BaseException | None]:
        # what ends a program is a value on its way between threads
        try:
            if self._db is None:
                self._db = self._connect()
            return (await make(self._db),), None
        except BaseException as error:  # noqa: BLE001 - a package may do anything
            return (), error

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing:
            try:
                self._loop.run_forever()
            except BaseException as error:
                log.error("kind.task_failed", exc_info=error, extra={"kind": self._kind})
        self._loop.close()


async def beside_loop(kind: str, call: Callable[[], T]) -> T:
    """Return what `call` returns; in another thread where it calls functions that another package brings."""
    return call() if kind in ROWS else await asyncio.to_thread(call)


@dataclass(slots=True, eq=False)
class KindLoops:
    """The loop of each kind that another package brings, made when it is first needed."""

    connect: Callable[[], Database]
    _loops: dict[str, KindLoop] = field(default_factory=dict)

    def of(self, kind: str) -> KindLoop | None:
        """Return the loop of a kind; None for a kind of this package, which runs on the loop of all."""
        if kind in ROWS:
            return None
        if kind not in self._loops:
            self._loops[kind] = KindLoop(kind, self.connect)
        return self._loops[kind]

    async def close(self) -> None:
        """End every loop."""
        for kind in list(self._loops):
            await self._loops.pop(kind).close()
