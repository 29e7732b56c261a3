"""Closes lost stretches of logs, while control planes apply events to them.

Law: the run says so before its log does, so that no reader takes the log for whole. A line that comes after
all is stored in its place, or refused as a conflict; both leave a log without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from control_plane.store.access.audit_log import AuditLog
from control_plane.store.log.events import Arrival, Events, storable
from control_plane.store.queue.runs import Runs
from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.lost_stretch import LostStretch, lost_stretches
from control_plane.verify.rebuilder import Application
from events.runtime.clock import Clock, Ids

BATCH_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Mended:
    """What was closed, or would be, and what was left."""

    done: Sequence[LostStretch] = ()
    left: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LogRepair:
    """Closes the lost stretches of one run after the other; a dry run only reports them."""

    reads: VerifyReads
    runs: Runs
    events: Events
    application: Application
    audit_log: AuditLog
    clock: Clock
    ids: Ids
    by: str
    is_dry: bool = False

    async def close(self, collection: str, run_id: str) -> Mended:
        """Close what a run's log has lost. Raises `Transient` while the store does not answer."""
        try:
            evidence = await self.reads.evidence(collection, run_id)
        except Unjudged as error:
            return Mended(left=[error.message])
        found = [] if evidence is None else lost_stretches(evidence)
        left = [f"{each}: too many to be filled" for each in found if each.is_too_long]
        wanted = [each for each in found if not each.is_too_long]
        if not self.is_dry:
            for each in wanted:
                await self._close(collection, each)
        return Mended(wanted, left)

    async def _close(self, collection: str, lost: LostStretch) -> None:
        at = self.clock.now()
        await self.runs.mark_lost(collection, lost.attempt_id, lost.mark(at, self.by))
        await self.audit_log.add(
            {
                "_id": self.ids.ulid(),
                "at": at,
                "by": self.by,
                "keyId": None,
                "address": None,
                "action": f"repair {lost}",
                "object": f"run/{lost.attempt_id.run_id}",
                "made": None,
                "status": 200,
            }
        )
        lines = lost.lines(at, self.by)
        while batch := [*islice(lines, BATCH_MAX)]:
            await self.events.append([storable(line, Arrival(self.ids.ulid(), at)) for line in batch])
        await self.application.apply(lost.attempt_id)
