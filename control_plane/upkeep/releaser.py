"""Releases runs that wait for others, and cancels those that wait in vain.

Law: each decision is a compare-and-set on the run that waits, so that any number of replicas may look.
What the change feed tells makes it quick; what it missed, a look at every run that waits finds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.concurrency.loops import serve_all
from control_plane.files.inputs import Inputs, InputsAsGiven
from control_plane.model.cancellation import Predecessor, cancel_decision
from control_plane.model.run import Run
from control_plane.store.changes import Change
from control_plane.store.queue.runs import Found, Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.queue.successors import PAGE_MAX, Successors
from events.kinds.declaring.queues import RUNS
from events.lifecycle import FINAL, SUCCEEDED, Cause, Illegal, Status
from events.queue.journal import Decision, Expression
from events.runtime.errors import Rejected
from events.text.predecessors import group_in

log = logging.getLogger(__name__)

TICK_S: Final = 0.5
BY: Final = "releaser"
ENDED_MAX: Final = 1_000  # that are looked at in one round; of more, the look at every run that waits tells
PAGES_MAX: Final = 20


@dataclass(slots=True)
class Releaser:
    """Looks at what has waited for the runs that ended, and at a page of all that waits, behind `after`."""

    runs: Runs
    successors: Successors
    inputs: Inputs = field(default_factory=InputsAsGiven)
    ended: set[str] = field(default_factory=set)
    after: str = ""

    def hear(self, change: Change) -> None:
        """Take note of a run that has ended."""
        if change.has_ended and change.collection == RUNS.collection and len(self.ended) < ENDED_MAX:
            self.ended.add(change.id)

    async def run_once(self) -> int:
        """Do one round; return how many runs were released or canceled."""
        page = await self.successors.waiting(self.after)
        self.after = page[-1].id if len(page) == PAGE_MAX else ""
        is_all = len(page) < PAGE_MAX and not self.after
        ended, self.ended = self.ended, set()
        moved = await self._look(page)
        if not is_all and ended:
            moved += await self._follow(ended)
        return moved

    async def _follow(self, ended: set[str]) -> int:
        """Look at all that waits for runs that ended, and keep in mind those whose log is not whole."""
        moved, after = 0, ""
        for _ in range(PAGES_MAX):
            page = await self.successors.waiting_for(ended, after)
            moved += await self._look(page)
            if len(page) < PAGE_MAX:
                break
            after = page[-1].id
        return moved

    async def _look(self, page: list[Run]) -> int:
        wanted = {each for run in page for each in run.after}
        standing = await self.successors.standing(wanted) if wanted else {}
        self.ended |= {
            name for name, each in standing.items() if each.get("logOpen") and each.get("status") in FINAL
        }

        async def serve(run: Run) -> bool:
            decision = next_step(run, standing)
            if decision is not None and decision.cause is Cause.RELEASE:
                decision = await self._with_inputs(run, decision)
            return await self._decide(run, decision)

        return sum(await serve_all(page, serve))

    async def _with_inputs(self, run: Run, release: Decision) -> Decision | None:
        """Write down what the inputs of a run are, now that all are there; without one, it is canceled.

        Whoever comes second writes the same.
        """
        submissions = Submissions(self.runs.db)
        stored = await submissions.spec(run.id)
        if stored is None:
            return release
        try:
            spec = await self.inputs.exact(run.kind, stored["spec"], by=BY)
        except Rejected as error:
            last = Predecessor(run.after[-1], Status.COMPLETED, error.message)
            decision = cancel_decision(run, by=BY, predecessor=last)
            return None if isinstance(decision, Illegal) else decision
        if spec != stored["spec"]:
            await submissions.put_inputs(run.id, spec["inputs"])
        return release

    async def _decide(self, run: Run, decision: Decision | None) -> bool:
        if decision is None or await self.runs.decide(Found(RUNS.collection, run), decision) is None:
            return False
        log.info("run.released", extra={"run": run.id, "to": decision.to, "by": decision.by})
        return True


def next_step(run: Run, standing: Mapping[str, Mapping[str, Any]]) -> Decision | None:
    """Return what becomes of a run that waits, by where the others stand; None while it waits on."""
    ends = [_predecessor(each, standing.get(each)) for each in run.after]
    for each in ends:
        if each.status is None or (each.status in FINAL and each.status not in SUCCEEDED):
            by = each.run_id if group_in(each.run_id) else f"run:{each.run_id}"
            decision = cancel_decision(run, by=by, predecessor=each)
            return None if isinstance(decision, Illegal) else decision
    if any(each.status not in SUCCEEDED or standing[each.run_id].get("logOpen") for each in ends):
        return None  # also one that has completed, and whose files may not be registered yet
    return release(run)


def release(run: Run) -> Decision:
    """Return the decision by which a run waits for others no more: its wait for a pod begins now."""
    since: Any = "$$NOW"
    if run.not_before is not None:
        since = {"$max": ["$$NOW", {"$literal": run.not_before}]}
    deadline = {"$dateAdd": {"startDate": since, "unit": "second", "amount": "$queueLimitS"}}
    sets = {"waitsForRuns": False, "queuedAt": Expression(since), "queueDeadline": Expression(deadline)}
    # One with a start is promoted as any other.
    return Decision(Cause.RELEASE, Status.QUEUED if run.not_before is None else Status.DELAYED, BY, sets=sets)


def _predecessor(run_id: str, found: Mapping[str, Any] | None) -> Predecessor:
    return Predecessor(run_id, None if found is None else Status(found["status"]))
