"""The effect of a cancel on a run, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from control_plane.model.groups.pruning import Stop
from control_plane.model.run import Run
from events.formatting import vain_wait
from events.lifecycle import FINAL, LIVE, Cause, Illegal, Status, next_status
from events.queue.journal import Decision, ServerTime


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A run for which another one waits; `status` is None where there is none of this id any more.

    `problem` says why its files cannot be an input.
    """

    run_id: str
    status: Status | None
    problem: str | None = None

    def stored(self) -> dict[str, Any]:
        """Return it as a cancel keeps it."""
        problem = {} if self.problem is None else {"problem": self.problem}
        return {"run": self.run_id, "status": self.status, **problem}


def cancel_decision(
    run: Run, *, by: str, stop: Stop | None = None, predecessor: Predecessor | None = None
) -> Decision | Illegal:
    """Return the decision to cancel: at once while nobody holds the run, else an order to its owner.

    With `stop` the run is a member that is pruned, with `predecessor` it waited for that one in vain.
    """
    target = next_status(run.status, Cause.CANCEL)
    if isinstance(target, Illegal):
        return target
    asked: dict[str, Any] = {"by": by, "at": ServerTime()}
    if stop is not None:
        asked["pruned"] = stop.stored()
    if predecessor is not None:
        asked["after"] = predecessor.stored()
    sets: dict[str, Any] = {"cancelRequested": asked}
    if target in FINAL:
        sets["finishedAt"] = ServerTime()
    return Decision(Cause.CANCEL, target, by, sets=sets)


def prune_decision(run: Run, attempt: int, stop: Stop, *, by: str) -> Decision | Illegal | None:
    """Return the decision to prune a member; None where this attempt does not work on it any more.

    What has ended meanwhile is left as it is, and so is another attempt: it measured nothing of this.
    """
    if run.status not in LIVE or run.attempt != attempt:
        return None
    return cancel_decision(run, by=by, stop=stop)


def vain_wait_of(run: Mapping[str, Any]) -> str | None:
    """Return for which run, and its end, a stored run was canceled; None where it was not."""
    after = (run.get("cancelRequested") or {}).get("after")
    if not after:
        return None
    return vain_wait(after["run"], after["status"], after.get("problem"))
