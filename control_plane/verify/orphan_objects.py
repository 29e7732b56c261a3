"""Finds the objects of attempts that no document names, and removes them on wish.

Such as what a worker put before it died, or put again under the name of a file that changed.

Law: an object is an orphan if it was put more than `GRACE` ago, no artifact and no tree names it, and nobody
can name it any more: its run does not exist, or ended more than `GRACE` ago and its log is closed. By then
the tokens of its attempts are over. Nothing outside of the folder of attempts is looked at, and what has
another form in there is left alone. One page of a listing is held.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from control_plane.concurrency.loops import serve_all
from control_plane.model.projection import ARTIFACTS
from control_plane.store.access.audit_log import AuditLog
from control_plane.store.files.orphans import OrphanReads
from events.queue.settlement import TOKEN_LIFE
from events.runtime.clock import Clock, Ids

GRACE: Final = TOKEN_LIFE + timedelta(days=1)  # no token opens an attempt any more, whosever clock counts
REMOVED_AT_ONCE: Final = 8
_KEY: Final = re.compile(rf"{ARTIFACTS}(?P<run>[A-Za-z0-9_-]{{1,64}})/a[0-9]{{1,10}}/.+\Z", re.DOTALL)


class Storage(Protocol):
    """The objects of attempts. Raises `Transient`."""

    def older(self, prefix: str, age: timedelta) -> AsyncIterator[Sequence[str]]:
        """Yield pages of the keys below a prefix of what was put longer ago."""
        ...

    async def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class OrphanObjects:
    """Finds orphans page by page; a dry run removes nothing."""

    reads: OrphanReads
    storage: Storage
    audit_log: AuditLog
    clock: Clock
    ids: Ids
    by: str
    is_dry: bool = True
    grace: timedelta = GRACE

    async def found(self) -> AsyncGenerator[list[str], None]:
        """Yield the keys of orphans in pages, sorted; they are gone by then unless the run is dry."""
        async for page in self.storage.older(ARTIFACTS, self.grace):
            orphans = await self._orphans(page)
            if orphans and not self.is_dry:
                await self._remove(orphans)
            if orphans:
                yield orphans

    async def _orphans(self, keys: Sequence[str]) -> list[str]:
        of_runs = by_run(keys)
        ended = self.clock.now() - self.grace
        kept = await self.reads.may_upload(of_runs, ended) | await self.reads.with_trees(of_runs)
        orphans: list[str] = []
        for run_id in sorted(of_runs.keys() - kept):
            named = await self.reads.registered(run_id, of_runs[run_id])
            orphans += sorted({*of_runs[run_id]} - named)
        return orphans

    async def _remove(self, keys: Sequence[str]) -> None:
        # Before the objects: what went without an entry could not be told from what was lost.
        await self.audit_log.add(entry(self.ids.ulid(), self.clock.now(), self.by, keys))
        await serve_all(keys, self.storage.remove, at_once=REMOVED_AT_ONCE)
        await self.reads.forget(keys)


def by_run(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the keys of attempts by their runs; what is no key of an attempt is left out."""
    found: dict[str, list[str]] = {}
    for key in keys:
        if place := _KEY.match(key):
            found.setdefault(place["run"], []).append(key)
    return found


def entry(identity: str, at: datetime, by: str, keys: Sequence[str]) -> dict[str, object]:
    """Return what the audit log says of a removal."""
    return {
        "_id": identity,
        "at": at,
        "by": by,
        "keyId": None,
        "address": None,
        "action": f"remove {len(keys)} objects that nothing names, from {keys[0]} to {keys[-1]}",
        "object": "storage/orphans",
        "made": None,
        "status": 200,
    }
