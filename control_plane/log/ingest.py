"""Ingest: checks, stores and applies events, and answers with a verdict for each line.

Law: an answer acknowledges only events that are durable on a majority and, unless a gap is before them,
applied. The order is dead letters, log, verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from bson.raw_bson import RawBSONDocument

from control_plane.log.byte_budgets import RECORDED, Budgets, account, row_account
from control_plane.log.ingest_store import IngestStore
from control_plane.log.projector import Stretch
from control_plane.log.unclaimed_lines import LETTER_LIFE, LETTER_PREFIX, UNCLAIMED
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.model.byte_limits import OVER_BUDGET
from control_plane.model.run import Run
from control_plane.store.database import Document
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Arrival, Events, storable
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.queue.runs import Found
from events.catalog import RunHeartbeat, Unknown
from events.codec import Decoded, Refusal
from events.envelope import Event, content_hash, storage_id
from events.lifecycle import Status
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId

ORPHANS_MAX: Final = 10_000
ORPHAN_LIFE: Final = timedelta(days=7)
TELEMETRY_LIFE: Final = timedelta(days=14)
LETTER_BYTES_MAX: Final = 16 * 1024
STRANGERS_LETTER_BYTES_MAX: Final = 512
CUT: Final = "…"
AHEAD_MAX: Final = 10_000_000  # positions: more than any attempt says while one of its lines is on its way
FAR_AHEAD: Final = "far_ahead"
SEALED: Final = "sealed"
DELETED: Final = "deleted"


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: a name for the dead letters, whether it may decide (scope `admin`), and by which right.

    Who may decide writes for every run, the holder of an `attempt` for that, and another key for the attempts
    that were claimed with it. Events with a number are the holder's alone.
    """

    name: str
    may_decide: bool
    attempt: AttemptId | None = None
    key_id: str | None = None

    def holds(self, attempt_id: AttemptId, run: Run | None, now: datetime) -> bool:
        """Say whether the sender has claimed the attempt: only then may it send numbered events."""
        if self.attempt is not None:
            return self.attempt == attempt_id
        token = None if run is None else run.token_of(attempt_id.attempt)
        return token is not None and token.key_id == self.key_id is not None and token.is_open(now)

    def may_write(self, attempt_id: AttemptId, run: Run | None, now: datetime) -> bool:
        """Say whether the sender may send events about an attempt."""
        return self.may_decide or self.holds(attempt_id, run, now)


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused line: sending it again gives the same answer."""

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


class Candidate(NamedTuple):
    """An event that may be stored, the id under which the log keeps it, and the digest of what it says."""

    line: Decoded
    event: Event
    id: str
    hash: str
    is_unclaimed: bool = False


class Capacity(NamedTuple):
    """Whether unnumbered events of unknown runs, and numbered ones of unclaimed attempts, may be kept."""

    orphans: bool
    unclaimed: bool


class Request:
    """The state of one request during ingest."""

    def __init__(
        self,
        sender: Sender,
        runs: Mapping[str, Found],
        now: datetime,
        position: str,
        deleted: Collection[str] = (),
    ) -> None:
        self.sender = sender
        self.runs = runs
        self.deleted = deleted
        self.now = now
        self.position = position
        self.answer = Answer()
        self.letters: list[Document] = []
        self.heads: Mapping[AttemptId, int] = {}
        self._rights: dict[AttemptId, tuple[bool, bool]] = {}

    def run(self, run_id: str | None) -> Run | None:
        """Return the run of this id, as it was when the request came."""
        found = None if run_id is None else self.runs.get(run_id)
        return None if found is None else found.run

    def holds(self, attempt_id: AttemptId) -> bool:
        """Say whether the sender holds an attempt, or held it."""
        return self._right(attempt_id)[0]

    def may_write(self, attempt_id: AttemptId) -> bool:
        """Say whether the sender may send events about an attempt."""
        return self._right(attempt_id)[1]

    def _right(self, attempt_id: AttemptId) -> tuple[bool, bool]:
        """Return (holds, may write) for an attempt; the result is cached for the request."""
        if attempt_id not in self._rights:
            asked = (attempt_id, self.run(attempt_id.run_id), self.now)
            self._rights[attempt_id] = (self.sender.holds(*asked), self.sender.may_write(*asked))
        return self._rights[attempt_id]

    def account(self, attempt_id: AttemptId) -> str:
        """Return the account that the sender's events about an attempt are charged to."""
        return account(attempt_id, by_holder=self.holds(attempt_id))

    def key_of(self, attempt_id: AttemptId) -> str | None:
        """Return the key that is charged for an attempt's events: the sender's, or its run token's."""
        if self.sender.key_id is not None:
            return self.sender.key_id
        run = self.run(attempt_id.run_id)
        token = None if run is None else run.token_of(attempt_id.attempt)
        return None if token is None else token.key_id

    def is_claimed(self, event: Event) -> bool:
        """Say whether the attempt of an event was claimed when the request came."""
        run = self.run(event.run_id)
        return run is not None and event.attempt <= run.attempt

    def cursor(self, attempt_id: AttemptId) -> int:
        """Return the last applied position of an attempt, as its run stores it; 0 if the run does not."""
        run = self.run(attempt_id.run_id)
        return run.last_event_seq if run is not None and run.attempt == attempt_id.attempt else 0

    def arrival(self, event: Event, line: int) -> Arrival:
        """Return the record of an event's arrival; its position sorts in the order of the lines."""
        position = f"{self.position}{line:03X}"
        if event.run_id not in self.runs:
            return Arrival(position, self.now, self.now + ORPHAN_LIFE, orphan=True)
        droppable = event.sequence is None and isinstance(event.fact, RunHeartbeat)
        return Arrival(position, self.now, self.now + TELEMETRY_LIFE if droppable else None)

    def refuse(
        self, line: Decoded, refused: Refused, letter_id: str, reason_until: datetime | None = None
    ) -> None:
        """Add a refused line to the answer and the dead letters; it expires by `reason_until`."""
        self.answer.rejected.append(refused)
        expires_at = self.now + LETTER_LIFE
        if reason_until is not None:
            expires_at = min(expires_at, reason_until)
        self.letters.append(self._letter(line, refused, letter_id, expires_at))

    def _letter(self, line: Decoded, refused: Refused, letter_id: str, expires_at: datetime) -> Document:
        outcome: Any = line.outcome
        is_own = self.may_write(AttemptId(outcome.run_id, outcome.attempt))
        most = LETTER_BYTES_MAX if is_own else STRANGERS_LETTER_BYTES_MAX
        return {
            "_id": letter_id,
            "at": self.now,
            "code": refused.code,
            "message": refused.message,
            "line": _cut(line.raw, most),
            "runId": outcome.run_id,
            "attempt": outcome.attempt,
            "sequence": outcome.sequence,
            "principal": self.sender.name,
            "expiresAt": expires_at,
        }


