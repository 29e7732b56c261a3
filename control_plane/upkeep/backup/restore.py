"""Restores a backup: checks all of it, then loads the documents, what changed, the indexes and the objects.

Law: nothing is written before the last byte was compared with the manifest. From the first write to the last
the store has a mark, by which control planes and pods refuse it, and by which a restore that was cut off is
repeated. Documents get the names of their collections when all are there, with their indexes, the queues
last: a pod that goes on meanwhile finds no run, and whatever it writes is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from control_plane.files.blobs import Blobs
from control_plane.store import schema, state
from control_plane.store.database import Database
from control_plane.store.verify.dumps import Dumps, draft_of, is_backed_up, packed, unpacked
from control_plane.upkeep.backup.changes import Change, Drop, Patch, Put, Remove, changes, patched
from control_plane.upkeep.backup.folder import CHANGES, LIST, Folder
from control_plane.upkeep.backup.manifest import Manifest, Packed
from control_plane.upkeep.backup.objects import Row, Tally, check, put_back, rows
from events.kinds.declaring.queues import QUEUES
from events.runtime.clock import Clock
from events.runtime.errors import ConfigError, Conflict, Rejected

LOADED_BYTES: Final = 8 << 20
LOADED_DOCUMENTS: Final = 1_000
WINDOW: Final = 2_000  # changes that are applied together


@dataclass(frozen=True, slots=True)
class Restore:
    """Restores one folder into one store; `replaces` lets it drop what is there."""

    db: Database
    dumps: Dumps
    blobs: Blobs | None
    folder: Folder
    clock: Clock
    replaces: bool = False

    async def run_once(self) -> tuple[Manifest, Tally]:
        """Return what was restored. Raises `Rejected` for a damaged backup, before anything is written.

        Raises `Conflict` where the store has documents of its own, `ConfigError`, `Transient`.
        """
        made = self.folder.manifest()
        if made.schema > state.VERSION:
            newer = f"the backup has schema version {made.schema}, and this program knows {state.VERSION}"
            raise ConfigError([f"{newer}: install podfleet {made.program} or newer"])
        if made.objects is not None and self.blobs is None:
            raise ConfigError(
                ["the backup names objects: set MINIO_ENDPOINT, MINIO_ACCESS_KEY, MINIO_SECRET_KEY"]
            )
        await self._require_room()
        self._check(made)
        await (
            self._require_room()
        )  # the look at a large backup takes long, and somebody may have begun to write
        await state.begin_restore(self.db, made.id, self.clock.now())
        await self.dumps.clear()
        for name, file in made.collections.items():
            await self._load(made.id, name, file)
        await self._apply(made)
        tally = Tally()
        if made.objects is not None and self.blobs is not None:
            tally = await put_back(self._rows(made, made.objects), self.folder, self.blobs)
        await state.reset(self.db, made.schema)
        await self._publish()
        await schema.migrate(self.db)
        await state.end_restore(self.db)
        return made, tally

    async def _publish(self) -> None:
        drafts = await self.dumps.drafts()
        for name in drafts:
            await schema.build(self.db, name, within=draft_of(name))
        for name in sorted(drafts, key=lambda each: each in QUEUES):
            await self.dumps.publish(name)

    async def _require_room(self) -> None:
        if self.replaces or await state.restoring(self.db) is not None:
            return
        if held := await self.dumps.held():
            each = ", ".join(f"{name} {count:,}" for name, count in sorted(held.items()))
            raise Conflict("not_empty", f"the database has documents: {each}; --replace drops them")

    def _check(self, made: Manifest) -> None:
        for name, file in made.collections.items():
            for raw in self.folder.documents(made.id, name, file):
                if "_id" not in unpacked(raw):
                    raise Rejected("bad_backup", f"a document of {name} has no id")
        for _ in self._changes(made):
            pass
        if made.objects is not None:
            check(self._rows(made, made.objects), self.folder)

    def _rows(self, made: Manifest, objects: Packed) -> Iterator[Row]:
        return rows(self.folder.documents(made.id, LIST, objects))

    def _changes(self, made: Manifest) -> Iterator[Change]:
        for raw in self.folder.documents(made.id, CHANGES, made.changes):
            for change in changes(unpacked(raw), made.database):
                if is_backed_up(change.collection):
                    yield change

    async def _load(self, backup: str, name: str, file: Packed) -> None:
        held: list[bytes] = []
        size = 0
        for raw in self.folder.documents(backup, name, file):
            held.append(raw)
            size += len(raw)
            if size >= LOADED_BYTES or len(held) >= LOADED_DOCUMENTS:
                await self.dumps.load(name, held)
                held, size = [], 0
        if held:
            await self.dumps.load(name, held)

    async def _apply(self, made: Manifest) -> None:
        held: list[Put | Patch | Remove] = []
        for change in self._changes(made):
            if isinstance(change, Drop):
                await self._write(held)
                held = []
                await self.dumps.drop(change.collection)
                continue
            held.append(change)
            if len(held) >= WINDOW:
                await self._write(held)
                held = []
        await self._write(held)

    async def _write(self, held: list[Put | Patch | Remove]) -> None:
        """Apply changes in their order, each document written once."""
        by_collection: dict[str, dict[bytes, list[Put | Patch | Remove]]] = {}
        for change in held:
            key = packed({"_id": change.id})
            by_collection.setdefault(change.collection, {}).setdefault(key, []).append(change)
        for name, by_id in by_collection.items():
            sought = [found[0].id for found in by_id.values() if isinstance(found[0], Patch)]
            stored = {}
            for raw in await self.dumps.found(name, sought) if sought else ():
                document = unpacked(raw)
                stored[packed({"_id": document["_id"]})] = document
            await self.dumps.replace(name, {key: _after(stored.get(key), by_id[key]) for key in by_id})


def _after(document: dict[str, object] | None, changed: list[Put | Patch | Remove]) -> bytes | None:
    """Return a document after its changes, None where there is none."""
    for change in changed:
        if isinstance(change, Put):
            document = change.document
        elif isinstance(change, Patch):
            document = None if document is None else patched(document, change.diff)
        else:
            document = None
    return None if document is None else packed(document)
