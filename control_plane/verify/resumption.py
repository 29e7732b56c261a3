"""Where application goes on in the log of a run's current attempt, pure.

Law: a decision records the cursor and the status that it met. A cursor can stand where the last decision met
it, or further, as long as the log leads there to the status that the run has. From any other place the next
decision would contradict the log, or one would never be made.
"""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.model.projection import AttemptView, fold_to
from control_plane.store.verify.evidence import Evidence
from control_plane.verify.replay import STATUSES, Replayed
from events.lifecycle import HELD, Status, advance


def view_at(evidence: Evidence, position: int) -> AttemptView:
    """Return what the current attempt has shown up to a position."""
    attempt = evidence.run["attempt"]
    events = [each for each in evidence.events if each.attempt == attempt and _at(each.sequence) <= position]
    return fold_to(AttemptView(evidence.run_id, attempt), events, position).view


def resumption(evidence: Evidence, told: Replayed) -> int | None:
    """Return where the cursor is to stand: where it is, if it can.

    None where the log does not lead to the status of the run. A record that a person's verdict has closed
    is applied up to there.
    """
    run, reach = evidence.run, int(told.fields.get("lastEventSeq", 0))
    if told.fields.get("sealed") is not None:
        return reach
    steps = list(_steps(evidence, told, reach))
    cursor: int = run["lastEventSeq"]
    ends = [position - 1 for position, _ in steps[1:]] + [reach]
    for (first, status), last in reversed(list(zip(steps, ends, strict=True))):
        if status == run["status"]:
            return cursor if first <= cursor <= last else max(first, min(last, _marked(evidence, reach)))
    return None


def _steps(evidence: Evidence, told: Replayed, reach: int) -> Iterator[tuple[int, str | None]]:
    """Yield positions behind the last decision, and the status to which the log leads from there on.

    None from an end on that nobody has decided yet.
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
        if event.attempt != told.fields.get("attempt") or not position < sequence <= reach:
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
    """Return the last position at which the marks of the log still have to be moved, `reach` without any."""
    run = evidence.run
    settled, mark = run["settled"], run["logIncomplete"]
    if run["logOpen"] and settled is not None and settled["last"] <= reach:
        return int(settled["last"]) - 1
    return reach if mark is None else int(mark["from"]) - 1


def _at(sequence: int | None) -> int:
    return sequence or 0
