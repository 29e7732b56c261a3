"""Rebuilds the documents of runs from the event log, while control planes apply events to them.

Law: every write is a compare-and-set on what was read, and made only if the run did not change while it was
read. After the writes a run is read again, until nothing is left to write. This is safe in any order with
other writers:

- An application (`log/projector.py`) folds a stretch, and writes each document that has a lower `seq`, then
  the attempt, then the run's cursor by (revision, lastEventSeq). If it writes a document before the rebuild
  does, the rebuild's write fails, and the run is read again. If it writes it afterwards, the document is at
  the last event that was read: a stretch up to there does not change it, and a longer one adds its events.
- A missing document is inserted by one of the two. The insert of the other one fails: the application then
  leaves the document or adds to it, the rebuild reads again.
- A document is removed if no event makes it. Events are stored before documents, and documents are read
  before the log. So the events of a document have been read, or the run changed meanwhile.
- Decisions follow from events as application moves the cursor over them. A valid cursor (`resumption.py`) is
  moved only by application, which the rebuild requests if nobody else does it. An invalid cursor is set to a
  valid position, and an application that has read it before fails.
- A verdict that seals the record between the read and the writes leaves documents beyond the seal. The next
  read sets them back: the seal does not move.
- Claims, decisions and journal flushes write fields that the rebuild does not write. Each changes the run,
  or the document of the attempt, so that the rebuild's write to it fails.
- An application that has read a wrong view of a run or of an attempt may write it once more after the
  rebuild. If a log is open, the rebuild waits a moment and reads again. A later write is found by the next
  rebuild.
- If two rebuilds write a document, the second write fails, and the document is already correct.
- Rows of results are written after the rest, each by compare-and-set, in pages. An application that has read
  nothing of a row writes it only where it is newer, so that both end in the row of the newest event.
- A rebuild that is killed has written some documents. Each is correct, and the next rebuild continues.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol

from control_plane.store.verify.collecting import HAND_MADE, Unjudged
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.queries import VerifyReads
from control_plane.store.verify.repairs import Repairs
from control_plane.verify.invariants import Case
from control_plane.verify.repair import Change, Insert, Plan, Remove, Repair, plan, unfit
from control_plane.verify.replay import replay
from control_plane.verify.result_rows import row_repairs
from control_plane.verify.verifier import (
    LOOK_AGAIN_S,
    REPLACED,
    ROWS_TOLD_MAX,
    TRIES_MAX,
    clipped,
    is_young,
    odd,
)
from events.runtime.errors import Rejected, Transient
from events.text.attempt_id import AttemptId

MISSES_MAX: Final = 5
ROW_LOOKS_MAX: Final = 5
CONTENDED: Final = "contended"


class Application(Protocol):
    """Applies events to a run, with the decisions that follow from them."""

    async def apply(self, attempt_id: AttemptId) -> int:
        """Apply every stored event of the attempt up to the first gap; return its cursor."""
        ...


@dataclass(slots=True)
class Rebuilt:
    """Descriptions of what was written for a run, and of the differences from its log that remain."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def clipped(self) -> Rebuilt:
        """Return it with shortened messages."""
        return Rebuilt([*map(clipped, self.done)], [*map(clipped, self.left)])


@dataclass(frozen=True, slots=True)
class Rebuilder:
    """Rebuilds runs one by one; a dry run only reports what it would write.

    Recent events may not be applied yet: for a young run, only differences that remain after `patience_s`
    are written.
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
                await self._rebuild_rows(evidence, result)
                return result
            stood_still = await self.reads.position(collection, run_id) == before
            if not stood_still or (is_young(evidence) and waited_s < self.patience_s):
                waited_s += await self._pause()
            elif self.is_dry or not wanted.is_to_be_written:
                result.done += wanted.words
                result.left += wanted.left
                await self._rebuild_rows(evidence, result)
                return result
            else:
                await self._write(evidence, wanted, result, misses)
                waited_s += await self._pause() if evidence.run["logOpen"] else 0.0
        words = "; ".join((*wanted.words, *wanted.left))
        result.left.append(f"it moves too fast, run it again: {words}")
        return result

    async def _rebuild_rows(self, evidence: Evidence, result: Rebuilt) -> None:
        """Make the rows of results equal to a log that is whole, until one look finds no difference."""
        case = Case(evidence, replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet))
        reasons = list(unfit(case))
        for _ in range(ROW_LOOKS_MAX):
            found = written = 0
            async for repair in row_repairs(self.reads.rows, case):
                found += 1
                if reasons:
                    result.left += [each for each in reasons if each not in result.left]
                    return
                if not self.is_dry and not await self._is_written(repair):
                    continue  # it has changed since, or cannot be written: the next look tells
                written += 1
                if len(result.done) < ROWS_TOLD_MAX:
                    result.done.append(str(repair))
            if written > ROWS_TOLD_MAX:
                result.done.append(f"{written:,} rows of results in all")
            if not found or self.is_dry:
                return
        result.left.append("rows of results still differ from its log: run it again")

    async def _is_written(self, repair: Repair) -> bool:
        try:
            return await self._write_one(repair)
        except Rejected:
            return False

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
    """Return the writes of a plan, without those that the store does not allow."""
    replayed = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
    return plan(evidence, replayed).without({each for each, count in misses.items() if count >= MISSES_MAX})
