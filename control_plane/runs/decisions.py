"""Decisions of people about a run: read, decide purely, compare-and-set, retry after a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from control_plane.model.cancellation import cancel_decision, prune_decision
from control_plane.model.groups.pruning import Stop
from control_plane.model.run import Run
from control_plane.runs.change import change_decision
from control_plane.runs.options import OptionChanges
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import Found, Runs
from events.lifecycle import LIVE, Cause, Illegal, Status, next_status
from events.queue.journal import Decision, Expression, ServerTime
from events.queue.settlement import rescue_decision
from events.record_digest import NO_LINES, Roots
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Conflict, NotFound, Rejected, Transient
from events.text.attempt_id import AttemptId

TRIES_MAX: Final = 50
NOTES_MAX: Final = 20
RECORD_LOOK_S: Final = 0.1
NOTE_CHARS_MAX: Final = 1_000
JUDGED: Final = {"pass": Status.HUMAN_VALIDATED, "fail": Status.HUMAN_REJECTED}

# None: the run stands as wished already.
Choose = Callable[[Run], Decision | Illegal | None]


@dataclass(frozen=True, slots=True)
class Review:
    """A person's verdict; `incomplete` says that it was given on what there is of an incomplete record.

    `seen` is the position of the last event that the person was shown, None where nobody says. One that
    `revises` replaces the verdict that there is, for the reason in its notes.
    """

    verdict: Literal["pass", "fail"]
    notes: str
    reviewer: str
    incomplete: bool = False
    seen: int | None = None
    revises: bool = False


class Files(Protocol):
    """The files that runs registered."""

    async def unfit(self, run_id: str) -> list[str]:
        """Return the problems of a run's files as text; empty if all match their registration."""
        ...


@dataclass(frozen=True, slots=True)
class Decider:
    """Makes decisions that a person asked for. Raises `NotFound`, `Conflict`, `Transient`."""

    runs: Runs
    documents: Documents
    events: Events
    files: Files
    ids: Ids
    clock: Clock
    record_wait_s: float = 3.0

    async def cancel(self, run_id: str, *, by: str) -> Run:
        """Cancel a run: at once while it waits, else by an order to its owner. Idempotent."""

        def choose(run: Run) -> Decision | Illegal | None:
            # Somebody was faster, or it was we and the answer was lost: all the same.
            is_done = run.status in (Status.CANCELING, Status.CANCELED)
            return None if is_done else cancel_decision(run, by=by)

        return await self._decide(run_id, choose)

    async def prune(self, attempt_id: AttemptId, stop: Stop, *, by: str) -> Run:
        """Cancel a member while this attempt works on it, as one that is pruned. Idempotent."""
        run_id, attempt = attempt_id
        return await self._decide(run_id, lambda run: prune_decision(run, attempt, stop, by=by))

    async def rescue(self, run_id: str, *, by: str) -> Run:
        """Take a run at once from a pod that is gone; if it is not, what it still writes is fenced."""

        def choose(run: Run) -> Decision | Illegal:
            jitter, pod = self.ids.fraction(), run.standing.pod
            message = f"{by.removeprefix('user:')} took it from its pod{f' {pod}' if pod else ''}"
            return rescue_decision(run.standing, run.attempt, by=by, jitter=jitter, message=message)

        return await self._decide(run_id, choose)

    async def pause(self, run_id: str, *, by: str) -> Run:
        """Pause a live run until it is resumed. Idempotent."""
        return await self._decide(run_id, lambda run: pause_decision(run, by=by))

    async def resume(self, run_id: str, *, by: str) -> Run:
        """Resume a paused run."""
        return await self._decide(run_id, lambda run: resume_decision(run, by=by))

    async def change(
        self, run_id: str, changes: OptionChanges, *, by: str, revision: int | None = None
    ) -> Run:
        """Give a waiting run other options. Idempotent.

        With `revision` only the run of that revision is changed. Raises `Rejected`, `OutOfDate`.
        """

        def choose(run: Run) -> Decision | Illegal | None:
            return change_decision(run, changes, by=by, now=self.clock.now(), revision=revision)

        return await self._decide(run_id, choose)

    async def start(self, run_id: str, at: datetime, *, by: str) -> Run:
        """Tell a lane of a race when it starts: once, the first moment stands. Idempotent."""
        return await self._decide(run_id, lambda run: start_decision(run, at, by=by))

    async def begin(self, run_id: str, at: datetime, node: Mapping[str, Any], *, by: str) -> Run:
        """Tell an attempt of a node of a job that it begins, and of the others. Idempotent."""
        return await self._decide(run_id, lambda run: begin_decision(run, at, node, by=by))

    async def preempt(self, attempt_id: AttemptId, wait_s: float, *, by: str) -> Run:
        """Let an attempt give its pod back; then the run waits. Idempotent."""
        run_id, attempt = attempt_id
        return await self._decide(run_id, lambda run: preempt_decision(run, attempt, wait_s, by=by))

    async def note(self, run_id: str, text: str, *, by: str) -> Run:
        """Add a note to a run. Its pipeline reads it at its next step; after the end it is for people only.

        Raises `Rejected`.
        """
        words = noted(text)
        return await self._decide(run_id, lambda run: note_decision(run, words, by=by))

    async def review(self, run_id: str, review: Review) -> Run:
        """Record a person's verdict on a run that waits for one, and seal its log; or revise the verdict.

        What a worker said before its settle may arrive a moment after it: that is waited for.
        Raises `Rejected`.
        """
        if review.revises:
            return await self._revise(run_id, review)
        if not review.incomplete:
            await self._wait_for_record(run_id)
        unfit: list[str] | None = None
        known, roots = 0, NO_LINES
        for _ in range(TRIES_MAX):
            found = await self._find(run_id)
            run = found.run
            if run.status is Status.AWAITING_HUMAN:
                if unfit is None and _is_whole(run):  # from now on no line registers another file
                    unfit = await self._unfit(run_id, review)
                last = run.last_event_seq
                # From where the last try came to: whoever sends line after line keeps no verdict waiting.
                roots = await self.events.roots(run.attempt_id, last, after=known, roots=roots)
                known = last
            decision = review_decision(run, review, unfit or [], roots)
            if isinstance(decision, Illegal):
                raise Conflict("illegal_transition", str(decision))
            # Lines move the cursor, and close the log, without a decision: the seal says where both stand.
            stand = {"lastEventSeq": run.last_event_seq, "logOpen": run.log_open}
            decided = await self.runs.decide(found, decision, **stand)
            if decided is not None:
                await self._tell(decided.run)
                return decided.run
        raise _contended(run_id)

    async def _revise(self, run_id: str, review: Review) -> Run:
        """Give the run the other verdict. The log stays sealed and keeps both."""
        if not review.notes.strip():
            raise Rejected("reason_missing", "a revised verdict needs a reason in `notes`")
        run = await self._decide(run_id, lambda run: revise_decision(run, review))
        await self._tell(run)
        return run

    async def _unfit(self, run_id: str, review: Review) -> list[str]:
        """Return what is wrong with the files; an incomplete verdict waits for no storage."""
        try:
            return await self.files.unfit(run_id)
        except Transient as error:
            if not review.incomplete:
                raise
            return [error.message]

    async def _tell(self, run: Run) -> None:
        """Write the verdict's document now, not at the next sweep: the caller reads it at once."""
        await self.documents.chronicle([(run.id, entry) for entry in run.journal])

    async def _wait_for_record(self, run_id: str) -> None:
        """Wait for the settle, which may follow the end event, and for every event that it counts."""
        until_s = self.clock.monotonic_s() + self.record_wait_s
        while self.clock.monotonic_s() < until_s:
            run = (await self._find(run_id)).run
            if run.status is not Status.AWAITING_HUMAN or not (run.log_open or run.settled is None):
                return
            await asyncio.sleep(RECORD_LOOK_S)

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
        raise _contended(run_id)


