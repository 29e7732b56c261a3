"""Folds stored events into the documents, one stretch of positions at a time.

Law: the documents beside the run are written first, each guarded by its own position; then the cursor, by
compare-and-set on (revision, lastEventSeq). A replica that loses reads again. After a crash in between, the
next application folds the same stretch to the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from control_plane.log.journal_flush import JournalFlush
from control_plane.model.projection import AttemptView, Fold, SetAside, fold
from control_plane.model.run import Run
from control_plane.store.database import Document
from control_plane.store.log.documents import AttemptRecord, Documents, stage_document
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import Advance, Found, Runs
from events.envelope import Event, storage_id
from events.lifecycle import Illegal, Status, advance
from events.queue.journal import Decision, Expression
from events.queue.settlement import end_decision
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId

TRIES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Stretch:
    """Stored events of one attempt in the order of their positions, and its run as it was read before."""

    found: Found
    attempt: int
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Turn:
    """The projection state of one attempt."""

    found: Found
    attempt: int
    record: AttemptRecord

    @property
    def is_current(self) -> bool:
        return self.attempt == self.found.run.attempt

    @property
    def is_sealed(self) -> bool:
        """Say whether a person's verdict has sealed the log: then nothing more is applied."""
        return self.is_current and self.found.run.sealed is not None

    @property
    def cursor(self) -> int:
        return self.found.run.last_event_seq if self.is_current else self.record.seq

    @property
    def view(self) -> AttemptView:
        run = self.found.run
        return _view_of(run, self.record) if self.is_current else replace(self.record.view, kind=run.kind)


@dataclass(frozen=True, slots=True)
class Projector:
    """Applies the stored events of an attempt to the documents."""

    runs: Runs
    events: Events
    documents: Documents
    journal_flush: JournalFlush
    clock: Clock
    ids: Ids

    async def apply(self, attempt_id: AttemptId) -> int:
        """Apply every stored event of the attempt that has no gap before it; return its cursor.

        Raises `Transient` when others keep moving the run so fast that no turn was ours.
        """
        for _ in range(TRIES_MAX):
            found = await self.runs.find(attempt_id.run_id)
            if found is None or attempt_id.attempt > found.run.attempt:
                return 0
            record = await self.documents.attempt(attempt_id)
            turn = Turn(found, attempt_id.attempt, record)
            stretch = [] if turn.is_sealed else await self.events.stretch(attempt_id, turn.cursor)
            if not stretch:
                await self._flush(found)
                return turn.cursor
            await self._write([(turn, fold(turn.view, stretch, turn.cursor))])
        raise Transient("contended", f"run {attempt_id.run_id} is changing concurrently; send again")

    async def follow(self, stretches: Sequence[Stretch]) -> list[int | None]:
        """Apply events that are known to be stored, of several attempts at once; return the cursors.

        None where nothing is known: the events do not continue the attempt, others moved its run, or the
        store did not confirm all. There `apply` has to look, at each alone.
        """
        try:
            return await self._follow(stretches)
        except Transient:
            return [None] * len(stretches)

    async def _follow(self, stretches: Sequence[Stretch]) -> list[int | None]:
        names = [AttemptId(each.found.run.id, each.attempt) for each in stretches]
        records = await self.documents.attempt_records(names)
        cursors: list[int | None] = [None] * len(stretches)
        turns: dict[str, tuple[int, Turn, Fold]] = {}  # of a run, one turn at a time
        for index, (each, record) in enumerate(zip(stretches, records, strict=True)):
            turn = Turn(each.found, each.attempt, record)
            events = [event for event in each.events if (event.sequence or 0) > turn.cursor]
            if not events or turn.is_sealed:
                cursors[index] = turn.cursor
            elif events[0].sequence == turn.cursor + 1 and each.found.run.id not in turns:
                turns[each.found.run.id] = (index, turn, fold(turn.view, contiguous(events), turn.cursor))
        if turns and await self._write([(turn, folded) for _, turn, folded in turns.values()]):
            ends = {(id_, turn.attempt, folded.seq + 1) for id_, (_, turn, folded) in turns.items()}
            behind = await self.events.holding(ends)
            for run_id, (index, turn, folded) in turns.items():
                cursors[index] = None if (run_id, turn.attempt) in behind else folded.seq
        return cursors

    async def _flush(self, found: Found) -> None:
        flushed = await self.journal_flush.write(found.run)
        if flushed:
            await self.runs.unload(found, flushed)

    async def _write(self, turns: Sequence[tuple[Turn, Fold]]) -> bool:
        """Write what was folded, what stands beside the runs first; False if some of the runs had moved."""
        flushed = await self.journal_flush.write_all([turn.found.run for turn, _ in turns])
        await self._write_beside([folded for _, folded in turns])
        advances = [
            self._advance(turn.found, folded, last)
            for (turn, folded), last in zip(turns, flushed, strict=True)
            if turn.is_current
        ]
        return not advances or await self.runs.advance(advances)

    async def _write_beside(self, folds: Sequence[Fold]) -> None:
        await self.documents.refuse([self._letter(*each) for folded in folds for each in folded.set_aside])
        await self.documents.write([write for folded in folds for write in folded.writes.values()])
        await self.documents.advance_attempts([(folded.view, folded.seq) for folded in folds])

    def _advance(self, found: Found, folded: Fold, flushed: int) -> Advance:
        decision = self._end(found.run, folded)
        view = run_view(found.run, folded)
        if decision is None:
            view["status"] = _phase(found.run.status, folded).value
        return Advance(found, view, flushed, decision)

    def _end(self, run: Run, folded: Fold) -> Decision | None:
        if folded.end is None:
            return None
        by = f"event:{run.id}/{run.attempt}/{folded.view.end_seq}#a{run.attempt}"
        decision = end_decision(run.standing, run.attempt, folded.end, by=by, jitter=self.ids.fraction())
        # The worker settled before, or a rescue took the run: the end is decided already.
        return None if isinstance(decision, Illegal) else decision

    def _letter(self, event: Event, aside: SetAside) -> Document:
        return {
            "_id": f"aside/{storage_id(event.run_id, event.source, event.id)}",
            "at": self.clock.now(),
            "code": aside.code,
            "message": aside.reason,
            "runId": event.run_id,
            "attempt": event.attempt,
            "sequence": event.sequence,
        }