@dataclass(frozen=True, slots=True)
class Ingestor:
    """Checks, stores and applies the events of each request."""

    events: Events
    documents: Documents
    unclaimed: UnclaimedStore
    unnumbered: UnnumberedEvents
    store: IngestStore
    budgets: Budgets
    clock: Clock
    ids: Ids

    async def take(self, lines: Sequence[Decoded], sender: Sender) -> Answer:
        """Store and apply the valid lines; refuse each of the others with a code.

        Raises `Transient` when nothing may be acknowledged: the sender sends the same again.
        """
        runs = await self._runs(lines, sender)
        deleted = await self._deleted(lines, runs)
        request = Request(sender, runs, self.clock.now(), self.ids.ulid(), deleted)
        request.heads = await self._heads(lines, request)
        capacity = await self._capacity(lines, request)
        candidates: list[Candidate] = []
        for line in lines:
            checked = self._check(line, request, capacity)
            if isinstance(checked, Candidate):
                candidates.append(checked)
            else:
                self._refuse(request, line, checked)
        unclaimed = [each for each in candidates if each.is_unclaimed]
        candidates = await self._possible([each for each in candidates if not each.is_unclaimed], request)
        candidates = await self._decidable(candidates, request)
        repeated = await self._repeated(candidates, request)
        taken = await self._store(candidates, repeated, request)
        await self._keep(unclaimed, request)
        request.answer.rejected.sort(key=lambda refused: refused.line)
        await self.documents.refuse(request.letters)
        await self._apply(taken, request)
        self._hint(taken, request)
        return request.answer

    async def _runs(self, lines: Iterable[Decoded], sender: Sender) -> Mapping[str, Found]:
        names = frozenset(line.outcome.run_id for line in lines if isinstance(line.outcome, Event))
        own = names if sender.attempt is None else names & {sender.attempt.run_id}
        if not own:
            return {}
        found = await self.store.find(own)
        return {name: found[name] for name in own if name in found}

    async def _deleted(self, lines: Iterable[Decoded], runs: Mapping[str, Found]) -> Collection[str]:
        """Return which runs of these lines were deleted; the store is asked only where a run is missing."""
        missing = {line.outcome.run_id for line in lines if isinstance(line.outcome, Event)} - runs.keys()
        return await self.events.deleted_runs(missing) if missing else ()

    async def _capacity(self, lines: Sequence[Decoded], request: Request) -> Capacity:
        """Return which kinds of extra lines still fit; the store is asked only if a line needs it."""
        if not request.sender.may_decide:
            return Capacity(orphans=False, unclaimed=False)
        events = [line.outcome for line in lines if isinstance(line.outcome, Event)]
        orphans = sum(event.sequence is None and event.run_id not in request.runs for event in events)
        unclaimed = sum(event.sequence is not None and not request.is_claimed(event) for event in events)
        return Capacity(
            orphans=not orphans or await self.events.orphan_count(ORPHANS_MAX) + orphans <= ORPHANS_MAX,
            unclaimed=not unclaimed or await self.unclaimed.capacity() >= unclaimed,
        )

    async def _heads(self, lines: Sequence[Decoded], request: Request) -> Mapping[AttemptId, int]:
        """Return the highest stored position of each attempt with a line far ahead of the cursor."""
        heads: dict[AttemptId, int] = {}
        for line in lines:
            if not isinstance(line.outcome, Event) or line.outcome.sequence is None:
                continue
            name = line.outcome.attempt_id
            is_far = line.outcome.sequence > request.cursor(name) + AHEAD_MAX
            if is_far and name not in heads and request.holds(name):
                heads[name] = await self.events.head(name)
        return heads

    def _check(self, line: Decoded, request: Request, capacity: Capacity) -> Candidate | Refused:
        event = line.outcome
        if isinstance(event, Refusal):
            return Refused(line.line, event.id, event.code, event.message)
        if event.run_id in request.deleted:
            return _refuse(line, event, DELETED, f"run {event.run_id} was deleted")
        if not request.may_write(event.attempt_id):
            message = f"{event.attempt_id.words} is not held by this key"
            return _refuse(line, event, "forbidden", message)
        is_known, may_decide = event.run_id in request.runs, request.sender.may_decide
        if event.sequence is not None and not request.holds(event.attempt_id):
            return self._unclaimed(line, event, request, capacity)
        if not is_known and not (may_decide and capacity.orphans):
            return _refuse(line, event, "unknown_run", f"there is no run {event.run_id}")
        if event.sequence is None and self.unnumbered.decides(event):
            if not may_decide:
                message = "a lifecycle event without `sequence` needs the scope admin"
                return _refuse(line, event, "forbidden", message)
            if not is_known:
                return _refuse(line, event, "unknown_run", f"there is no run {event.run_id} to decide about")
        name = event.attempt_id
        known = max(request.cursor(name), request.heads.get(name, 0))
        if event.sequence is not None and event.sequence > known + AHEAD_MAX:
            message = (
                f"sequence {event.sequence} is more than {AHEAD_MAX:,} beyond {known}, the highest known"
            )
            return _refuse(line, event, FAR_AHEAD, message)
        return _candidate(line, event)

    def _unclaimed(
        self, line: Decoded, event: Event, request: Request, capacity: Capacity
    ) -> Candidate | Refused:
        """Check a numbered event of an attempt that its sender has not claimed."""
        if request.is_claimed(event):
            message = f"numbered events of attempt {event.attempt} come from the holder of its run token"
            return _refuse(line, event, "forbidden", message)
        if not capacity.unclaimed:
            if event.run_id not in request.runs:
                return _refuse(line, event, "unknown_run", f"there is no run {event.run_id}")
            message = f"attempt {event.attempt} is not claimed, and no more lines are kept for such attempts"
            return _refuse(line, event, UNCLAIMED, message)
        return _candidate(line, event, is_unclaimed=True)

    async def _possible(self, candidates: Sequence[Candidate], request: Request) -> list[Candidate]:
        """Return candidates whose log is open and whose byte budget is left. Raises `RateLimited`."""
        attempts = {each.event.attempt_id for each in candidates}
        keys = {key for each in attempts if (key := request.key_of(each)) is not None}
        accounts = {request.account(each) for each in attempts}
        recording = {each.event.attempt_id for each in candidates if each.event.type == RECORDED}
        accounts |= {row_account(request.account(each)) for each in recording}
        await self.budgets.look(accounts, keys)
        rows: Counter[str] = Counter()
        refused: dict[str, Refused] = {}
        for each in candidates:
            run, event = request.run(each.event.run_id), each.event
            account_of = request.account(event.attempt_id)
            if run and (why := run.closes(event.attempt, event.sequence)):
                refused[each.id] = _refuse(each.line, event, SEALED, why)
            elif why := self.budgets.refusal(event, account_of, rows_before=rows[account_of]):
                refused[each.id] = _refuse(each.line, event, OVER_BUDGET, why)
            elif event.type == RECORDED:
                rows[account_of] += 1
        if not refused:
            return list(candidates)
        stored = await self.events.by_ids([*refused])  # what is there already is only told again
        kept: list[Candidate] = []
        for each in candidates:
            if each.id in refused and each.id not in stored:
                self._refuse(request, each.line, refused[each.id])
            else:
                kept.append(each)
        return kept

    async def _decidable(self, candidates: Sequence[Candidate], request: Request) -> list[Candidate]:
        """Return the candidates, without lifecycle events that the run's status does not allow."""
        kept: list[Candidate] = []
        for each in candidates:
            illegal = None
            if each.event.sequence is None and self.unnumbered.decides(each.event):
                illegal = await self.unnumbered.refusal(each.event, each.id)
            if illegal is None:
                kept.append(each)
            else:
                refused = _refuse(each.line, each.event, "illegal_transition", illegal)
                self._refuse(request, each.line, refused)
        return kept

    async def _repeated(self, candidates: Sequence[Candidate], request: Request) -> set[tuple[str, str]]:
        """Return id and digest of candidates that the log holds already, of those whose position was applied.

        A hint that saves the insert; about all others, and all that contradicts, the log's indexes decide.
        """
        asked: list[Candidate] = []
        for each in candidates:
            run = request.run(each.event.run_id)
            is_current = run is not None and run.attempt == each.event.attempt
            if run and is_current and each.event.sequence and each.event.sequence <= run.last_event_seq:
                asked.append(each)
        if not asked:
            return set()
        stored = await self.events.by_ids([each.id for each in asked])
        return {(each.id, each.hash) for each in stored.values()}

    async def _store(
        self, candidates: Sequence[Candidate], repeated: Collection[tuple[str, str]], request: Request
    ) -> list[Candidate]:
        """Append new events, refuse those that contradict the log; return those that are in it."""
        fresh: list[Candidate] = []
        documents: list[RawBSONDocument] = []
        taken = [each for each in candidates if (each.id, each.hash) in repeated]
        for each in candidates:
            if (each.id, each.hash) in repeated:
                continue
            try:
                arrival = request.arrival(each.event, each.line.line)
                documents.append(storable(each.event, arrival, each.id, each.hash))
                fresh.append(each)
            except Rejected as error:
                self._refuse(request, each.line, _refuse(each.line, each.event, error.code, error.message))
        collided = await self.store.append(documents) if documents else set()
        stored = await self.events.by_ids([fresh[index].id for index in collided]) if collided else {}
        request.answer.duplicates = len(taken)
        stored_bytes: Counter[AttemptId] = Counter()
        row_bytes: dict[AttemptId, list[int]] = {}
        for index, each in enumerate(fresh):
            known = stored.get(each.id)
            if index not in collided:
                request.answer.accepted += 1
                stored_bytes[each.event.attempt_id] += len(documents[index].raw)
                if each.event.type == RECORDED:
                    row_bytes.setdefault(each.event.attempt_id, []).append(len(documents[index].raw))
                request.answer.unknown += isinstance(each.event.fact, Unknown)
            elif known is not None and known.hash == each.hash:
                request.answer.duplicates += 1
            else:
                refused = _conflict(each, same_id=known is not None)
                request.refuse(
                    each.line, refused, self.ids.ulid(), None if known is None else known.expires_at
                )
                continue
            taken.append(each)
        for attempt, size in stored_bytes.items():
            self.budgets.charge(request.account(attempt), request.key_of(attempt), size)
        for attempt, sizes in row_bytes.items():
            self.budgets.charge_rows(request.account(attempt), sizes)
        return taken

    async def _keep(self, unclaimed: Sequence[Candidate], request: Request) -> None:
        """Store numbered events of unclaimed attempts in `early_lines`; they are not applied."""
        if not unclaimed:
            return
        collided = await self.unclaimed.keep([_unclaimed_line(each, request) for each in unclaimed])
        stored = await self.unclaimed.hashes([unclaimed[index].id for index in collided]) if collided else {}
        for index, each in enumerate(unclaimed):
            if index not in collided:
                request.answer.accepted += 1
                request.answer.unknown += isinstance(each.event.fact, Unknown)
            elif stored.get(each.id, each.hash) == each.hash:  # gone meanwhile: it is a dead letter by now
                request.answer.duplicates += 1
            else:
                # Named apart: it contradicts no line of the log, by which an audit would judge it.
                letter_id = f"{LETTER_PREFIX}{self.ids.ulid()}"
                request.refuse(each.line, _conflict(each, same_id=True), letter_id)
                continue
            request.answer.acked_through.setdefault(str(each.event.attempt_id), 0)

    async def _apply(self, taken: Sequence[Candidate], request: Request) -> None:
        numbered: dict[AttemptId, list[Event]] = {}
        for each in taken:
            event = each.event
            if event.sequence is not None:
                numbered.setdefault(event.attempt_id, []).append(event)
            elif event.run_id in request.runs:
                await self.unnumbered.apply(event, each.id)
        for attempt_id, events in sorted(numbered.items()):
            events.sort(key=_sequence)
            cursor = await self._follow(request.runs.get(attempt_id.run_id), attempt_id.attempt, events)
            if cursor is None:
                cursor = await self.store.apply(attempt_id)
            request.answer.acked_through[str(attempt_id)] = cursor

    async def _follow(self, found: Found | None, attempt: int, events: Sequence[Event]) -> int | None:
        """Apply events that continue the applied ones; return the cursor, None if the log must be read."""
        if found is None or attempt > found.run.attempt:
            return None
        if attempt == found.run.attempt and _sequence(events[-1]) <= found.run.last_event_seq:
            return found.run.last_event_seq
        return await self.store.follow(Stretch(found, attempt, events))

    def _hint(self, taken: Sequence[Candidate], request: Request) -> None:
        answer = request.answer
        for attempt_id in sorted({each.event.attempt_id for each in taken}):
            run = request.run(attempt_id.run_id)
            if run is None:
                continue
            if run.has_lost(attempt_id.attempt):
                answer.fenced.append(str(attempt_id))
            elif run.status is Status.CANCELING:
                answer.canceling.append(str(attempt_id))
            elif run.has_news:
                answer.steered.append(str(attempt_id))

    def _refuse(self, request: Request, line: Decoded, refused: Refused) -> None:
        if refused.code == DELETED:  # there is nobody left to whom a dead letter could tell anything
            request.answer.rejected.append(refused)
            return
        request.refuse(line, refused, self.ids.ulid())


