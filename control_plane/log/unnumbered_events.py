"""Events without a sequence: a heartbeat that updates the run, or a lifecycle event that decides.

Law: a lifecycle event without a number is a decision. It goes through the transition table, is journaled,
and counts once, however often it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from control_plane.model.cancellation import cancel_decision
from control_plane.model.run import Run
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import Found, Runs
from events import catalog as c
from events.envelope import Event
from events.lifecycle import Cause, Illegal, next_status
from events.queue.journal import Decision
from events.queue.settlement import End, end_decision
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Transient

TRIES_MAX: Final = 50

_PHASES: Final = {c.RunStarted: Cause.STARTED, c.ValidationAutoStarted: Cause.AUTO_STARTED}
_DECIDING: Final = (
    c.RunStarted,
    c.ValidationAutoStarted,
    c.RunCompleted,
    c.RunFailed,
    c.RunCanceled,
    c.RunPreempted,
)


@dataclass(frozen=True, slots=True)
class UnnumberedEvents:
    """Applies events that have no position in an attempt's log."""

    runs: Runs
    events: Events
    clock: Clock
    ids: Ids

    def decides(self, event: Event) -> bool:
        """Say whether `event`, sent without a sequence, changes the status of its run."""
        return isinstance(event.fact, _DECIDING)

    async def refusal(self, event: Event, event_id: str) -> str | None:
        """Return why the status change is illegal now; None if it is legal or already made."""
        found = await self.runs.find(event.run_id)
        if found is None:
            return f"there is no run {event.run_id}"
        if await self._is_done(found, event_id):
            return None
        decision = self._decision(found.run, event, event_id)
        return str(decision) if isinstance(decision, Illegal) else None

    async def apply(self, event: Event, event_id: str) -> None:
        """Apply a stored event; applying it twice changes nothing."""
        if isinstance(event.fact, c.RunHeartbeat):
            await self.runs.beat(event.run_id, event.attempt, self.clock.now())
        if not self.decides(event):
            return
        for _ in range(TRIES_MAX):
            found = await self.runs.find(event.run_id)
            if found is None or await self._is_done(found, event_id):
                return
            decision = self._decision(found.run, event, event_id)
            # Legal when it was stored, overtaken since: the log shows it, the run stays.
            if isinstance(decision, Illegal) or await self.runs.decide(found, decision):
                return
        raise Transient("contended", f"run {event.run_id} is changing concurrently; send again")

    async def _is_done(self, found: Found, event_id: str) -> bool:
        by = _actor(event_id)
        if any(entry.by == by for entry in found.run.journal):
            return True
        return await self.events.decided_by(found.run.id, by)

    def _decision(self, run: Run, event: Event, event_id: str) -> Decision | Illegal:
        by = _actor(event_id)
        match event.fact:
            case c.RunStarted() | c.ValidationAutoStarted() as fact:
                cause = _PHASES[type(fact)]
                target = next_status(run.status, cause)
                return target if isinstance(target, Illegal) else Decision(cause, target, by)
            case c.RunCanceled():
                return cancel_decision(run, by=by)
            case c.RunCompleted():
                how = End("completed")
            case c.RunFailed() as fact:
                how = End("failed", fact.code, fact.message, fact.stage, fact.retryable)
            case _:
                how = End("preempted")
        return end_decision(run.standing, run.attempt, how, by=by, jitter=self.ids.fraction())


def _actor(event_id: str) -> str:
    return f"event:{event_id}"