def contiguous(events: Sequence[Event]) -> list[Event]:
    """Return the events up to the first gap, each position once."""
    found = [events[0]]
    for event in events:
        if event.sequence == (found[-1].sequence or 0) + 1:
            found.append(event)
        elif event.sequence != found[-1].sequence:
            break
    return found


def run_view(run: Run, folded: Fold) -> dict[str, Any]:
    """Return the fields of the run that the log owns, after `folded`."""
    complete = folded.end is not None or (run.settled is not None and folded.seq >= run.settled.last)
    view: dict[str, Any] = {
        "lastEventSeq": folded.seq,
        "currentStage": stage_document(folded.view.current_stage),
        "startedAt": folded.view.started_at,
        "validation": folded.view.validation,
    }
    if folded.view.summary is not None:  # until an attempt says its own, those of an earlier one stay
        view |= {"summary": dict(folded.view.summary), "summaryAttempt": folded.view.attempt}
    if complete:
        view |= {"logOpen": False, "logIncomplete": None}
    else:
        view["logIncomplete"] = Expression(_mark_moved_to(folded.seq))
    return view


def _mark_moved_to(seq: int) -> Any:
    """Return the mark of a log that was given up, after a part of it has come after all.

    The server asks whether there is one: it may have been set since the run was read.
    """
    is_marked = {"$ne": [{"$ifNull": ["$logIncomplete", None]}, None]}
    return {"$cond": [is_marked, {"from": seq + 1, "to": "$logIncomplete.to"}, None]}


def _view_of(run: Run, record: AttemptRecord) -> AttemptView:
    """Return the view at the run's own cursor, behind which the attempt's may be ahead after a crash."""
    return AttemptView(
        run_id=run.id,
        attempt=run.attempt,
        current_stage=run.current_stage,
        started_at=run.started_at,
        validation=run.validation,
        error=record.view.error,
        end_seq=record.view.end_seq,
        summary=_summary_of(run),
        kind=run.kind,
        marks=record.view.marks,
    )


def _summary_of(run: Run) -> Mapping[str, Any] | None:
    """Return the headline numbers that the current attempt has said, as far as it was applied."""
    return None if run.summary is None or run.summary.attempt != run.attempt else run.summary.values


def _phase(status: Status, folded: Fold) -> Status:
    for cause in folded.phases:
        status = advance(status, cause)
    return status
