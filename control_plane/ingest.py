"""Takes events in: checks, stores, applies, and answers line by line.

Law: an answer that acknowledges is given only when every acknowledged event is durable on a
majority and applied as far as no gap is before it. The order is dead letters, log, verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from bson.raw_bson import RawBSONDocument

from control_plane.direct import DirectEvents
from control_plane.projector import Projector
from control_plane.run import Run
from control_plane.store.database import Document
from control_plane.store.documents import Documents
from control_plane.store.events import Arrival, Events, storable
from control_plane.store.runs import Runs
from events.catalog import RunHeartbeat, Unknown
from events.clock import Clock, Ids
from events.codec import Decoded, Refusal
from events.envelope import Event, content_hash, storage_id
from events.errors import Rejected
from events.lifecycle import Status

ORPHANS_MAX: Final = 10_000
ORPHAN_LIFE: Final = timedelta(days=7)
TELEMETRY_LIFE: Final = timedelta(days=14)
LETTER_BYTES_MAX: Final = 16 * 1024
STRANGERS_LETTER_BYTES_MAX: Final = 512
LETTER_LIFE: Final = timedelta(days=30)
CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: a name for the dead letters, whether it may decide (scope `admin`), and by which right.

    Who may decide writes for every run, the holder of an `attempt` for that, and another key for the attempts
    that were claimed with it.
    """

    name: str
    may_decide: bool
    attempt: tuple[str, int] | None = None
    key_id: str | None = None

    def may_write(self, run_id: str, attempt: int, run: Run | None, now: datetime) -> bool:
        """Say whether what it says of an attempt is to be believed."""
        if self.may_decide or self.attempt is not None:
            return self.may_decide or self.attempt == (run_id, attempt)
        token = None if run is None else run.token_of(attempt)
        return token is not None and token.key_id == self.key_id is not None and token.is_open(now)


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that was not taken, and never will be."""

    line: int
    id: str | None
    code: str
    message: str


@dataclass(slots=True)
class Answer:
    """What became of a request; `acked_through` maps `<run>/<attempt>` to its applied position.

    `fenced` names attempts that own their run no more, `canceling` those that shall end, `steered`
    those whose worker has not heard yet what people want of the run: hints, which make it ask sooner.
    """

    accepted: int = 0
    duplicates: int = 0
    unknown: int = 0
    rejected: list[Refused] = field(default_factory=list)
    acked_through: dict[str, int] = field(default_factory=dict)
    fenced: list[str] = field(default_factory=list)
    canceling: list[str] = field(default_factory=list)
    steered: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An event that may be stored."""

    line: Decoded
    event: Event
    document: RawBSONDocument

    @property
    def id(self) -> str:
        return storage_id(self.event.run_id, self.event.source, self.event.id)


