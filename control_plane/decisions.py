"""What people decide about a run: read, decide purely, compare-and-set, again while others are faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from control_plane.cancellation import cancel_decision
from control_plane.run import Run
from control_plane.store.documents import Documents
from control_plane.store.runs import Found, Runs
from events.clock import Clock, Ids
from events.errors import Conflict, NotFound, Transient
from events.journal import Decision, ServerTime
from events.lifecycle import Cause, Illegal, Status, next_status

TRIES_MAX: Final = 50

# None: the run stands as wished already.
Choose = Callable[[Run], Decision | Illegal | None]


@dataclass(frozen=True, slots=True)
class Review:
    """A person's verdict."""

    verdict: Literal["pass", "fail"]
    notes: str
    reviewer: str


@dataclass(frozen=True, slots=True)
class Decider:
    """Makes decisions that a person asked for. Raises `NotFound`, `Conflict`, `Transient`."""

    runs: Runs
    documents: Documents
    ids: Ids
    clock: Clock

    async def cancel(self, run_id: str, *, by: str) -> Run:
        """Cancel a run: at once while it waits, else by an order to its owner; twice is the same."""

        def choose(run: Run) -> Decision | Illegal | None:
            # Somebody was faster, or it was we and the answer was lost: all the same.
            is_done = run.status in (Status.CANCELING, Status.CANCELED)
            return None if is_done else cancel_decision(run, by=by)

        return await self._decide(run_id, choose)

    async def review(self, run_id: str, review: Review) -> Run:
        """Record a person's verdict on a run that waits for one."""
        run = await self._decide(run_id, lambda run: review_decision(run, review))
        # Now, and not at the next sweep: whoever asked looks at once.
        await self.documents.chronicle(run.id, run.journal)
        return run

    async def _find(self, run_id: str) -> Found:
        found = await self.runs.find(run_id)
        if found is None:
            raise NotFound("unknown_run", f"there is no run {run_id}")
        return found

    async def _decide(self, run_id: str, choose: Choose) -> Run:
        for _ in range(TRIES_MAX):
            found = await self._find(run_id)
            decision = choose(found.run)
            if decision is None:
                return found.run
            if isinstance(decision, Illegal):
                raise Conflict("illegal_transition", str(decision))
            decided = await self.runs.decide(found, decision)
            if decided is not None:
                return decided.run
        raise Transient("contended", f"run {run_id} changes too fast; try again")


def review_decision(run: Run, review: Review) -> Decision | Illegal:
    """Return the decision that a verdict stands for."""
    usual = next_status(run.status, Cause.REVIEW)
    if isinstance(usual, Illegal):
        return usual
    target = Status.HUMAN_VALIDATED if review.verdict == "pass" else Status.HUMAN_REJECTED
    by = f"reviewer:{review.reviewer}"
    said = {"verdict": review.verdict, "notes": review.notes, "reviewer": review.reviewer}
    # In the decision itself, so that no crash can keep the verdict and lose its reasons.
    return Decision(Cause.REVIEW, target, by, sets={"finishedAt": ServerTime(), "humanVerdict": said})