def _contended(run_id: str) -> Transient:
    return Transient("contended", f"run {run_id} is changing concurrently; try again")


def pause_decision(run: Run, *, by: str) -> Decision | Illegal | None:
    """Return the decision to pause; None where the run is paused already."""
    if run.paused:  # also one that was given back meanwhile: the wish stands
        return None
    usual = next_status(run.status, Cause.PAUSE)
    return usual if isinstance(usual, Illegal) else Decision(Cause.PAUSE, None, by, sets={"paused": True})


def resume_decision(run: Run, *, by: str) -> Decision | Illegal:
    """Return the decision to resume. Raises `Conflict` for a run that nobody paused."""
    usual = next_status(run.status, Cause.RESUME)
    if isinstance(usual, Illegal):
        return usual
    if not run.paused:
        raise Conflict("not_paused", f"the run is {run.status} and not paused")
    return Decision(Cause.RESUME, None, by, sets={"paused": False})


def start_decision(run: Run, at: datetime, *, by: str) -> Decision | Illegal | None:
    """Return the decision that tells a lane when it starts; None where it was told."""
    if run.start_at is not None:
        return None
    usual = next_status(run.status, Cause.START)
    return usual if isinstance(usual, Illegal) else Decision(Cause.START, None, by, sets={"startAt": at})


def begin_decision(run: Run, at: datetime, node: Mapping[str, Any], *, by: str) -> Decision | None:
    """Return the decision by which an attempt of a node begins; None where it was told, or is over."""
    if run.status not in LIVE or run.attempt != node["attempt"]:
        return None
    if run.node is not None and run.node["attempt"] == run.attempt:
        return None
    return Decision(Cause.START, None, by, sets={"startAt": at, "node": dict(node)})


def preempt_decision(run: Run, attempt: int, wait_s: float, *, by: str) -> Decision | None:
    """Return the decision that an attempt gives its pod back; None where it was told, or is over."""
    if run.status not in LIVE or run.attempt != attempt:
        return None
    if run.preempt is not None and run.preempt["attempt"] == attempt:
        return None
    return Decision(Cause.PREEMPT, None, by, sets={"preempt": {"attempt": attempt, "waitS": wait_s}})


