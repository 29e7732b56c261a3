"""The lifecycle of a run: which cause leads from which status to which, pure.

Every change of a status is one row of `TRANSITIONS`. The functions below choose among the targets of a row;
a pair without a row is answered with `Illegal`. Pause, resume, note and start have rows that keep the status:
they change the run, and not its status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from events.runtime.backoff import back_off_s


class Status(StrEnum):
    """Where a run stands."""

    DELAYED = "DELAYED"
    QUEUED = "QUEUED"
    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    AUTO_VALIDATING = "AUTO_VALIDATING"
    CANCELING = "CANCELING"
    AWAITING_HUMAN = "AWAITING_HUMAN"
    COMPLETED = "COMPLETED"
    HUMAN_VALIDATED = "HUMAN_VALIDATED"
    HUMAN_REJECTED = "HUMAN_REJECTED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class Cause(StrEnum):
    """Why a status changes."""

    SUBMIT = "submit"
    CLAIM = "claim"
    STARTED = "started"
    AUTO_STARTED = "auto_started"
    END_COMPLETED = "end: completed"
    END_FAILED = "end: failed"
    END_PREEMPTED = "end: preempted"
    END_CANCELED = "end: canceled"
    SETTLED = "settled"
    RESCUE = "rescue"
    CANCEL = "cancel"
    PROMOTE = "promote"
    QUEUE_TIMEOUT = "queue time over"
    REVIEW = "review"
    REVISE = "revise"
    PAUSE = "pause"
    RESUME = "resume"
    NOTE = "note"
    CHANGE = "change"
    START = "start"
    RELEASE = "release"
    PREEMPT = "preempt"


class Fault(StrEnum):
    """Whose fault a failure was."""

    RUN = "run"
    POD = "pod"
    OUTSIDE = "outside"


S = Status
LIVE: Final = (S.SCHEDULED, S.RUNNING, S.AUTO_VALIDATING)
HELD: Final = frozenset({*LIVE, S.CANCELING})


def _from_live(*targets: Status) -> dict[Status, tuple[Status, ...]]:
    return dict.fromkeys(LIVE, targets)


def _staying(statuses: Iterable[Status]) -> dict[Status, tuple[Status, ...]]:
    return {status: (status,) for status in statuses}


# What leads on; the first target of a row is the usual one.
_LEADING: Final[Mapping[Cause, Mapping[Status, tuple[Status, ...]]]] = {
    Cause.CLAIM: {S.QUEUED: (S.SCHEDULED,)},
    Cause.STARTED: {S.SCHEDULED: (S.RUNNING,)},
    Cause.AUTO_STARTED: {
        S.SCHEDULED: (S.AUTO_VALIDATING,),
        S.RUNNING: (S.AUTO_VALIDATING,),
    },
    Cause.END_COMPLETED: {
        **_from_live(S.COMPLETED, S.AWAITING_HUMAN),
        S.CANCELING: (S.CANCELED,),
    },
    Cause.END_FAILED: {**_from_live(S.DELAYED, S.QUEUED, S.FAILED), S.CANCELING: (S.CANCELED,)},
    Cause.END_PREEMPTED: {**_from_live(S.QUEUED, S.FAILED, S.DELAYED), S.CANCELING: (S.CANCELED,)},
    Cause.END_CANCELED: {**_from_live(S.QUEUED, S.FAILED), S.CANCELING: (S.CANCELED,)},
    Cause.RESCUE: {**_from_live(S.QUEUED, S.DELAYED, S.FAILED), S.CANCELING: (S.CANCELED,)},
    Cause.CANCEL: {
        **_from_live(S.CANCELING),
        S.QUEUED: (S.CANCELED,),
        S.DELAYED: (S.CANCELED,),
        S.AWAITING_HUMAN: (S.CANCELED,),
    },
    Cause.PROMOTE: {S.DELAYED: (S.QUEUED,)},
    # The runs that it waited for have completed: it waits for a pod, or for its start.
    Cause.RELEASE: {S.DELAYED: (S.QUEUED, S.DELAYED)},
    Cause.QUEUE_TIMEOUT: {S.QUEUED: (S.FAILED,), S.DELAYED: (S.FAILED,)},
    Cause.REVIEW: {S.AWAITING_HUMAN: (S.HUMAN_VALIDATED, S.HUMAN_REJECTED)},
}
INITIAL: Final = frozenset({S.QUEUED, S.DELAYED})
FINAL: Final = frozenset(status for status in Status if not any(status in row for row in _LEADING.values()))
# Nobody works in these, and nobody will: no pause outlives them.
AT_REST: Final = FINAL | {S.AWAITING_HUMAN}
# What a run that waits for others has been waiting for.
SUCCEEDED: Final = frozenset({S.COMPLETED, S.HUMAN_VALIDATED})
# A person's verdict may be revised into the other one: the run has ended all the same.
REVISED: Final[Mapping[Status, tuple[Status, ...]]] = {
    S.HUMAN_VALIDATED: (S.HUMAN_REJECTED,),
    S.HUMAN_REJECTED: (S.HUMAN_VALIDATED,),
}

# `paused` is a flag and a note is a text: a decision about them leaves the status as it is.
TRANSITIONS: Final[Mapping[Cause, Mapping[Status, tuple[Status, ...]]]] = {
    **_LEADING,
    Cause.REVISE: REVISED,
    Cause.PAUSE: _staying(LIVE),
    # An order to its owner: the end of the attempt follows.
    Cause.PREEMPT: _staying(LIVE),
    Cause.RESUME: _staying(status for status in Status if status not in AT_REST),
    # While nobody has it: a later start delays it, an earlier one ends the delay.
    Cause.CHANGE: {S.QUEUED: (S.QUEUED, S.DELAYED), S.DELAYED: (S.DELAYED, S.QUEUED)},
    # When a lane of a race is to start: told to whoever holds it, or will.
    Cause.START: _staying(status for status in Status if status not in AT_REST),
    # Of a run that has ended, a note is for people.
    Cause.NOTE: _staying(Status),
    # A settle that comes after the end only records what the worker knows; any status stays.
    Cause.SETTLED: _staying(Status),
}

Outcome = Literal["completed", "failed", "preempted", "canceled"]
END_CAUSES: Final[Mapping[Outcome, Cause]] = {
    "completed": Cause.END_COMPLETED,
    "failed": Cause.END_FAILED,
    "preempted": Cause.END_PREEMPTED,
    "canceled": Cause.END_CANCELED,
}

AT_ONCE_MAX: Final = 2  # so many faults of pods at one place are tried elsewhere without a wait
PREEMPTIONS_MAX: Final = 100
BACK_OFF_FIRST_S: Final = 2.0
BACK_OFF_MAX_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Illegal:
    """No row of the table leads from this status by this cause."""

    status: Status
    cause: Cause

    def __str__(self) -> str:
        return f"a run that is {self.status} cannot change by '{self.cause}'"


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed so far: `app` and `preempted` have budgets; faults of pods and of the outside have none."""

    app: int = 0
    infra: int = 0
    preempted: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class PastFault:
    """A failure of a run that was not its own: on which pod (`name/boot`), and at which place of the run.

    `until` is when that pod may take the run again, None where nothing keeps it from that. `held_s` is how
    long the pod had had the run, in seconds; 0 where an earlier release did not say.
    """

    pod: str
    code: str | None
    fault: Fault
    place: str | None
    until: datetime | None
    held_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whose fault a failure is by all evidence; `times` counts it and its like at this place.

    `left_s` is how long the run is left to other pods, None where this pod may take it.
    """

    fault: Fault
    times: int = 1
    left_s: float | None = None


OF_RUN: Final = Judgement(Fault.RUN)


@dataclass(frozen=True, slots=True)
class Standing:
    """The part of a run on which its end depends.

    `pod` has held it for `held_s` seconds, as far as its lease was renewed. `place` is where it stands,
    `past` are its earlier failures that were not its own. An attempt that was ordered to give its pod back
    `waits_s` afterwards, and is charged to nothing.
    """

    status: Status
    failures: Failures
    max_attempts: int
    review: bool
    pod: str = ""
    place: str | None = None
    past: tuple[PastFault, ...] = ()
    waits_s: float | None = None
    held_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ending:
    """Where an attempt's end leads: the status, the budgets after it, and how long to wait."""

    to: Status
    failures: Failures
    delay_s: float | None = None


