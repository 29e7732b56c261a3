"""The end of an attempt as one decision, by settle, end event or rescue, pure.

Law: `lifecycle.end` decides the status; this module derives the fields of the run that follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from events.lifecycle import (
    END_CAUSES,
    FINAL,
    OF_RUN,
    Cause,
    Ending,
    Fault,
    Illegal,
    Judgement,
    Outcome,
    PastFault,
    Standing,
    Status,
    end,
    rescue,
)
from events.queue.faults import KEPT_MAX, blame_of, judge
from events.queue.journal import Decision, Expression, ServerTime, expression, kept_failures

POD_LOST: Final = "POD_LOST"  # a code that `faults.FAULTS` knows


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended, as the worker, an event or the rescuer reports it."""

    outcome: Outcome
    code: str | None = None
    message: str | None = None
    stage: str | None = None
    retryable: bool = False


def end_decision(run: Standing, attempt: int, how: End, *, by: str, jitter: float) -> Decision | Illegal:
    """Return the decision that ends a held run, or `Illegal` if no attempt holds it any more.

    A worker that was started again says with the code `POD_LOST` that its pod lost the attempt.
    """
    judgement = _judged(run, how.code) if how.outcome == "failed" else OF_RUN
    is_lost = (how.outcome, how.code) == ("failed", POD_LOST)
    ending = (
        rescue(run, judgement, jitter=jitter)
        if is_lost
        else end(run, how.outcome, retryable=how.retryable, jitter=jitter, judgement=judgement)
    )
    if isinstance(ending, Illegal):
        return ending
    return Decision(
        cause=Cause.RESCUE if is_lost else END_CAUSES[how.outcome],
        to=ending.to,
        by=by,
        sets=_fields(run, ending, attempt, how, judgement),
        silent={"lease": RELEASED, "tokens": ENDING},
    )


def pod_lost(message: str) -> End:
    """Return the end of an attempt whose pod was lost."""
    return End("failed", POD_LOST, message, retryable=True)


def rescue_decision(
    run: Standing, attempt: int, *, by: str, jitter: float, message: str | None = None
) -> Decision | Illegal:
    """Return the decision that takes a run from its owner; `message` says why, unless its lease ran out."""
    judgement = _judged(run, POD_LOST)
    ending = rescue(run, judgement, jitter=jitter)
    if isinstance(ending, Illegal):
        return ending
    pod = f"its pod {run.pod}" if run.pod else "its pod"
    how = pod_lost(message or f"attempt {attempt} stopped renewing its lease; {pod} is gone or cut off")
    return Decision(
        cause=Cause.RESCUE,
        to=ending.to,
        by=by,
        sets=_fields(run, ending, attempt, how, judgement),
        # Nobody knows the last sequence of a lost attempt, so nobody waits for it.
        silent={"lease": None, "logOpen": False, "tokens": ENDING},
    )


# A settled attempt keeps its token, so that a repeated settle finds itself.
RELEASED = {
    "tokenHash": Expression("$lease.tokenHash"),
    "until": None,
    "renewals": Expression("$lease.renewals"),
}

# So long a pod whose pipeline gave a run back claims nothing: ten polls, in which others see it.
LEFT_TO_OTHERS_S: Final = 20.0

# So long after an attempt's end may its pod still deliver what was said before it.
TOKEN_LIFE: Final = timedelta(days=7)
_ENDS_NOW = {"$mergeObjects": ["$$this", {"endsAt": expression(ServerTime(TOKEN_LIFE.total_seconds()))}]}
ENDING: Final = Expression(
    {
        "$map": {
            "input": {"$ifNull": ["$tokens", []]},
            "in": {"$cond": [{"$eq": ["$$this.endsAt", None]}, _ENDS_NOW, "$$this"]},
        }
    }
)


def _judged(run: Standing, code: str | None) -> Judgement:
    return judge(code, run.pod, run.place, run.past, run.held_s)


