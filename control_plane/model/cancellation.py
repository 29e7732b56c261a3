"""The effect of a cancel on a run, pure."""

from __future__ import annotations

from typing import Any

from control_plane.model.groups.pruning import Stop
from control_plane.model.run import Run
from events.lifecycle import FINAL, LIVE, Cause, Illegal, next_status
from events.queue.journal import Decision, ServerTime


def cancel_decision(run: Run, *, by: str, stop: Stop | None = None) -> Decision | Illegal:
    """Return the decision to cancel: at once while nobody holds the run, else an order to its owner.

    With `stop` the run is a member that is pruned.
    """
    target = next_status(run.status, Cause.CANCEL)
    if isinstance(target, Illegal):
        return target
    asked: dict[str, Any] = {"by": by, "at": ServerTime()}
    if stop is not None:
        asked["pruned"] = stop.stored()
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
