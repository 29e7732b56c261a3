"""Finds where application can continue in the log of a run's current attempt, pure.

Law: a decision records the cursor and the status that it found. A cursor is valid at the position that the
last decision recorded, or at a later one where the log leads to the status of the run. From any other
position the next decision would contradict the log, or would never be made.
"""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.model.projection import AttemptView, fold_to
from control_plane.store.verify.evidence import Evidence
from control_plane.verify.replay import STATUSES, Replayed
from events.lifecycle import HELD, Status, advance


def view_at(evidence: Evidence, position: int) -> AttemptView:
    """Return the view of the current attempt up to a position."""
    attempt = evidence.run["attempt"]
    events = [each for each in evidence.events if each.attempt == attempt and _at(each.sequence) <= position]
    return fold_to(AttemptView(evidence.run_id, attempt), events, position).view


def resumption(evidence: Evidence, replayed: Replayed) -> int | None:
    """Return the position for the cursor: the present one if it is valid.

    None if the log does not lead to the status of the run. A record that a person's verdict has sealed is
    applied up to the seal.
    """
    run, reach = evidence.run, int(replayed.fields.get("lastEventSeq", 0))
    if replayed.fields.get("sealed") is not None:
        return reach
    steps = list(_steps(evidence, replayed, reach))
    cursor: int = run["lastEventSeq"]
    ends = [position - 1 for position, _ in steps[1:]] + [reach]
    for (first, status), last in reversed(list(zip(steps, ends, strict=True))):
        if status == run["status"]:
            return cursor if first <= cursor <= last else max(first, min(last, _marked(evidence, reach)))
    return None


def _steps(evidence: Evidence, replayed: Replayed, reach: int) -> Iterator[tuple[int, str | None]]:
    """Yield positions after the last decision, each with the status to which the log leads.

    The status is None from an end on that has no decision yet.
    """
    if not evidence.decisions:
        return
    decision = evidence.decisions[-1]
    position = int(decision.sets.get("lastEventSeq", decision.seq))
    status: str | None = decision.to
    yield position, status
    view = view_at(evidence, position)
    for event in evidence.events:
        sequence = _at(event.sequence)
        if event.attempt != replayed.fields.get("attempt") or not position < sequence <= reach:
            continue
        folded = fold_to(view, [event], sequence)
        view = folded.view
        after = status
        for cause in folded.phases:
            after = advance(Status(after), cause).value if after in STATUSES else after
        if folded.end is not None and status in HELD:
            after = None
        if after != status:
            status = after
            yield sequence, status


def _marked(evidence: Evidence, reach: int) -> int:
    """Return the last position at which the marks of the log still have to be moved; `reach` if none."""
    run = evidence.run
    settled, mark = run["settled"], run["logIncomplete"]
    if run["logOpen"] and settled is not None and settled["last"] <= reach:
        return int(settled["last"]) - 1
    return reach if mark is None else int(mark["from"]) - 1


def _at(sequence: int | None) -> int:
    return sequence or 0
