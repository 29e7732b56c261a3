"""The effect of a cancel on a run, pure."""

from __future__ import annotations

from typing import Any

from control_plane.model.run import Run
from events.lifecycle import FINAL, Cause, Illegal, next_status
from events.queue.journal import Decision, ServerTime


def cancel_decision(run: Run, *, by: str) -> Decision | Illegal:
    """Return the decision to cancel: at once while nobody holds the run, else an order to its owner."""
    target = next_status(run.status, Cause.CANCEL)
    if isinstance(target, Illegal):
        return target
    sets: dict[str, Any] = {"cancelRequested": {"by": by, "at": ServerTime()}}
    if target in FINAL:
        sets["finishedAt"] = ServerTime()
    return Decision(Cause.CANCEL, target, by, sets=sets)
