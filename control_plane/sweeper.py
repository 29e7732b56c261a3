"""Moves what time moves: delayed runs into the queue, forgotten ones out, decisions into the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from control_plane.chronicle import Chronicler
from control_plane.run import Run
from control_plane.store.runs import Found, Runs
from control_plane.store.schema import QUEUES
from events.journal import Decision, ServerTime
from events.lifecycle import Cause, Status

TICK_S: Final = 1.0
BY: Final = "sweeper"


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Any number of replicas may sweep at once: each change is a compare-and-set."""

    runs: Runs
    chronicler: Chronicler

    async def run_once(self) -> int:
        """Do one round over every queue; return how many runs were touched."""
        return sum([await self._queue(collection) for collection in QUEUES])

    async def _queue(self, collection: str) -> int:
        touched = 0
        for run in await self.runs.due(collection):
            touched += await self._decide(collection, run, promotion())
        for run in await self.runs.overdue(collection):
            touched += await self._decide(collection, run, queue_timeout(run))
        for run in await self.runs.with_journal(collection):
            await self.runs.unload(Found(collection, run), await self.chronicler.write(run))
            touched += 1
        return touched

    async def _decide(self, collection: str, run: Run, decision: Decision) -> bool:
        return await self.runs.decide(Found(collection, run), decision) is not None


def promotion() -> Decision:
    """Return the decision that puts a delayed run into the queue; its place in line stays."""
    return Decision(Cause.PROMOTE, Status.QUEUED, BY, sets={"notBefore": None})


def queue_timeout(run: Run) -> Decision:
    """Return the decision that gives up on a run that nobody took."""
    error = {
        "code": "QUEUE_TIMEOUT",
        "message": f"no pod took the run in time; its class is {run.class_key}",
        "stage": None,
        "retryable": False,
        "attempt": run.attempt,
    }
    sets = {"error": error, "finishedAt": ServerTime()}
    return Decision(Cause.QUEUE_TIMEOUT, Status.FAILED, BY, sets=sets)
