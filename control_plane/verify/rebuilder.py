"""Makes the documents of runs anew from the event log, beside control planes that apply events to them.

Law: every write is a compare-and-set on what was read, and made only if the run stood still while it was
read. After its writes a run is read again, until nothing is left to write. In each order with those who
write too:

- An application (`log/projector.py`) folds a stretch, and writes each document that has a lower `seq`, then
  the attempt, then the run's cursor by (revision, lastEventSeq). If it writes a document before the rebuild
  does, the rebuild's write fails, and the run is read again. If it writes it afterwards, the document stands
  at the last event that was read: a stretch up to there leaves it, and a longer one adds what it tells.
- A missing document is inserted by one of the two. The other one collides with it: the application leaves it
  or adds to it, the rebuild reads again.
- A document is removed if no event tells of it. Events are stored before documents, and documents are read
  before the log, so what tells of a document has been read, or the run did not stand still.
- Decisions follow from events as application moves the cursor over them. A cursor that can stand where it is
  (`resumption.py`) is moved by application alone, which the rebuild asks for where nobody else does it. Any
  other is set to where it can stand, and an application that has read it before fails.
- A verdict that seals the record between the look and the writes leaves documents beyond the seal. The next
  look sets them back: the seal stays where it is.
- Claims, decisions and journal flushes write fields that the rebuild does not write. Each changes the run,
  or the document of the attempt, so that the rebuild's write to it fails.
- An application that has read a wrong view of a run or of an attempt may write it once more after the
  rebuild. Where a log is open the rebuild waits a moment and looks again. What comes later still is found by
  the next one.
- Of two rebuilds the second one to write a document fails, and finds it as the log tells.
- A rebuild that is killed has written some documents. Each is as the log tells, and the next rebuild goes
  on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol

from control_plane.store.verify.collecting import Unjudged
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.queries import VerifyReads
from control_plane.store.verify.repairs import Repairs
from control_plane.verify.repair import Change, Insert, Plan, Remove, Repair, plan
from control_plane.verify.replay import replay
from control_plane.verify.verifier import (
    HAND_MADE,
    LOOK_AGAIN_S,
    REPLACED,
    TRIES_MAX,
    clipped,
    is_young,
    odd,
)
from events.runtime.errors import Rejected, Transient
from events.text.attempt_id import AttemptId

MISSES_MAX: Final = 5
CONTENDED: Final = "contended"


class Application(Protocol):
    """Applies events to a run, with the decisions that follow from them."""

    async def apply(self, attempt_id: AttemptId) -> int:
        """Apply every stored event of the attempt that has no gap before it; return its cursor."""
        ...


@dataclass(slots=True)
class Rebuilt:
    """What was written of a run, in words, and what is not as its log tells all the same."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def clipped(self) -> Rebuilt:
        """Return it with messages of a bounded length."""
        return Rebuilt([*map(clipped, self.done)], [*map(clipped, self.left)])


@dataclass(frozen=True, slots=True)
class Rebuilder:
    """Rebuilds runs one by one; a dry one says what it would write.

    What happened a moment ago may still be on its way into the documents: of a young run only what stays
    wrong until `patience_s` is over is written.
    """

    reads: VerifyReads
    repairs: Repairs
    application: Application
    patience_s: float = 0.0
    is_dry: bool = False

    async def rebuild(self, collection: str, run_id: str) -> Rebuilt:
        """Make a run's documents equal to its log. Raises `Transient` while the store does not answer."""
        return (await self._rebuild(collection, run_id)).clipped()

    async def _rebuild(self, collection: str, run_id: str) -> Rebuilt:
        result, misses, waited_s = Rebuilt(), Counter[str](), 0.0
        wanted = Plan()
        for _ in range(TRIES_MAX):
            before = await self.reads.position(collection, run_id)
            try:
                evidence = await self.reads.evidence(collection, run_id)
                if evidence is None:
                    result.left += [f"{collection}: its id is no text"] if REPLACED in run_id else []
                    return result
                wanted = _wanted(evidence, misses)
            except Unjudged as error:
                result.left.append(f"{error.invariant}: {error.message}")
                return result
            except HAND_MADE as error:
                result.left.append(odd(run_id, error).message)
                return result
            if wanted.is_done:
                return result
            stood_still = await self.reads.position(collection, run_id) == before
            if not stood_still or (is_young(evidence) and waited_s < self.patience_s):
                waited_s += await self._pause()
            elif self.is_dry or not wanted.is_to_be_written:
                result.done += wanted.words
                result.left += wanted.left
                return result
            else:
                await self._write(evidence, wanted, result, misses)
                waited_s += await self._pause() if evidence.run["logOpen"] else 0.0
        said = "; ".join((*wanted.words, *wanted.left))
        result.left.append(f"it moves too fast, run it again: {said}")
        return result

    async def _pause(self) -> float:
        pause_s = min(LOOK_AGAIN_S, self.patience_s)
        await asyncio.sleep(pause_s)
        return pause_s

    async def _write(self, evidence: Evidence, wanted: Plan, result: Rebuilt, misses: Counter[str]) -> None:
        for repair in wanted.repairs:
            try:
                is_written = await self._write_one(repair)
            except Rejected:
                is_written = False
                misses[str(repair)] = MISSES_MAX
            if is_written:
                result.done.append(str(repair))
            else:
                misses[str(repair)] += 1
        if wanted.late is None:
            return
        try:
            cursor = await self.application.apply(AttemptId(evidence.run_id, wanted.late.attempt))
        except HAND_MADE:
            return  # a document was spoiled since the look: the next one sees it
        except Transient as error:
            if error.code != CONTENDED:
                raise
        else:
            result.done += [str(wanted.late)] if cursor >= wanted.late.first else []

    async def _write_one(self, repair: Repair) -> bool:
        match repair:
            case Insert():
                return await self.repairs.insert(repair.collection, repair.document)
            case Change():
                return await self.repairs.change(repair.collection, repair.was, repair.sets, repair.drops)
            case Remove():
                return await self.repairs.remove(repair.collection, repair.was)


def _wanted(evidence: Evidence, misses: Counter[str]) -> Plan:
    """Return what is to be written, without what the store does not let be written."""
    told = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    return plan(evidence, told).without({each for each, count in misses.items() if count >= MISSES_MAX})
