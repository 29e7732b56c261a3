"""Known bugs, composed of the product's own parts: what the checker has to be able to see.

Law: a bug is a part that stands in for the product's; the product has no switch for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import WriteConcern

from control_plane.log.projector import TRIES_MAX, Projector, Stretch, Turn
from control_plane.model.groups.members import Members
from control_plane.model.projection import fold
from control_plane.model.run import Run
from control_plane.store.database import Database, Document
from control_plane.store.log.events import STRETCH_MAX, Events, decode
from control_plane.store.queue.groups import Entry, Groups
from control_plane.store.queue.runs import Advance, Found, Runs
from events.delivery.sender import Ingest
from events.envelope import Event
from events.queue import journal
from events.queue.claims import Claim, standing_of
from events.queue.settlement import End, settle_decision
from events.runtime.errors import LeaseLost, Transient
from events.testing import DroppingIngest
from events.text.attempt_id import AttemptId
from pod_worker.queue.mongo import MongoQueue


class UnfencedQueue(MongoQueue):
    """Settles by the run's id alone, whoever owns it by now."""

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        runs = self.db[claim.collection]
        while True:
            run = runs.find_one({"_id": claim.run_id})
            if run is None:
                raise LeaseLost(claim.attempt_id)
            if run["settled"] is not None:
                return
            by = f"{run['claimedBy'] or 'worker'}#a{claim.attempt}"
            decision = settle_decision(
                standing_of(run), claim.attempt, how, last, by=by, jitter=jitter, root=root
            )
            moved = runs.update_one(
                {"_id": claim.run_id, "revision": run["revision"]}, journal.update(decision)
            )
            if moved.matched_count:
                return


class BlindRescueRuns(Runs):
    """Takes a run from whoever has it, also when the lease was renewed since it was read."""

    async def rescue(self, found: Found, decision: journal.Decision) -> Found | None:
        return await self.decide(found, decision)


class BlindApplyRuns(Runs):
    """Moves a run's cursor wherever the applier believes it to be."""

    async def advance(self, advances: Sequence[Advance]) -> bool:
        for each in advances:
            kept = {"$filter": {"input": "$journal", "cond": {"$gt": ["$$this.n", each.flushed]}}}
            pipeline: list[dict[str, Any]] = [{"$set": {"journal": kept}}]
            if each.decision is not None:
                pipeline += journal.update(each.decision)
            pipeline.append({"$set": {name: journal.expression(value) for name, value in each.view.items()}})
            await self.db[each.found.collection].update_one({"_id": each.found.run.id}, pipeline)
        return True


class LeapingEvents(Events):
    """Returns what is stored after a position, whether or not something is missing before it."""

    async def stretch(self, attempt_id: AttemptId, after: int) -> list[Event]:
        query = {"runId": attempt_id.run_id, "attempt": attempt_id.attempt, "sequence": {"$gt": after}}
        cursor = self.db.events.find(query).sort("sequence").limit(STRETCH_MAX)
        events = [decode(document) async for document in cursor]
        first = next((event.sequence or 0 for event in events), 0)
        return [event for number, event in enumerate(events) if event.sequence == first + number]


class LeapingProjector(Projector):
    """Folds from wherever the stretch begins."""

    async def follow(self, stretches: Sequence[Stretch]) -> list[int | None]:
        return [None] * len(stretches)

    async def apply(self, attempt_id: AttemptId) -> int:
        return await apply(self, attempt_id, marks_first=False)


class MarkingProjector(Projector):
    """Moves the cursor first, and writes what stands beside the run afterwards."""

    async def follow(self, stretches: Sequence[Stretch]) -> list[int | None]:
        return [None] * len(stretches)

    async def apply(self, attempt_id: AttemptId) -> int:
        return await apply(self, attempt_id, marks_first=True)


async def apply(projector: Projector, attempt_id: AttemptId, *, marks_first: bool) -> int:
    """Apply as the product does, but believe the stretch about where it begins."""
    for _ in range(TRIES_MAX):
        found = await projector.runs.find(attempt_id.run_id)
        if found is None or attempt_id.attempt > found.run.attempt:
            return 0
        record = await projector.documents.attempt(attempt_id)
        turn = Turn(found, attempt_id.attempt, record)
        stretch = await projector.events.stretch(attempt_id, turn.cursor)
        if not stretch:
            await projector._flush(found)
            return turn.cursor
        folded = fold(turn.view, stretch, (stretch[0].sequence or 1) - 1)
        flushed = await projector.journal_flush.write(found.run)
        if marks_first and turn.is_current:
            await projector.runs.advance([projector._advance(found, folded, flushed)])
        await projector._write_beside([folded])
        if not marks_first and turn.is_current:
            await projector.runs.advance([projector._advance(found, folded, flushed)])
    raise Transient("contended", f"run {attempt_id.run_id} is changing concurrently; send again")


class ForgetfulRuns(Runs):
    """Never finds a run whose journal is to be emptied, and leaves it as it is."""

    async def with_journal(self, collection: str) -> Sequence[Run]:
        return []

    async def unload(self, found: Found, flushed: int) -> None:
        return None


class StaleCountingGroups(Groups):
    """Closes a group with the counters of its last look: what befell a member since is not counted."""

    async def close(self, group: Document, entry: Entry, members: Members) -> Document | None:
        return await super().close(group, entry, Members(**group["counts"]))


async def number_by_run(db: Database) -> None:
    """Let a position be a run's and a number, as if attempts had no numbering of their own."""
    await db.events.drop_index("by_sequence")
    await db.events.create_index(
        [("runId", 1), ("sequence", 1)],
        name="by_sequence",
        unique=True,
        partialFilterExpression={"sequence": {"$exists": True}},
    )


async def leave_schema(db: Database) -> None:
    """Leave the indexes as the migration made them."""


def honest_ingest(ingest: Ingest) -> Ingest:
    """Leave the sender's view of ingest as it is."""
    return ingest


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a fleet is made of; as it stands here, of the product's own parts."""

    queue: type[MongoQueue] = MongoQueue
    runs: type[Runs] = Runs
    events: type[Events] = Events
    projector: type[Projector] = Projector
    groups: type[Groups] = Groups
    ingest: Callable[[Ingest], Ingest] = honest_ingest
    schema: Callable[[Database], Any] = leave_schema
    write_concern: WriteConcern | None = None


PRODUCT: Final = Parts()
BUGS: Final[Mapping[str, Parts]] = {
    "no fence": Parts(queue=UnfencedQueue),
    "sequence per run": Parts(schema=number_by_run),
    "read-then-write rescue": Parts(runs=BlindRescueRuns),
    "w:1": Parts(write_concern=WriteConcern(1)),
    "no compare on apply": Parts(runs=BlindApplyRuns),
    "apply over a gap": Parts(events=LeapingEvents, projector=LeapingProjector),
    "journal never swept": Parts(runs=ForgetfulRuns),
    "mark before apply": Parts(projector=MarkingProjector),
    "stale counters": Parts(groups=StaleCountingGroups),
    "drop on error": Parts(ingest=DroppingIngest),
}

NO_BUG: Final = "none"
# These two have their races alone: a worker's sender takes no ingest but the product's, and a replica that
# finds an index in another form refuses to start.
RACES_ALONE: Final = frozenset({"drop on error", "sequence per run"})
COMPOSABLE: Final[Mapping[str, Parts]] = {
    NO_BUG: PRODUCT,
    **{name: parts for name, parts in BUGS.items() if name not in RACES_ALONE},
}