def noted(text: str) -> str:
    """Return a note as it is kept. Raises `Rejected`."""
    words = text.strip()
    if not 1 <= len(words) <= NOTE_CHARS_MAX:
        raise Rejected("bad_note", f"a note is text of 1 to {NOTE_CHARS_MAX} characters, not {len(words)}")
    return words


def note_decision(run: Run, text: str, *, by: str) -> Decision:
    """Return the decision to add a note. Raises `Conflict` where the run has as many as it may have."""
    if run.notes_count >= NOTES_MAX:
        raise Conflict("too_many_notes", f"the run has {NOTES_MAX} notes, which is the limit")
    number = run.notes_count + 1  # nobody adds one in between: the update is for this revision only
    note = {"number": number, "at": "$$NOW", "by": {"$literal": by}, "text": {"$literal": text}}
    # All of them, so that a replay need not know how notes add up.
    notes = Expression({"$concatArrays": [{"$ifNull": ["$notes", []]}, [note]]})
    return Decision(Cause.NOTE, None, by, sets={"notes": notes})


def review_decision(
    run: Run, review: Review, unfit: Sequence[str], roots: Roots | None
) -> Decision | Illegal:
    """Return the decision that a verdict stands for.

    `unfit` says what is wrong with the run's files, `roots` are those of the lines which were applied,
    None where they are not known. Raises `Conflict`.
    """
    usual = next_status(run.status, Cause.REVIEW)
    if isinstance(usual, Illegal):
        return usual
    if review.seen not in (None, run.last_event_seq):
        shown = f"you were shown events 1 to {review.seen} of attempt {run.attempt}"
        raise Conflict("record_changed", f"{shown}, by now there are {run.last_event_seq}: look again")
    is_whole = _is_whole(run)
    if not review.incomplete and not is_whole:
        raise Conflict("record_incomplete", _missing(run))
    if is_whole and not _are_as_said(run, roots):
        other = (
            f"events 1 to {run.last_event_seq} of attempt {run.attempt} are not those that it settled with"
        )
        unfit = [other, *unfit]
    if not review.incomplete and unfit:
        raise Conflict("record_incomplete", f"{'; '.join(unfit)}. {_CLOSES}")
    sets = {
        "finishedAt": ServerTime(),
        "humanVerdict": _verdict_fields(review),
        "sealed": {
            "attempt": run.attempt,
            "last": run.last_event_seq,
            "whole": is_whole and not unfit,
            "root": None if roots is None else roots.stored,
        },
    }
    closed: dict[str, Any] = {"logOpen": False}
    if run.log_open and run.settled is not None:
        closed["logIncomplete"] = {"from": run.last_event_seq + 1, "to": run.settled.last}
    return Decision(Cause.REVIEW, JUDGED[review.verdict], _by(review), sets=sets, silent=closed)


def _is_whole(run: Run) -> bool:
    """Say whether every event that the attempt settled with was applied."""
    is_closed = not (run.log_open or run.log_incomplete)
    return is_closed and run.settled is not None and run.settled.last == run.last_event_seq


def _are_as_said(run: Run, roots: Roots | None) -> bool:
    """Say whether the roots of the applied lines agree with the root that the attempt settled with."""
    settled_root = None if run.settled is None else run.settled.root
    return settled_root is None or roots is None or settled_root == roots.said


def revise_decision(run: Run, review: Review) -> Decision | Illegal:
    """Return the decision that gives a run the other verdict. Raises `Conflict` where it has this one."""
    other = next_status(run.status, Cause.REVISE)
    if isinstance(other, Illegal):
        return other
    if JUDGED[review.verdict] is run.status:
        raise Conflict(
            "same_verdict", f"the verdict is {review.verdict} already: only the other one revises it"
        )
    return Decision(Cause.REVISE, other, _by(review), sets={"humanVerdict": _verdict_fields(review)})


def _by(review: Review) -> str:
    return f"reviewer:{review.reviewer}"


def _verdict_fields(review: Review) -> dict[str, str]:
    # In the decision itself, so that no crash can keep the verdict and lose its reasons.
    return {"verdict": review.verdict, "notes": review.notes, "reviewer": review.reviewer}


_CLOSES: Final = (
    "A verdict closes the record for good: wait for what is missing, or give the verdict with `incomplete`, "
    "on what there is"
)


def _missing(run: Run) -> str:
    if run.settled is None:
        what = f"nothing says which event of attempt {run.attempt} is its last"
    elif run.settled.last < run.last_event_seq:
        what = f"attempt {run.attempt} settled with {run.settled.last} as its last event, and went on"
    else:
        state = "are still on their way" if run.log_open else "never arrived"
        what = f"events {run.last_event_seq + 1} to {run.settled.last} of attempt {run.attempt} {state}"
    return f"{what}. {_CLOSES}"