def _fields(run: Standing, ending: Ending, attempt: int, how: End, judgement: Judgement) -> dict[str, Any]:
    fields: dict[str, Any] = {"failures": kept_failures(ending.failures)}
    if how.outcome == "failed" and ending.to is not Status.CANCELED:
        fields["error"] = {
            "code": how.code,
            "message": how.message,
            "stage": how.stage,
            "retryable": how.retryable,
            "attempt": attempt,
            "fault": judgement.fault.value,
        }
        if judgement.fault is not Fault.RUN:
            fields["faults"] = _with(run, how.code, judgement)
    if ending.to in FINAL:
        fields["finishedAt"] = ServerTime()
    if ending.to in (Status.QUEUED, Status.DELAYED):
        fields |= {"claimedBy": None, "claimedAt": None}
        if blame_of(how.code).left_s is None:  # else it goes on waiting: its limit stays what it was
            fields["queueDeadline"] = _deadline(ending.delay_s or 0.0)
    if ending.delay_s is not None:
        fields["notBefore"] = ServerTime(ending.delay_s)
    return fields


def _with(run: Standing, code: str | None, judgement: Judgement) -> Expression:
    """Return the failures of a run that were not its own, with one more."""
    earlier = [_stored(each) for each in run.past[-(KEPT_MAX - 1) :]]
    left = judgement.left_s
    fault = {
        "pod": run.pod,
        "code": code,
        "fault": judgement.fault.value,
        "place": run.place,
        "until": None if left is None else ServerTime(left),
        "heldS": run.held_s,
    }
    return Expression({"$concatArrays": [{"$literal": earlier}, [expression(fault)]]})


def _stored(past: PastFault) -> dict[str, Any]:
    return {
        "pod": past.pod,
        "code": past.code,
        "fault": past.fault.value,
        "place": past.place,
        "until": past.until,
        "heldS": past.held_s,
    }


def _deadline(delay_s: float) -> Expression:
    """Return until when the run may wait now: each wait has the whole limit, however long the run worked."""
    since = expression(ServerTime(delay_s))
    return Expression({"$dateAdd": {"startDate": since, "unit": "second", "amount": "$queueLimitS"}})


def settled(how: End, last: int, root: str | None) -> dict[str, Any]:
    """Return the note that a settle leaves in the run; `last` is the attempt's last sequence.

    Applied events belong to the record, whatever the worker reports: `last` is never below them. `root` is
    that of the lines 1 to `last` (`record_digest.py`), where the worker knows it.
    """
    return {
        "outcome": how.outcome,
        "code": how.code,
        "message": how.message,
        "last": Expression({"$max": [last, "$lastEventSeq"]}),
        "root": root,
        "at": ServerTime(),
    }


def _tokens(last: int) -> Expression:
    """Return the tokens of a run whose attempt has settled: its own says where its log ends, for good."""
    closed = {"$mergeObjects": ["$$this", {"last": {"$max": [last, "$lastEventSeq"]}}]}
    is_own = {"$eq": ["$$this.attempt", "$attempt"]}
    return Expression({"$map": {"input": ENDING.body, "in": {"$cond": [is_own, closed, "$$this"]}}})


def settle_decision(
    run: Standing, attempt: int, how: End, last: int, *, by: str, jitter: float, root: str | None = None
) -> Decision:
    """Return the decision of a worker's settle: the end itself, or a note after the end."""
    note = {"settled": settled(how, last, root)}
    open_log = {"logOpen": Expression({"$lt": ["$lastEventSeq", last]}), "tokens": _tokens(last)}
    decision = end_decision(run, attempt, how, by=by, jitter=jitter)
    if isinstance(decision, Illegal):
        return Decision(Cause.SETTLED, run.status, by, sets=note, silent=open_log)
    return replace(decision, sets={**decision.sets, **note}, silent={**decision.silent, **open_log})
