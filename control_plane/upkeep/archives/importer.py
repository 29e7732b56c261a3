"""Imports archives: objects first, then what is beside the run, the run last.

Law: nothing is visible before all of it is there. Each step may be made twice, and by several replicas at
once: whoever dies leaves a note, the same archive goes on from there, and another one waits until a later
round has removed what was left. Objects that nothing came to name are found by `podfleet storage orphans`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from control_plane.files.archives.exporter import Exporter
from control_plane.store.files.imports import Imports
from control_plane.upkeep.archives.admission import SPECS, Admitted, File, admitted
from control_plane.upkeep.archives.imported import Origin, stored, stored_event
from events.files.archive.check import PIECE_BYTES, checked
from events.runtime.clock import Clock
from events.runtime.errors import Conflict, NotFound, Rejected, Transient

log = logging.getLogger(__name__)

BATCH_MAX: Final = 500
BATCH_BYTES: Final = 4 * 1024 * 1024
RENEW_S: Final = 30.0
ABANDONED_S: Final = 600.0  # twenty renewals that did not come
TICK_S: Final = 60.0

Send = Callable[[str, Iterator[bytes], int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Imported:
    """The run of an archive; it `is_new` where it was not there before."""

    run: Admitted
    is_new: bool


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports archives. `send` puts an object of a size. Raises `Rejected`, `Conflict`, `Transient`."""

    store: Imports
    exporter: Exporter
    send: Send
    clock: Clock
    renew_s: float = RENEW_S

    async def take(self, file: BinaryIO, *, by: str) -> Imported:
        """Import the archive that a file of ours holds, which nobody else writes to."""
        origin = Origin(by, self.clock.now())
        found = await asyncio.to_thread(admitted, file, origin, self.clock.now())
        if await self.store.deleted(found.run_id):
            message = f"run {found.run_id} was deleted here, and is not made again"
            raise Conflict("deleted", message)
        if await self._is_there(found):
            return Imported(found, is_new=False)
        if not await self.store.begin(found.run_id, found.digest, by):
            message = f"another archive of run {found.run_id} is being imported; try again in some minutes"
            raise Conflict("import_under_way", message)
        async with self._renewed(found):
            for each in found.files:
                await self.send(each.key, _pieces(file, each), each.size)
            await self._store(file, found)
            is_new = await self.store.add_run(found.run)
        # Another import of the same archive may have been faster.
        if not is_new and not await self._is_there(found):
            raise Conflict("deleted", f"run {found.run_id} was deleted at this moment")
        await self.store.end(found.run_id)
        log.info("archive.imported", extra={"run": found.run_id, "by": by, "new": is_new})
        return Imported(found, is_new=is_new)

    async def run_once(self) -> int:
        """Remove what imports have left that nobody goes on with; return how many those were."""
        removed = 0
        for run_id in await self.store.abandoned(ABANDONED_S):
            if not await self.store.give_up(run_id, ABANDONED_S):
                continue
            if not await self.store.has_run(run_id):
                await self.store.drop(run_id)
                log.info("archive.swept", extra={"run": run_id})
            await self.store.end(run_id)
            removed += 1
        return removed

    async def _is_there(self, found: Admitted) -> bool:
        """Say whether the run is there as the archive has it. Raises `Conflict` where it is another one."""
        if not await self.store.has_run(found.run_id):
            return False
        try:
            members = await self.exporter.members(found.run_id)
        except NotFound:
            members = []
        except Rejected as error:
            raise _other(found.run_id, error.message) from error
        wanted = {each.name: each for each in found.members}
        ours = {each.name: each for each in members}
        for name in sorted(wanted.keys() | ours.keys()):
            if wanted.get(name) != ours.get(name):
                raise _other(found.run_id, f"{name} differs")
        return True

    async def _store(self, file: BinaryIO, found: Admitted) -> None:
        """Write everything but the run."""
        writing = _Writing(asyncio.get_running_loop(), self.store)
        try:
            await asyncio.to_thread(writing.whole, file)
        finally:
            writing.is_over = True
        await self.store.add(SPECS, [found.spec])

    @asynccontextmanager
    async def _renewed(self, found: Admitted) -> AsyncIterator[None]:
        """Let others know that the import goes on; break it off where they have given it up."""
        ours = asyncio.current_task()
        assert ours is not None
        is_given_up = False

        async def renew() -> None:
            nonlocal is_given_up
            while True:
                await asyncio.sleep(self.renew_s)
                with suppress(Transient):
                    if not await self.store.renew(found.run_id, found.digest):
                        is_given_up = True
                        ours.cancel()
                        return

        renewing = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if not is_given_up:
                raise
            ours.uncancel()
            message = f"the import of run {found.run_id} took too long and was given up; try again"
            raise Conflict("import_under_way", message) from None
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing


def _other(run_id: str, why: str) -> Conflict:
    return Conflict("run_exists", f"there is a run {run_id} here, and it is not that of the archive: {why}")


def _pieces(file: BinaryIO, each: File) -> Iterator[bytes]:
    at, end = each.at, each.at + each.size
    while at < end:
        piece = os.pread(file.fileno(), min(PIECE_BYTES, end - at), at)
        assert piece, "the file was read whole before"
        yield piece
        at += len(piece)


@dataclass(slots=True)
class _Writing:
    """Writes what an archive holds, from a thread of its own, in batches of one collection."""

    loop: asyncio.AbstractEventLoop
    store: Imports
    is_over: bool = False  # nobody waits for the rest any more
    _collection: str = ""
    _batch: list[Mapping[str, Any]] = field(default_factory=list)

    def whole(self, file: BinaryIO) -> None:
        """Write all of it. Raises `Conflict`, `Transient`."""
        file.seek(0)
        checked(file, self)
        self._flush()

    def document(self, listed: str, document: Mapping[str, Any]) -> None:
        """Take a document; run and specification are written in their turn."""
        if listed not in ("run", SPECS):
            self._add(*stored(listed, document))

    def event(self, event: Mapping[str, Any]) -> None:
        """Take an event."""
        self._add("events", stored_event(event))

    def artifact(self, name: str, size: int, at: int) -> None:
        """Files are put before."""

    def _add(self, collection: str, document: Mapping[str, Any]) -> None:
        if collection != self._collection or len(self._batch) >= BATCH_MAX:
            self._flush()
        self._collection = collection
        self._batch.append(document)

    def _flush(self) -> None:
        if self._batch and not self.is_over:
            writing = self.store.add(self._collection, self._batch)
            asyncio.run_coroutine_threadsafe(writing, self.loop).result()
            self._batch = []
