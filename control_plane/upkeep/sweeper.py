"""Promotes delayed runs, times out runs that waited too long, flushes journals into the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.concurrency.loops import serve_all
from control_plane.log.journal_flush import JournalFlush
from control_plane.model.run import Run
from control_plane.store.queue.runs import BATCH_MAX, Found, Runs
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import Cause, Status
from events.queue.journal import Decision, ServerTime

TICK_S: Final = 1.0
PAGES_MAX: Final = 50
BY: Final = "sweeper"


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Applies changes by time. Several replicas may run it at once: each change is a compare-and-set."""

    runs: Runs
    journal_flush: JournalFlush

    async def run_once(self) -> int:
        """Do one round over every queue; return how many runs were touched."""
        return sum(await serve_all(QUEUES, self._queue, at_once=1))

    async def _queue(self, collection: str) -> int:
        async def promote(run: Run) -> bool:
            return await self._decide(collection, run, promotion())

        async def give_up(run: Run) -> bool:
            return await self._decide(collection, run, queue_timeout(run))

        async def chronicle(run: Run) -> bool:
            await self.runs.unload(Found(collection, run), await self.journal_flush.write(run))
            return True

        async def run_all(sweep: Sweep) -> int:
            return await self._all(collection, sweep)

        # What the first two decide, the third takes into the log.
        sweeps = [
            Sweep(self.runs.due, promote),
            Sweep(self.runs.overdue, give_up),
            Sweep(self.runs.with_journal, chronicle),
        ]
        return sum(await serve_all(sweeps, run_all, at_once=1))

    async def _all(self, collection: str, sweep: Sweep) -> int:
        """Sweep page by page until nothing is left; what one tick cannot do waits for the next."""
        touched = 0
        for _ in range(PAGES_MAX):
            page = await sweep.find(collection)
            moved = sum(await serve_all(page, sweep.touch))
            touched += moved
            if len(page) < BATCH_MAX or not moved:
                break
        return touched

    async def _decide(self, collection: str, run: Run, decision: Decision) -> bool:
        return await self.runs.decide(Found(collection, run), decision) is not None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A query for a page of runs that are due, and the action on each."""

    find: Callable[[str], Awaitable[Sequence[Run]]]
    touch: Callable[[Run], Awaitable[bool]]


def promotion() -> Decision:
    """Return the decision that puts a delayed run into the queue; its place in line stays."""
    return Decision(Cause.PROMOTE, Status.QUEUED, BY, sets={"notBefore": None})


def queue_timeout(run: Run) -> Decision:
    """Return the decision that fails a run that was not claimed in time."""
    error = {
        "code": "QUEUE_TIMEOUT",
        "message": f"no pod took the run within its queue limit; its class is {run.class_key}",
        "stage": None,
        "retryable": False,
        "attempt": run.attempt,
    }
    sets = {"error": error, "finishedAt": ServerTime()}
    return Decision(Cause.QUEUE_TIMEOUT, Status.FAILED, BY, sets=sets)
