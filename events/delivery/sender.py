"""The only sender of a worker: sends the outbox to the control plane, in order, without loss.

Law: a line leaves the outbox only by its own verdict: stored, duplicate, or refused for good. An answer
that is cut, garbled or inconsistent is no verdict, and the lines are sent again.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from events.delivery.event_encoder import Row, fact_frame, refusal_of, with_line
from events.delivery.outbox import Outbox
from events.kinds.declaring.fact import Fact
from events.record_digest import REFUSED
from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock, Ids, timestamp
from events.runtime.errors import Barred, Transient
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

BATCH_EVENTS_MAX: Final = 500
BATCH_BYTES_MAX: Final = 1 << 20
BATCH_WAIT_S: Final = 1.0  # the longest that a lone event waits for company
REQUESTS_MAX: Final = 20  # in one step, so that a long backlog leaves room for orders
POST_TIMEOUT_S: Final = 30.0
BACK_OFF_FIRST_S: Final = 0.5
BACK_OFF_MAX_S: Final = 60.0
BARRED_S: Final = 60.0  # what a token opens is changed by people
FLUSH_TURN_S: Final = 0.02
TELEMETRY_MAX: Final = 100
TELEMETRY_AGE_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rejection:
    """One line that was refused for good; `line` counts from 1."""

    line: int
    code: str
    message: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Each line of the request has its verdict: it is safe, unless it is among the rejected."""

    rejected: tuple[Rejection, ...] = ()
    fenced: frozenset[AttemptId] = frozenset()
    canceling: frozenset[AttemptId] = frozenset()
    steered: frozenset[AttemptId] = frozenset()


@dataclass(frozen=True, slots=True)
class Declined:
    """The request as a whole was refused for good, and no line of it is named."""

    code: str
    message: str
    is_too_large: bool = False


class Ingest(Protocol):
    """The receiver of events."""

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        """Send events of one attempt, in order, with its run token.

        Raises `Transient` when no verdict came, `Barred` where the token opens nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one step achieved: lines that are safe, lines refused for good, and how long to wait now."""

    stored: int = 0
    refused: int = 0
    fenced: frozenset[AttemptId] = frozenset()  # attempts that no longer own their run
    canceling: frozenset[AttemptId] = frozenset()  # attempts that somebody wants to end
    steered: frozenset[AttemptId] = frozenset()  # attempts for which there is news to ask for
    left: int = 0
    back_off_s: float = 0.0


class Telemetry:
    """Unsequenced events in memory: the next request takes them along, an outage lets them expire."""

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._waiting: deque[tuple[float, Row]] = deque(maxlen=TELEMETRY_MAX)

    def put(self, attempt_id: AttemptId, source: str, fact: Fact, *, token: str) -> None:
        """Add a fact whose loss does no harm, such as a heartbeat; a full buffer drops the oldest."""
        frame = fact_frame(fact)
        row = Row(None, self._ids.ulid(), frame.type, *attempt_id, None, source, token=token)
        line = with_line(row, frame.data, timestamp(self._clock.now()))
        self._waiting.append((self._clock.monotonic_s(), line))

    def take(self) -> list[Row]:
        """Return the facts that have not expired; each is sent at most once."""
        oldest_s = self._clock.monotonic_s() - TELEMETRY_AGE_MAX_S
        rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
        return [row for at_s, row in rows if at_s >= oldest_s]


