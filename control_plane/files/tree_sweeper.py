"""Removes file trees that nothing names any more, then the objects that no tree has.

Law: a tree goes when nobody has used it for `UNUSED`, and neither a version of a data set, a schedule, a
group nor a run names it; groups and runs that ended more than `KEPT` ago do not count. A submission uses
each tree that it names before its specification is stored. An object goes when it was put more than
`ORPHANED` ago and no tree has it, not even one that is being added. It is announced before the last look at
the trees, and who adds a tree stores that before he looks at what is announced: one of the two sees the
other. It is removed within `REMOVAL_S` of that look, while the announcement holds, or left to a later
round.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from control_plane.concurrency.loops import serve_all
from control_plane.files.trees import CHUNKS, MANIFESTS, MANIFESTS_END
from control_plane.store.files.tree_removals import ANNOUNCED_S, TreeRemovals
from events.files.trees import is_tree_id
from events.runtime.clock import Clock, Ids

log = logging.getLogger(__name__)

TICK_S: Final = 6 * 3600.0
UNUSED: Final = timedelta(days=1)
KEPT: Final = timedelta(days=90)
ORPHANED: Final = timedelta(days=7)  # a push that takes longer sends again what went
TREES_AT_ONCE: Final = 10_000
KEYS_AT_ONCE: Final = 20_000  # at least: each look reads the digests of all trees
REMOVAL_S: Final = ANNOUNCED_S / 3
REMOVED_AT_ONCE: Final = 8


class Storage(Protocol):
    """The objects of trees. Raises `Transient`."""

    def older(self, prefix: str, age: timedelta) -> AsyncIterator[Sequence[str]]:
        """Yield pages of the keys below a prefix of what was put longer ago."""
        ...

    async def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class TreeSweeper:
    """Removes trees and objects. Several replicas may run it at once."""

    removals: TreeRemovals
    storage: Storage
    clock: Clock
    ids: Ids
    unused: timedelta = UNUSED
    kept: timedelta = KEPT
    orphaned: timedelta = ORPHANED

    async def run_once(self) -> int:
        """Return how many trees and objects were removed."""
        trees, objects = await self._remove_trees(), 0
        for prefix in (MANIFESTS, CHUNKS):
            async for keys in _in_batches(self.storage.older(prefix, self.orphaned)):
                objects += await self._remove_orphans({_name(key): key for key in keys})
        if trees or objects:
            log.info("tree.swept", extra={"trees": trees, "objects": objects})
        return trees + objects

    async def _remove_trees(self) -> int:
        now = self.clock.now()
        found = await self.removals.unused(now - self.unused, TREES_AT_ONCE)
        if not found:
            return 0
        named = await self.removals.named(found, now - self.kept)
        await self.removals.keep(named)
        return await self.removals.drop(found - named, now - self.unused)

    async def _remove_orphans(self, keys: Mapping[str, str]) -> int:
        """Remove those of some objects, each by the SHA-256 of its bytes, that no tree has."""
        found = {name for name in keys if is_tree_id(name)}
        orphans = found - await self.removals.held(found)
        if not orphans:
            return 0
        removal, until_s = self.ids.ulid(), self.clock.monotonic_s() + REMOVAL_S
        await self.removals.announce(removal, orphans)
        orphans -= await self.removals.held(orphans)

        async def remove(name: str) -> str | None:
            if self.clock.monotonic_s() > until_s:
                return None
            await self.storage.remove(keys[name])
            return keys[name]

        removed = await serve_all(sorted(orphans), remove, at_once=REMOVED_AT_ONCE)
        gone = [key for key in removed if key is not None]
        await self.removals.conclude(removal, gone)
        return len(gone)


async def _in_batches(pages: AsyncIterator[Sequence[str]]) -> AsyncIterator[list[str]]:
    batch: list[str] = []
    async for page in pages:
        batch += page
        if len(batch) >= KEYS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _name(key: str) -> str:
    return key.removeprefix(MANIFESTS).removeprefix(CHUNKS).removesuffix(MANIFESTS_END)