def next_status(status: Status, cause: Cause) -> Status | Illegal:
    """Return the usual target of `cause`, or `Illegal`."""
    targets = TRANSITIONS[cause].get(status)
    return targets[0] if targets else Illegal(status, cause)


def advance(status: Status, cause: Cause) -> Status:
    """Return the status after a phase event: a live run goes forward only, all else stays."""
    target = next_status(status, cause)
    return status if isinstance(target, Illegal) else target


def end(
    run: Standing, outcome: Outcome, *, retryable: bool, jitter: float, judgement: Judgement = OF_RUN
) -> Ending | Illegal:
    """Decide what an attempt's end means for its run; `jitter` in [0, 1) spreads the retries.

    `judgement` says whose fault a failure is.
    """
    cause = END_CAUSES[outcome]
    if isinstance(usual := next_status(run.status, cause), Illegal):
        return usual
    if run.status is S.CANCELING:
        return Ending(S.CANCELED, run.failures)
    match outcome:
        case "completed":
            return Ending(S.AWAITING_HUMAN if run.review else S.COMPLETED, run.failures)
        case "failed":
            return _failed(run, judgement, retryable=retryable, jitter=jitter)
        case "preempted" if run.waits_s is not None:
            return Ending(S.DELAYED, run.failures, run.waits_s)
        case "preempted" | "canceled":
            failures = replace(run.failures, preempted=run.failures.preempted + 1)
            spent = failures.preempted > PREEMPTIONS_MAX
            return Ending(S.FAILED if spent else S.QUEUED, failures)


def rescue(run: Standing, judgement: Judgement, *, jitter: float) -> Ending | Illegal:
    """Decide what becomes of a run whose pod lost it."""
    if isinstance(usual := next_status(run.status, Cause.RESCUE), Illegal):
        return usual
    if run.status is S.CANCELING:
        return Ending(S.CANCELED, run.failures)
    return _failed(run, judgement, retryable=True, jitter=jitter)


def _failed(run: Standing, judgement: Judgement, *, retryable: bool, jitter: float) -> Ending:
    times = judgement.times
    match judgement.fault:
        case Fault.RUN:
            failures = replace(run.failures, app=run.failures.app + 1)
            if retryable and failures.app < run.max_attempts:
                return Ending(S.DELAYED, failures, retry_wait_s(failures.app, jitter))
            return Ending(S.FAILED, failures)
        case Fault.POD:
            failures = replace(run.failures, infra=run.failures.infra + 1)
            if times <= AT_ONCE_MAX:
                return Ending(S.QUEUED, failures)
            return Ending(S.DELAYED, failures, retry_wait_s(times - AT_ONCE_MAX, jitter))
        case Fault.OUTSIDE:
            failures = replace(run.failures, outside=run.failures.outside + 1)
            return Ending(S.DELAYED, failures, retry_wait_s(times, jitter))


def retry_wait_s(failure: int, jitter: float) -> float:
    """Return the wait after the `failure`th failure: it doubles, and its upper half is jitter."""
    share = 0.5 + jitter / 2
    return back_off_s(failure, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S, share=share)
