"""Changes the options of a run that waits, by one decision, pure.

Law: the class by which claims find a run changes in the same update as its requirements. A claim at that
moment sees both as they were, or both as they are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.run import Run
from control_plane.runs.options import LABELS_MAX, QUEUE_LIMIT_S, OptionChanges, labels_with
from control_plane.runs.schedules.scheduler import LABEL, SLOT_LABEL
from control_plane.runs.submission import label_list
from events.kinds import KINDS
from events.lifecycle import INITIAL, Cause, Illegal, Status
from events.models.job_containers import LABEL as CONTAINERS
from events.queue.journal import Decision, Expression
from events.queue.requirements import asked_with, class_key, read_class, read_requirements
from events.runtime.errors import OutOfDate, Rejected

RESERVED: Final = (LABEL, SLOT_LABEL)


def change_decision(
    run: Run, changes: OptionChanges, *, by: str, now: datetime, revision: int | None = None
) -> Decision | Illegal | None:
    """Return the decision that gives a waiting run other options; None where it has them already.

    `revision` is that of the run which its author looked at, None where nobody says. Raises `Rejected`.
    """
    if run.status not in INITIAL:
        return Illegal(run.status, Cause.CHANGE)
    if revision not in (None, run.revision):
        shown = f"you were shown revision {revision} of the run, by now it is {run.revision}"
        raise OutOfDate("changed_meanwhile", f"{shown}: look again")
    sets = {**_plain(run, changes), **_required(run, changes), **_labelled(run, changes)}
    to, moments = _start(run, changes, now)
    limit_s = run.queue_limit_s or QUEUE_LIMIT_S
    if moments or "queueLimitS" in sets:
        since = moments.pop("since") if moments else _waits_since(run, limit_s)
        new_s = sets.get("queueLimitS", limit_s)
        sets |= {**moments, "queueDeadline": None if since is None else since + timedelta(seconds=new_s)}
    return Decision(Cause.CHANGE, to, by, sets=sets) if sets else None


def own_labels(kind: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that are their submitter's: those of its kind and of a schedule come anew."""
    others = {*RESERVED, *(KINDS[kind].labels if kind in KINDS else ())}
    return {name: value for name, value in labels.items() if name not in others}


def _plain(run: Run, changes: OptionChanges) -> dict[str, Any]:
    """Return the fields that replace what was there, and differ from it."""
    named = {"priority": "priority", "max_attempts": "maxAttempts", "queue_limit_s": "queueLimitS"}
    given = changes.given
    return {
        stored: given[name]
        for name, stored in named.items()
        if name in given and given[name] != getattr(run, name)
    }


def _required(run: Run, changes: OptionChanges) -> dict[str, Any]:
    if not isinstance(changes.requires, Mapping):
        return {}
    now = read_class(run.class_key)
    of_spec = {name: value for name, value in now.labels if name == CONTAINERS}  # the image stays
    key = class_key(run.kind, read_requirements(asked_with(changes.requires, of_spec)), now.project)
    if run.requires == changes.requires and run.class_key == key:
        return {}
    return {"requires": Expression({"$literal": dict(changes.requires)}), "classKey": key}


def _labelled(run: Run, changes: OptionChanges) -> dict[str, Any]:
    if not isinstance(changes.labels, Mapping):
        return {}
    if taken := [name for name in RESERVED if name in changes.labels]:
        raise Rejected("reserved_label", f"labels: {taken[0]!r} is set by a schedule itself")
    labels = labels_with(run.labels, changes.labels)
    if labels == run.labels:
        return {}
    most = LABELS_MAX + len(KINDS[run.kind].labels) + len(RESERVED)
    if len(labels) > max(most, len(run.labels)):
        raise Rejected("too_many_labels", f"labels: the run would have {len(labels)}; at most {most}")
    return {"labels": Expression({"$literal": labels}), "labelList": label_list(labels)}


def _start(run: Run, changes: OptionChanges, now: datetime) -> tuple[Status, dict[str, Any]]:
    """Return the status with another start, and what follows from it; `since` is when its wait begins.

    A start in the past is no way to the head of the queue: the run keeps its place, and gets none before now.
    """
    if "not_before" not in changes.given or changes.not_before == run.not_before:
        return run.status, {}
    start = changes.not_before
    if run.waits_for_runs:  # its wait for a pod begins when they have completed
        return run.status, {"notBefore": start, "since": None}
    if isinstance(start, datetime) and start > now:
        return Status.DELAYED, {"notBefore": start, "queuedAt": start, "since": start}
    if run.status is Status.QUEUED:
        return run.status, {}
    assert run.queued_at is not None, "each submission says since when it is queued"
    return Status.QUEUED, {"notBefore": None, "queuedAt": min(run.queued_at, now), "since": now}


def _waits_since(run: Run, limit_s: int) -> datetime | None:
    return None if run.queue_deadline is None else run.queue_deadline - timedelta(seconds=limit_s)
