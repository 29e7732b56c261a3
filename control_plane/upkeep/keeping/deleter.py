"""Deletes runs and hypotheses: shows what goes with them, puts tombstones, and removes what is behind these.

Law: the tombstone is put first, then the run is removed if it is still as it was read, then the objects and
documents beside it, in pages. Each step may be made twice, and by several replicas at once. Whoever dies in
between leaves a tombstone that is due, and a later round goes on with it. After `LAST_LOOK_S` a last round
removes what was on its way while the run went: files of URLs that were signed before, and late events.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from control_plane.concurrency.loops import serve_all
from control_plane.model.projection import ARTIFACTS
from control_plane.model.run import Run
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.readable import reading_of
from control_plane.store.database import Document
from control_plane.store.log.events import Events
from control_plane.store.log.run_removals import MEMBERS_MAX, RunRemovals
from control_plane.store.log.tombstones import Tombstones
from control_plane.store.queue.runs import Found, Runs
from control_plane.upkeep.keeping.deletion import (
    TROUBLE_CHARS_MAX,
    AttemptSeal,
    in_words,
    pause_s,
    refusal,
    tombstone,
)
from events.answers.access.keeping import Deletion, Tombstone
from events.kinds.declaring.queues import RUNS
from events.runtime.clock import Ids
from events.runtime.errors import Conflict, Gone, NotFound, PodfleetError, Transient
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

TICK_S: Final = 2.0
AT_ONCE: Final = 4
REMOVED_AT_ONCE: Final = 8
TRIES_MAX: Final = 20
LAST_LOOK_S: Final = 3600.0  # more than any URL lives, and than any request takes
ANY_AGE: Final = timedelta(days=-1)  # also what was put just now, by whatever clock
HYPOTHESIS: Final = "hypothesis"


class Storage(Protocol):
    """The objects of runs. Raises `Transient`, `Rejected`."""

    def older(self, prefix: str, age: timedelta) -> AsyncIterator[Sequence[str]]:
        """Yield pages of the keys below a prefix of what was put longer ago."""
        ...

    async def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Deleter:
    """Deletes on request, and finishes what was begun. Raises `NotFound`, `Gone`, `Conflict`, `Transient`."""

    runs: Runs
    events: Events
    removals: RunRemovals
    tombstones: Tombstones
    storage: Storage
    ids: Ids
    last_look_s: float = LAST_LOOK_S

    async def tombstone(self, identity: str) -> Tombstone | None:
        """Return what stays of a run or a hypothesis that was deleted."""
        found = await self.tombstones.find(identity)
        return None if found is None else from_document(Tombstone, found)

    async def preview(self, run_id: str) -> Deletion:
        """Return what a deletion of a run would take along, and why it would be refused now."""
        found = await self._find(run_id)
        why = refusal(found.run, found.collection, await self._need(run_id))
        return Deletion(
            id=run_id,
            status=found.run.status.value,
            refusal=None if why is None else why.message,
            counts=await self.removals.counts(run_id),
            bytes=await self.removals.bytes_of(run_id),
            group_id=found.run.group_id,
            runs=[],
            retries=await self.removals.retries(run_id),
            successors=await self.removals.successors(run_id),
        )

    async def delete(self, run_id: str, *, by: str) -> Tombstone:
        """Delete a run that has ended and that nothing needs; return what stays of it."""
        found = await self._find(run_id)
        why = refusal(found.run, found.collection, await self._need(run_id))
        if why is not None:
            raise Conflict(why.code, why.message)
        return await self._delete(run_id, by=by)

    async def preview_hypothesis(self, hypothesis_id: str) -> Deletion:
        """Return what a deletion of a hypothesis would take along: its search for ideas, and its runs."""
        members = await self._members(hypothesis_id)
        counts: Counter[str] = Counter()
        size = 0
        for run_id in members:
            counts.update(await self.removals.counts(run_id))
            size += await self.removals.bytes_of(run_id)
        return Deletion(
            id=hypothesis_id,
            status="",
            refusal=await self._kept_by(members),
            counts=dict(counts),
            bytes=size,
            group_id=None,
            runs=members,
            retries=[],
            successors=[],
        )

    async def delete_hypothesis(self, hypothesis_id: str, *, by: str) -> Tombstone:
        """Delete a hypothesis with its search for ideas and its runs, all of which have ended."""
        members = await self._members(hypothesis_id)
        why = await self._kept_by(members)
        if why is not None:
            raise Conflict("needed", why)
        await self.tombstones.put(
            hypothesis_id,
            {
                "kind": HYPOTHESIS,
                "project": None,
                "hypothesisId": None,
                "groupId": None,
                "slot": None,
                "status": "",
                "createdAt": None,
                "finishedAt": None,
                "attempts": [],
                "counts": {"runs": len(members)},
                "bytes": 0,
                "idempotency": None,
                "tokens": [],
                "runs": members,
                "by": by,
            },
        )
        await self._take_hypothesis(hypothesis_id, members, by)
        return await self._told(hypothesis_id)

    async def require_kept(self, identity: str) -> None:
        """Raise `Gone` for what was deleted."""
        found = await self.tombstones.find(identity)
        if found is not None:
            raise gone(found)

    async def run_once(self) -> int:
        """Go on with what is due; return how many documents and objects were removed."""
        return sum(await serve_all(await self.tombstones.due(), self._go_on, at_once=AT_ONCE))

    async def _go_on(self, due: Document) -> int:
        identity = due["_id"]
        try:
            with reading_of("deletion of", identity):
                removed = await self._remove(identity, due)
        except PodfleetError as error:
            await self._postpone(due, error)
            return 0
        if due.get("removedAt") is None:
            await self.tombstones.look_again(identity, self.last_look_s)
        else:
            await self.tombstones.conclude(identity)
        return removed

    async def _remove(self, identity: str, due: Document) -> int:
        if due["kind"] == HYPOTHESIS:
            await self._take_hypothesis(identity, due["runs"], due["by"])
            return 0
        if await self.runs.find(identity) is not None:
            await self._delete(identity, by=due["by"])
        return await self._remove_objects(identity) + await self.removals.drop_children(identity)

    async def _postpone(self, due: Document, error: PodfleetError) -> None:
        tries = int(due.get("tries") or 0) + 1
        after_s = pause_s(tries, self.ids.fraction())
        trouble = f"{error.code}: {error.message}"[:TROUBLE_CHARS_MAX]
        log.warning("deletion.postponed", extra={"run": due["_id"], "tries": tries, "why": trouble})
        await self.tombstones.postpone(due["_id"], tries, after_s, trouble)

    async def _delete(self, run_id: str, *, by: str) -> Tombstone:
        """Put the tombstone of a run and remove the run; what is beside it follows in later rounds."""
        for _ in range(TRIES_MAX):
            found = await self.runs.find(run_id)
            if found is None:
                return await self._told(run_id)
            run = found.run
            stored = await self.removals.stored(found)
            seals = await self._seals(run)
            counts, size = await self.removals.counts(run_id), await self.removals.bytes_of(run_id)
            await self.tombstones.put(run_id, tombstone(run, stored, seals, counts, size, by=by))
            if await self.removals.drop_run(found):
                log.info("run.deleted", extra={"run": run_id, "by": by, "what": in_words(counts, size)})
                return await self._told(run_id)
        raise Transient("contended", f"run {run_id} is changing concurrently; try again")

    async def _seals(self, run: Run) -> list[AttemptSeal]:
        seals: list[AttemptSeal] = []
        for attempt in await self.removals.attempts(run.id):
            name = AttemptId(run.id, attempt)
            last = await self.events.head(name)
            roots = await self.events.roots(name, last)
            count = await self.removals.events_of(run.id, attempt)
            seals.append(AttemptSeal(attempt, last, count, roots.stored))
        return seals

    async def _remove_objects(self, run_id: str) -> int:
        """Remove every object below the run's prefix, registered or not."""
        removed = 0
        async for keys in self.storage.older(f"{ARTIFACTS}{run_id}/", ANY_AGE):
            removed += len(await serve_all(keys, self.storage.remove, at_once=REMOVED_AT_ONCE))
        return removed

    async def _take_hypothesis(self, hypothesis_id: str, members: Sequence[str], by: str) -> None:
        await self.removals.drop_hypothesis(hypothesis_id)
        for run_id in members:
            if await self.runs.find(run_id) is not None:
                await self._delete(run_id, by=by)

    async def _members(self, hypothesis_id: str) -> list[str]:
        """Return what goes with a hypothesis: its runs, and its search for ideas."""
        if not await self.removals.has_hypothesis(hypothesis_id):
            await self.require_kept(hypothesis_id)
            raise NotFound("unknown_hypothesis", f"there is no hypothesis {hypothesis_id!r}")
        members = await self.removals.of_hypothesis(hypothesis_id)
        if len(members) > MEMBERS_MAX:
            message = f"the hypothesis has more than {MEMBERS_MAX:,} runs: delete some of them first"
            raise Conflict("too_many_runs", message)
        return members

    async def _kept_by(self, members: Sequence[str]) -> str | None:
        """Return why one of the runs of a hypothesis cannot go; None where all can."""
        needed = await self.removals.needed(members)
        found = await self.runs.find_all(members)
        for run_id, each in found.items():
            why = refusal(each.run, RUNS.collection, needed.get(run_id))
            if why is not None:
                return f"run {run_id}: {why.message}"
        return None

    async def _need(self, run_id: str) -> str | None:
        return (await self.removals.needed([run_id])).get(run_id)

    async def _find(self, run_id: str) -> Found:
        with reading_of("run", run_id):
            found = await self.runs.find(run_id)
        if found is None:
            await self.require_kept(run_id)
            raise NotFound("unknown_run", f"there is no run {run_id!r}")
        return found

    async def _told(self, identity: str) -> Tombstone:
        found = await self.tombstone(identity)
        assert found is not None, "a tombstone is never removed"
        return found


def gone(found: Mapping[str, Any]) -> Gone:
    """Return the error for what has this tombstone."""
    moment = found["deletedAt"]
    message = f"{found['_id']} was deleted by {found['by']} on {moment:%Y-%m-%d at %H:%M} UTC"
    return Gone("deleted", message)


def deleted_in_words(found: Tombstone) -> str:
    """Return what went with a run or a hypothesis in words, for the audit log."""
    return in_words(found.counts, found.bytes)
