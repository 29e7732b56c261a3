"""Takes a backup while the fleet works: documents, what changed meanwhile, the objects that they name.

Law: every collection is read once, at its own time, and then the oplog from before the first read to after
the last: documents and entries together are the store at that last moment. The manifest comes at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from control_plane.files.blobs import Blobs
from control_plane.store.verify.dumps import Dumps, Moment, unpacked
from control_plane.upkeep.backup.changes import Put, changes
from control_plane.upkeep.backup.folder import CHANGES, LIST, Folder, Packer
from control_plane.upkeep.backup.manifest import FORM, Manifest, Packed
from control_plane.upkeep.backup.objects import Tally, collect, named, once
from events.runtime.clock import Clock, Ids
from events.runtime.errors import ConfigError

DRAIN_BYTES: Final = 32 << 20  # of documents, until the oplog is read on: it may hold minutes only
CHANGES_BYTES_MAX: Final = 64 << 30  # a fleet that changes more in one backup needs another way
WITH_OBJECTS: Final = ("artifacts", "trees")
# For each second of work the backup rests so many: claims have the machine meanwhile.
REST: Final = 1.0
REST_S_MAX: Final = 1.0

Storage = Literal["copy", "reference", "none"]


@dataclass(frozen=True, slots=True)
class Backup:
    """Backs one store up into a folder."""

    dumps: Dumps
    blobs: Blobs | None
    folder: Folder
    clock: Clock
    ids: Ids
    database: str
    program: str
    schema: int
    storage: Storage
    say: Callable[[str], None]

    async def run_once(self) -> tuple[Manifest, Tally]:
        """Return what was backed up. Raises `ConfigError`, `Rejected`, `Transient`: then nothing was."""
        backup, begun = self.ids.ulid(), self.clock.now()
        since = await self.dumps.now()
        with self.folder.packer(backup, CHANGES) as packer:
            log = _Changes(self, since, packer)
            collections = {name: await self._dump(backup, name, log) for name in await self.dumps.names()}
            await log.drain()
            entries = packer.close()
        tally, objects = Tally(), None
        if self.blobs is not None and self.storage != "none":
            with self.folder.packer(backup, LIST) as packer:
                keys = once(self._named(backup, collections, entries))
                tally = await collect(keys, self.folder, self.blobs, packer, copies=self.storage == "copy")
                objects = packer.close()
        made = Manifest(
            form=FORM,
            id=backup,
            program=self.program,
            database=self.database,
            schema=self.schema,
            begun_at=begun.isoformat(),
            ended_at=self.clock.now().isoformat(),
            since=since,
            until=log.position,
            collections=collections,
            changes=entries,
            objects=objects,
            storage=self.storage,
            missing_objects=tally.counts["missing"],
        )
        self.folder.conclude(made)
        return made, tally

    async def _dump(self, backup: str, name: str, log: _Changes) -> Packed:
        drained, worked_from_s = 0, self.clock.monotonic_s()
        with self.folder.packer(backup, name) as packer:
            async for batch in self.dumps.documents(name):
                packer.add(batch)
                drained += len(batch)
                if drained >= DRAIN_BYTES:
                    await log.drain()
                    drained = 0
                await asyncio.sleep(min(REST * (self.clock.monotonic_s() - worked_from_s), REST_S_MAX))
                worked_from_s = self.clock.monotonic_s()
            await log.drain()
            done = packer.close()
        self.say(f"{name}: {done.documents:,} documents")
        return done

    def _named(self, backup: str, collections: dict[str, Packed], entries: Packed) -> Iterator[str]:
        for name in WITH_OBJECTS:
            if name in collections:
                for raw in self.folder.documents(backup, name, collections[name]):
                    yield from named(name, unpacked(raw))
        for raw in self.folder.documents(backup, CHANGES, entries):
            for change in changes(unpacked(raw), self.database):
                if isinstance(change, Put):
                    yield from named(change.collection, change.document)


class _Changes:
    """Reads the oplog on, from where it was read to."""

    def __init__(self, backup: Backup, since: Moment, packer: Packer) -> None:
        self._backup, self._is_begun, self._bytes = backup, False, 0
        self.position, self.packer = since, packer

    async def drain(self) -> None:
        """Add what changed until now. Raises `ConfigError`, and `Rejected` for what cannot be restored."""
        until = await self._backup.dumps.now()
        async for batch in self._backup.dumps.changes(self.position, until, after=self._is_begun):
            self._bytes += len(batch)
            if self._bytes > CHANGES_BYTES_MAX:
                raise ConfigError(["more changes while the backup runs than it can hold: try a quieter time"])
            for raw in _documents(batch):
                for _ in changes(unpacked(raw), self._backup.database):
                    pass
            self.packer.add(batch)
        self.position, self._is_begun = until, True


def _documents(batch: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(batch):
        size = int.from_bytes(batch[at : at + 4], "little")
        yield batch[at : at + size]
        at += size