@dataclass(slots=True)
class Pace:
    """The current rate of requests to the control plane; guarded by `lock`, as is the sending itself."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
    not_before_s: float = float("-inf")
    lines_max: int = BATCH_EVENTS_MAX
    barred: dict[AttemptId, float] = field(default_factory=dict)  # until when

    def waits(self, now_s: float) -> frozenset[AttemptId]:
        """Return the attempts whose events are not tried now."""
        self.barred = {name: until_s for name, until_s in self.barred.items() if until_s > now_s}
        return frozenset(self.barred)


@dataclass(frozen=True, slots=True)
class Sender:
    """Drains the outbox. One for each outbox: order is kept because there is no second sender."""

    outbox: Outbox
    telemetry: Telemetry
    ingest: Ingest
    clock: Clock
    ids: Ids
    pace: Pace = field(default_factory=Pace)

    def run(self, stop: threading.Event, heed: Callable[[Delivery], object]) -> None:
        """Send until `stop`, at 50 waiting events or after a second; `heed` learns of each step."""
        while not stop.is_set():
            delivery = self.run_once()
            heed(delivery)
            if delivery.back_off_s > 0:
                self.clock.wait(stop, delivery.back_off_s)
            else:
                self.clock.wait(self.outbox.due, BATCH_WAIT_S)

    def run_once(self) -> Delivery:
        """Send waiting events, unless the control plane asked to wait; the result includes a failure."""
        with self.pace.lock:
            return self._step(float("inf"))

    def flush(self, deadline_s: float) -> bool:
        """Send until nothing is left, starting at once; return whether that succeeded by `deadline_s`."""
        if not self.pace.lock.acquire(timeout=max(0.0, deadline_s - self.clock.monotonic_s())):
            return False
        try:
            self.pace.not_before_s = self.clock.monotonic_s()
            never = threading.Event()
            while self.clock.monotonic_s() < deadline_s:
                delivery = self._step(deadline_s)
                if delivery.left == 0:
                    return True
                pause_s = max(delivery.back_off_s, FLUSH_TURN_S)
                self.clock.wait(never, min(pause_s, deadline_s - self.clock.monotonic_s()))
            return False
        finally:
            self.pace.lock.release()

    def _step(self, deadline_s: float) -> Delivery:
        patience_s = self.pace.not_before_s - self.clock.monotonic_s()
        if patience_s > 0:
            return Delivery(left=self.outbox.pending(), back_off_s=patience_s)
        self.outbox.due.clear()
        step = _Step(self, deadline_s)
        try:
            step.drain()
        except Transient as error:
            wait_s = self._back_off(error)
        else:
            wait_s = 0.0
        return replace(step.done, left=self.outbox.pending(), back_off_s=wait_s)

    def _back_off(self, error: Transient) -> float:
        """Full jitter below a ceiling that doubles, on top of what the server asked for."""
        self.pace.failures += 1
        wait_s = (error.retry_after_s or 0.0) + back_off_s(
            self.pace.failures, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S, share=self.ids.fraction()
        )
        self.pace.not_before_s = self.clock.monotonic_s() + wait_s
        log.warning(
            "delivery.retried",
            extra={
                "code": error.code,
                "why": error.message,
                "back_off_s": round(wait_s, 3),
                "left": self.outbox.pending(),
            },
        )
        return wait_s


@dataclass(slots=True)
class _Step:
    """One step under way; what it achieved so far outlives a failure in its middle."""

    sender: Sender
    deadline_s: float
    done: Delivery = Delivery()

    def drain(self) -> None:
        """Send batch after batch, until nothing is left or the step is long enough."""
        sender, pace = self.sender, self.sender.pace
        beats = sender.telemetry.take()
        for _ in range(REQUESTS_MAX):
            now_s = sender.clock.monotonic_s()
            rows = sender.outbox.batch(pace.lines_max, BATCH_BYTES_MAX, pace.waits(now_s))
            first = next(iter([*rows, *beats]), None)
            if first is None or now_s >= self.deadline_s:
                return
            name = first.attempt_id
            own = [beat for beat in beats if beat.attempt_id == name]
            beats = [beat for beat in beats if beat.attempt_id != name]
            try:
                self._send([*own, *rows])
            except Barred as error:
                log.error(
                    "delivery.barred",
                    extra={"run": name.run_id, "attempt": name.attempt, "why": error.message},
                )
                pace.barred[name] = now_s + BARRED_S
                continue
            pace.failures = 0
            pace.lines_max = min(BATCH_EVENTS_MAX, pace.lines_max + 1 + pace.lines_max // 10)

    def _send(self, rows: Sequence[Row]) -> None:
        answer = self._post(rows)
        if isinstance(answer, Taken):
            self._take(rows, answer)
            return
        if len(rows) == 1:
            self._refuse(rows[0], answer)
            return
        if answer.is_too_large:
            self.sender.pace.lines_max = max(1, len(rows) // 2)
        middle = len(rows) // 2
        self._send(rows[:middle])
        self._send(rows[middle:])

    def _post(self, rows: Sequence[Row]) -> Taken | Declined:
        left_s = self.deadline_s - self.sender.clock.monotonic_s()
        timeout_s = max(0.1, min(POST_TIMEOUT_S, left_s))
        lines = [row.line for row in rows]
        return self.sender.ingest.post(lines, token=rows[0].run_token, timeout_s=timeout_s)

    def _take(self, rows: Sequence[Row], answer: Taken) -> None:
        rejections = {rejection.line: rejection for rejection in answer.rejected}
        for line, rejection in rejections.items():
            if not 1 <= line <= len(rows) or rejection.id not in (None, rows[line - 1].id):
                raise Transient("control_plane_odd", f"a verdict names line {line}, which was not sent")
        outbox = self.sender.outbox
        outbox.confirm([row for line, row in enumerate(rows, 1) if line not in rejections])
        for line, rejection in rejections.items():
            row = rows[line - 1]
            _log_refusal(row, rejection.code, rejection.message)
            # A refusal that is refused itself, or telemetry, leaves nothing in its place: no loop.
            if row.type == REFUSED or row.position is None:
                outbox.confirm([row])
            else:
                outbox.replace_refused(row, rejection.code, rejection.message)
        self._note(answer, stored=len(rows) - len(rejections), refused=len(rejections))

    def _refuse(self, row: Row, declined: Declined) -> None:
        """Give a line up only when the refusal in its place is taken: else not the line is to blame.

        A proxy that dislikes every request would otherwise cost every event.
        """
        if row.position is None:
            _log_refusal(row, declined.code, declined.message)
            return
        answer = (
            declined
            if row.type == REFUSED
            else self._post([refusal_of(row, declined.code, declined.message)])
        )
        if isinstance(answer, Declined):
            raise Transient("ingest_declines_all", f"not even a refusal is taken: {answer.message}")
        _log_refusal(row, declined.code, declined.message)
        self.sender.outbox.confirm([row])
        self._note(answer, stored=0, refused=1)

    def _note(self, answer: Taken, *, stored: int, refused: int) -> None:
        self.done = replace(
            self.done,
            stored=self.done.stored + stored,
            refused=self.done.refused + refused,
            fenced=self.done.fenced | answer.fenced,
            canceling=self.done.canceling | answer.canceling,
            steered=self.done.steered | answer.steered,
        )


def _log_refusal(row: Row, code: str, message: str) -> None:
    log.error(
        "delivery.refused",
        extra={
            "run": row.run_id,
            "attempt": row.attempt,
            "sequence": row.sequence,
            "type": row.type,
            "code": code,
            "why": message,
        },
    )