@dataclass(frozen=True, slots=True)
class Ingestor:
    """The way of every event from the wire into the documents."""

    runs: Runs
    events: Events
    documents: Documents
    projector: Projector
    direct: DirectEvents
    clock: Clock
    ids: Ids

    async def take(self, lines: Sequence[Decoded], sender: Sender) -> Answer:
        """Store and apply what can be taken; refuse the rest one by one.

        Raises `Transient` when nothing may be acknowledged: the sender sends the same again.
        """
        answer = Answer()
        runs = await self._runs(lines, sender)
        orphan_room = sender.may_decide and await self._orphan_room(lines, runs)
        candidates: list[Candidate] = []
        letters: list[Document] = []
        for line in lines:
            checked = self._check(line, runs, sender, orphan_room)
            if isinstance(checked, Candidate):
                candidates.append(checked)
            else:
                answer.rejected.append(checked)
                letters.append(self._letter(line, checked, sender, runs))
        taken, conflicts = await self._store(candidates, answer)
        for candidate, refused in conflicts:
            answer.rejected.append(refused)
            letters.append(self._letter(candidate.line, refused, sender, runs))
        answer.rejected.sort(key=lambda refused: refused.line)
        await self.documents.refuse(letters)
        await self._apply(taken, runs, answer)
        return answer

    async def _runs(self, lines: Iterable[Decoded], sender: Sender) -> Mapping[str, Run | None]:
        names = {line.outcome.run_id for line in lines if isinstance(line.outcome, Event)}
        own = names if sender.attempt is None else names & {sender.attempt[0]}
        found = await self.runs.find_all(own) if own else {}
        return {name: found.get(name) for name in names}

    async def _orphan_room(self, lines: Sequence[Decoded], runs: Mapping[str, Run | None]) -> bool:
        if all(runs.values()):
            return True
        return await self.events.orphan_count(ORPHANS_MAX) + len(lines) <= ORPHANS_MAX

    def _check(
        self, line: Decoded, runs: Mapping[str, Run | None], sender: Sender, orphan_room: bool
    ) -> Candidate | Refused:
        event = line.outcome
        if isinstance(event, Refusal):
            return Refused(line.line, event.id, event.code, event.message)
        run = runs[event.run_id]
        if not sender.may_write(event.run_id, event.attempt, run, self.clock.now()):
            message = f"attempt {event.attempt} of run {event.run_id} is not held by this key"
            return _refuse(line, event, "forbidden", message)
        if run is None and not (sender.may_decide and orphan_room):
            return _refuse(line, event, "unknown_run", f"there is no run {event.run_id}")
        if event.sequence is None and self.direct.decides(event):
            if not sender.may_decide:
                message = "a lifecycle event without `sequence` needs the scope admin"
                return _refuse(line, event, "forbidden", message)
            if run is None:
                return _refuse(line, event, "unknown_run", f"there is no run {event.run_id} to decide about")
        try:
            return Candidate(line, event, storable(event, self._arrival(event, run)))
        except Rejected as error:
            return _refuse(line, event, error.code, error.message)

    def _arrival(self, event: Event, run: Run | None) -> Arrival:
        now = self.clock.now()
        if run is None:
            return Arrival(self.ids.ulid(), now, now + ORPHAN_LIFE, orphan=True)
        droppable = event.sequence is None and isinstance(event.fact, RunHeartbeat)
        return Arrival(self.ids.ulid(), now, now + TELEMETRY_LIFE if droppable else None)

    async def _store(
        self, candidates: Sequence[Candidate], answer: Answer
    ) -> tuple[list[Candidate], list[tuple[Candidate, Refused]]]:
        """Append what is new; return what the log holds now, and what contradicts it."""
        kept: list[Candidate] = []
        conflicts: list[tuple[Candidate, Refused]] = []
        for candidate in candidates:
            refused = await self._undecidable(candidate)
            if refused is None:
                kept.append(candidate)
            else:
                conflicts.append((candidate, refused))
        collided = await self.events.append([each.document for each in kept]) if kept else set()
        stored = await self.events.by_ids([kept[index].id for index in collided]) if collided else {}
        taken: list[Candidate] = []
        for index, candidate in enumerate(kept):
            if index not in collided:
                answer.accepted += 1
                answer.unknown += isinstance(candidate.event.fact, Unknown)
                taken.append(candidate)
                continue
            known = stored.get(candidate.id)
            if known is not None and known.hash == content_hash(candidate.event):
                answer.duplicates += 1
                taken.append(candidate)
            else:
                conflicts.append((candidate, _conflict(candidate, same_id=known is not None)))
        return taken, conflicts

    async def _undecidable(self, candidate: Candidate) -> Refused | None:
        event = candidate.event
        if event.sequence is not None or not self.direct.decides(event):
            return None
        illegal = await self.direct.refusal(event, candidate.id)
        return None if illegal is None else _refuse(candidate.line, event, "illegal_transition", illegal)

    async def _apply(
        self, taken: Sequence[Candidate], runs: Mapping[str, Run | None], answer: Answer
    ) -> None:
        for candidate in taken:
            event = candidate.event
            if event.sequence is None and runs[event.run_id] is not None:
                await self.direct.apply(event, candidate.id)
        numbered = {(each.event.run_id, each.event.attempt) for each in taken if each.event.sequence}
        for run_id, attempt in sorted(numbered):
            answer.acked_through[f"{run_id}/{attempt}"] = await self.projector.apply(run_id, attempt)
        for run_id, attempt in sorted({(each.event.run_id, each.event.attempt) for each in taken}):
            run = runs[run_id]
            if run is not None and run.has_lost(attempt):
                answer.fenced.append(f"{run_id}/{attempt}")
            elif run is not None and run.status is Status.CANCELING:
                answer.canceling.append(f"{run_id}/{attempt}")
            elif run is not None and run.has_news:
                answer.steered.append(f"{run_id}/{attempt}")

    def _letter(
        self, line: Decoded, refused: Refused, sender: Sender, runs: Mapping[str, Run | None]
    ) -> Document:
        outcome: Any = line.outcome
        now = self.clock.now()
        is_own = sender.may_write(outcome.run_id, outcome.attempt, runs.get(outcome.run_id), now)
        most = LETTER_BYTES_MAX if is_own else STRANGERS_LETTER_BYTES_MAX
        cut = CUT if len(line.raw) > most else ""  # nobody takes a part for the whole
        return {
            "_id": self.ids.ulid(),
            "at": now,
            "code": refused.code,
            "message": refused.message,
            "line": line.raw[:most].decode(errors="replace") + cut,
            "runId": outcome.run_id,
            "attempt": outcome.attempt,
            "sequence": outcome.sequence,
            "principal": sender.name,
            "expiresAt": now + LETTER_LIFE,
        }


def _refuse(line: Decoded, event: Event, code: str, message: str) -> Refused:
    return Refused(line.line, event.id, code, message)


def _conflict(candidate: Candidate, *, same_id: bool) -> Refused:
    event = candidate.event
    if same_id:
        message = f"another event with source {event.source!r} and id {event.id!r} is stored already"
    else:
        message = f"position {event.run_id}/{event.attempt}/{event.sequence} holds another event"
    return _refuse(candidate.line, event, "conflict", message)
