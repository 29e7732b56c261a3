"""Derives the end of an attempt from the child's last event, its exit and our orders, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from events.catalog import RunCanceled, RunCompleted, RunFailed, RunPreempted
from events.kinds.declaring.fact import Fact
from pod_worker.child.exit_status import (
    KILLED,
    PROGRAM_KILLED,
    Exited,
    NeverStarted,
    Signalled,
    TimedOut,
    failure_for,
)

Order = Literal["cancel", "preempt"]
# Ends of the process that what it read may have caused; a full memory is this pod's own.
BEHIND_CHECKPOINTS: Final = frozenset({"SEGFAULT", "ABORTED", "EXITED", KILLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known after the child has ended.

    `reported` is its own end event, if there is one; `ordered` is why we told it to stop;
    `obstacle` is why it could not begin, or why a part of what it said could not be kept.
    """

    end: Exited | Signalled | NeverStarted
    reported: Fact | None = None
    ordered: Order | None = None
    timed_out: TimedOut | None = None
    obstacle: RunFailed | None = None
    oom_evidence: bool = False
    stage: str | None = None
    last_words: str = ""
    runs_programs: bool = False  # of people, which may signal the process that runs them


def final_fact(evidence: Evidence) -> Fact:
    """Return the one end event of the attempt.

    A result that was reached before our order took effect counts; a failure that our order
    caused does not. A log with a hole never ends as if it were whole.
    """
    if isinstance(evidence.reported, RunCompleted) and evidence.obstacle is None:
        return evidence.reported
    if evidence.ordered is not None:
        return obeyed(evidence.ordered)
    if evidence.obstacle is not None:
        return msgspec.structs.replace(evidence.obstacle, stage=evidence.stage)
    if evidence.timed_out is not None:
        return failure_for(evidence.timed_out, oom_evidence=False, stage=evidence.stage)
    if isinstance(evidence.reported, RunCanceled):
        # Nobody of us asked for it: somebody outside signalled the process.
        return RunFailed(
            code=PROGRAM_KILLED if evidence.runs_programs else KILLED,
            message="somebody outside the run told its process to stop",
            stage=evidence.stage,
            retryable=True,
        )
    if evidence.reported is not None:
        return evidence.reported
    return failure_for(
        evidence.end,
        oom_evidence=evidence.oom_evidence,
        stage=evidence.stage,
        last_words=evidence.last_words,
        runs_programs=evidence.runs_programs,
    )


def may_be_of_checkpoints(failure: RunFailed, own_end: Fact | None, *, went_on: bool) -> bool:
    """Say whether the checkpoints that a process found may have ended it.

    Where somebody outside may have, they are doubted only until it `went_on`: kept a checkpoint of its own.
    """
    has_died = own_end is None and failure.code in BEHIND_CHECKPOINTS
    return has_died and not (failure.retryable and went_on)


def obeyed(order: Order) -> RunCanceled | RunPreempted:
    """Return the end of an attempt that stopped by an order."""
    if order == "cancel":
        return RunCanceled(reason="canceled on request")
    return RunPreempted(reason="the pod is going away")


def without_files(missing: str, ordered: Order | None, stage: str | None, *, is_own: bool = False) -> Fact:
    """Return the end of an attempt that completed but could not store its files.

    `is_own` where the files themselves are the reason, and not the storage.
    """
    if ordered is not None:
        return obeyed(ordered)
    code = "ARTIFACT_REFUSED" if is_own else "ARTIFACT_UPLOAD_FAILED"
    return RunFailed(code=code, message=missing, stage=stage, retryable=True)