def _sequence(event: Event) -> int:
    return event.sequence or 0


def _refuse(line: Decoded, event: Event, code: str, message: str) -> Refused:
    return Refused(line.line, event.id, code, message)


def _candidate(line: Decoded, event: Event, *, is_unclaimed: bool = False) -> Candidate:
    identity = storage_id(event.run_id, event.source, event.id)
    return Candidate(line, event, identity, content_hash(event), is_unclaimed)


def _unclaimed_line(candidate: Candidate, request: Request) -> Document:
    event, raw = candidate.event, candidate.line.raw
    return {
        "_id": candidate.id,
        "runId": event.run_id,
        "attempt": event.attempt,
        "sequence": event.sequence,
        "hash": candidate.hash,
        "line": _cut(raw, LETTER_BYTES_MAX),
        "principal": request.sender.name,
        "expiresAt": request.now + ORPHAN_LIFE,
    }


def _cut(line: bytes, most: int) -> str:
    """Return the text of a line, cut to a limit with a mark at the cut."""
    return line[:most].decode(errors="replace") + (CUT if len(line) > most else "")


def _conflict(candidate: Candidate, *, same_id: bool) -> Refused:
    event = candidate.event
    if same_id:
        message = f"another event with source {event.source!r} and id {event.id!r} is stored already"
    else:
        message = f"position {event.run_id}/{event.attempt}/{event.sequence} holds another event"
    return _refuse(candidate.line, event, "conflict", message)
