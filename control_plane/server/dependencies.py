"""Asks each dependency of a control plane how it is, within a second, beside all other work.

Law: a look has a connection and threads of its own, so that it waits for no request, and no request for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fastapi import Depends, Request

from control_plane.concurrency.singleflight import Singleflight, seen
from control_plane.files.blobs import Blobs
from control_plane.server.readiness import OK, UNREACHABLE, UNWRITABLE, States, word
from control_plane.store import database, schema
from control_plane.store.database import Database
from events.runtime.clock import Clock
from events.runtime.errors import ConfigError, PodfleetError, Transient

LIMIT_S: Final = 0.7
FRESH_S: Final = 0.3  # a dependency that did not answer is left alone for so long
LATE_S: Final = 0.2  # this process stalled for so long: that says nothing of the dependency
TICK_S: Final = 15.0
WATCH_S: Final = 1.0
AWAY_S: Final = 2.0  # MongoDB has not answered for so long: a read waits no longer for it
TRIAL_EVERY_S: Final = 60.0  # while the storage takes what is put there
INCOMPLETE: Final = "incomplete"
READS: Final = frozenset({"GET", "HEAD"})
ALWAYS: Final = frozenset({"/healthz", "/readyz", "/metrics"})  # these tell of the outage


@dataclass(slots=True)
class Dependencies:
    """The dependencies, with what is known of each."""

    connect: Callable[[], Database]
    blobs: Blobs
    clock: Clock
    limit_s: float = LIMIT_S
    _db: Database | None = None
    _indexes: str = OK  # a control plane starts with all of them
    _writes: str = OK
    _written_at_s: float | None = None
    _mongodb_answered_s: float | None = None
    _known: dict[str, tuple[float, str]] = field(default_factory=dict)
    _running: dict[str, asyncio.Task[str]] = field(default_factory=dict)
    _looks: Singleflight[str] = field(default_factory=Singleflight)

    async def mongodb(self) -> str:
        """Return the state of MongoDB now."""
        return await self._state("mongodb", partial(database.ping, self._own()))

    async def watch(self) -> None:
        """Note whether MongoDB answers."""
        if await self.mongodb() != UNREACHABLE:
            self._mongodb_answered_s = self.clock.monotonic_s()

    async def require_mongodb(self, request: Request) -> None:
        """Refuse a read within two seconds while MongoDB is away; a write may wait through an election.

        Raises `Transient`.
        """
        answered_s = self._mongodb_answered_s
        if request.method not in READS or request.url.path in ALWAYS or answered_s is None:
            return
        if self.clock.monotonic_s() - answered_s <= AWAY_S:
            return
        # by a look that begins now: MongoDB may be back since the last one
        if await self._looks.read("mongodb", self._look_at_mongodb) == UNREACHABLE:
            raise Transient("mongodb_unreachable", "MongoDB does not answer; try again")

    async def _look_at_mongodb(self) -> str:
        return await self._checked("mongodb", partial(database.ping, self._own()))

    async def look(self) -> States:
        """Return the state of each dependency; indexes and room are looked at in `run_once`."""
        mongodb, storage = await asyncio.gather(self.mongodb(), self._state("storage", self.blobs.ping))
        return States(mongodb, self._indexes, self._writes if storage == OK else storage)

    async def run_once(self) -> None:
        """Look at what takes longer: the indexes, and whether the storage takes a small object."""
        now_s = self.clock.monotonic_s()
        is_due = self._written_at_s is None or now_s - self._written_at_s >= TRIAL_EVERY_S
        if await self._state("storage", self.blobs.ping) != OK:
            self._writes, self._written_at_s = OK, None  # what it takes is known when it answers again
        elif is_due or self._writes != OK:
            found = await self._state("writes", self.blobs.try_put)
            self._writes, self._written_at_s = UNWRITABLE if found == UNREACHABLE else found, now_s
        try:
            await schema.verify(self._own())
            self._indexes = OK
        except ConfigError:
            self._indexes = INCOMPLETE

    async def close(self) -> None:
        """End the checks that run, and close the connection."""
        for running in self._running.values():
            running.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        if self._db is not None:
            await self._db.client.close()

    def _own(self) -> Database:
        if self._db is None:
            self._db = self.connect()
        return self._db

    async def _state(self, name: str, check: Callable[[], Awaitable[None]]) -> str:
        """Return what a new check finds, or the one that runs, or the one that failed a moment ago."""
        found_s, found = self._known.get(name, (-FRESH_S, OK))
        if found != OK and self.clock.monotonic_s() - found_s < FRESH_S:
            return found
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = asyncio.create_task(self._checked(name, check))
            running.add_done_callback(seen)
        return await asyncio.shield(running)

    async def _checked(self, name: str, check: Callable[[], Awaitable[None]]) -> str:
        began_s = self.clock.monotonic_s()
        try:
            async with asyncio.timeout(self.limit_s):
                await check()
            found = OK
        except TimeoutError:
            is_late = self.clock.monotonic_s() - began_s - self.limit_s > LATE_S
            found = self._known[name][1] if is_late and name in self._known else UNREACHABLE
        except PodfleetError as error:
            found = word(error.code)
        self._known[name] = (self.clock.monotonic_s(), found)
        return found


async def require_mongodb(request: Request) -> None:
    """Refuse a read while MongoDB is away. Raises `Transient`."""
    await request.app.state.dependencies.require_mongodb(request)


REQUIRED: Final = (Depends(require_mongodb),)  # of every route
