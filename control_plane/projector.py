"""Folds stored events into the documents, stretch by stretch.

Law: documents beside the run first, each guarded by its own position; then the cursor, by
compare-and-set on (revision, lastEventSeq). Whoever loses reads again. A crash in between
is mended by the next application, which folds the same stretch to the same documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from control_plane.chronicle import Chronicler
from control_plane.projection import AttemptView, Fold, SetAside, fold
from control_plane.run import Run
from control_plane.store.database import Document
from control_plane.store.documents import AttemptRecord, Documents, stage_document
from control_plane.store.events import Events
from control_plane.store.runs import Found, Runs
from events.clock import Clock, Ids
from events.envelope import Event, storage_id
from events.errors import Transient
from events.journal import Decision, Expression
from events.lifecycle import Illegal, Status, advance
from events.settlement import end_decision

TRIES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Projector:
    """Applies what the log holds of an attempt."""

    runs: Runs
    events: Events
    documents: Documents
    chronicler: Chronicler
    clock: Clock
    ids: Ids

    async def apply(self, run_id: str, attempt: int) -> int:
        """Apply every stored event of the attempt that has no gap before it; return its cursor.

        Raises `Transient` when others keep moving the run so fast that no turn was ours.
        """
        for _ in range(TRIES_MAX):
            found = await self.runs.find(run_id)
            if found is None or attempt > found.run.attempt:
                return 0
            record = await self.documents.attempt(run_id, attempt)
            is_current = attempt == found.run.attempt
            cursor = found.run.last_event_seq if is_current else record.seq
            stretch = await self.events.stretch(run_id, attempt, cursor)
            if not stretch:
                await self._flush(found)
                return cursor
            start = _view_of(found.run, record) if is_current else record.view
            folded = fold(start, stretch, cursor)
            flushed = await self.chronicler.write(found.run)
            await self._write(folded)
            if is_current:
                await self._commit(found, folded, flushed)
        raise Transient("contended", f"run {run_id} changes too fast; send again")

    async def _flush(self, found: Found) -> None:
        flushed = await self.chronicler.write(found.run)
        if flushed:
            await self.runs.unload(found, flushed)

    async def _write(self, folded: Fold) -> None:
        await self.documents.refuse([self._letter(*each) for each in folded.set_aside])
        await self.documents.write(list(folded.writes.values()))
        await self.documents.advance_attempt(folded.view, folded.seq)

    async def _commit(self, found: Found, folded: Fold, flushed: int) -> bool:
        decision = self._end(found.run, folded)
        view = run_view(found.run, folded)
        if decision is None:
            view["status"] = _phase(found.run.status, folded).value
        return await self.runs.advance(found, view=view, flushed=flushed, decision=decision)

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


def run_view(run: Run, folded: Fold) -> dict[str, Any]:
    """Return the fields of the run that the log owns, after `folded`."""
    complete = folded.end is not None or (run.settled is not None and folded.seq >= run.settled.last)
    view: dict[str, Any] = {
        "lastEventSeq": folded.seq,
        "currentStage": stage_document(folded.view.current_stage),
        "startedAt": folded.view.started_at,
        "validation": folded.view.validation,
    }
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
    )


def _phase(status: Status, folded: Fold) -> Status:
    for cause in folded.phases:
        status = advance(status, cause)
    return status
