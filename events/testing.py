"""Doubles for tests: a clock that is set, ids from a seed, and a well-behaved ingest."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from events.answers.kind_parts import gathered
from events.answers.runs import Run
from events.catalog import RunLog
from events.delivery.outbox import OUTBOX_BYTES_MAX, Outbox
from events.delivery.sender import Declined, Ingest, Rejection, Taken
from events.envelope import Head, wire
from events.kinds.declaring.fact import Fact
from events.runtime.clock import Clock, Ids, timestamp
from events.runtime.errors import Barred, Transient
from events.text.attempt_id import AttemptId

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
RUN_ID: Final = "01K00000000000000000000001"
FIRST: Final = AttemptId(RUN_ID, 1)
SOURCE: Final = "//podfleet/pod-1/boot-1"
CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
URL_SAFE: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

Fault = Literal["none", "lost", "eaten", "busy"]


def make_run(**more: Any) -> Run:
    """Return a run as the HTTP interface shows it: one that waits, but for the fields of JSON in `more`."""
    nobody = dict.fromkeys(
        (
            "claimedBy", "claimedAt", "lease", "settled", "cancelRequested", "logIncomplete", "currentStage",
            "lastHeartbeat", "error", "validation", "startedAt", "finishedAt", "hypothesisId", "parentRunId",
            "notBefore", "sealed", "fromStage", "requires", "traceparent",
        )
    )  # fmt: skip
    nothing = dict.fromkeys(
        ("promptTokens", "completionTokens", "costUsd", "gpuSeconds", "calls", "unpricedCalls"), 0
    )
    lists = ("notes", "attempts", "stages", "validations", "artifacts", "sections", "nodes", "truncated")
    usual = {
        "id": RUN_ID, "kind": "any", "title": "a run", "status": "QUEUED", "revision": 1, "attempt": 0,
        "maxAttempts": 3, "priority": 0, "classKey": "any/any/any", "labels": {}, "spec": {},
        "failures": {"app": 0, "infra": 0, "preempted": 0, "outside": 0}, "lastEventSeq": 0, "logOpen": False,
        "paused": False, "createdAt": timestamp(EPOCH), "queuedAt": timestamp(EPOCH),
        "usage": {**nothing, "models": [], "isPartial": False},
    }  # fmt: skip
    return gathered({**nobody, **{name: [] for name in lists}, **usual, **more})


class ManualClock:
    """A clock that moves only when it is moved, or waited on; monotonic and wall time move together."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._passed_s = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic_s(self) -> float:
        return self._passed_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._passed_s += max(0.0, seconds)

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        """Return at once: True when `flag` is set, else after letting all of `seconds` pass."""
        if flag.is_set():
            return True
        self.advance(seconds)
        return flag.is_set()


class SeededIds:
    """Ids, tokens and chance that a seed repeats; ids grow, as those of the system do."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable is the point
        self._made = 0
        self._lock = threading.Lock()

    def ulid(self) -> str:
        with self._lock:
            self._made += 1
            return f"{self._made:010d}" + "".join(self._random.choices(CROCKFORD, k=16))

    def token(self) -> str:
        with self._lock:
            return "".join(self._random.choices(URL_SAFE, k=43))

    def fraction(self) -> float:
        with self._lock:
            return self._random.random()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of the lines of one request."""

    accepted: int
    duplicates: int
    rejected: tuple[Rejection, ...]


class FakeIngest:
    """The control plane's ingest in memory: keeps each `(source, id)` once, in the order of arrival.

    `faults` are used up one a request: nothing stored and no answer (`lost`), stored and no
    answer (`eaten`), or a polite refusal (`busy`). `refuses` names the code of a line that is
    refused for good; `chokes` makes the whole request unreadable; more than `lines_max` is too large.
    """

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        *,
        refuses: Callable[[dict[str, Any]], str | None] = lambda _: None,
        chokes: Callable[[dict[str, Any]], bool] = lambda _: False,
        lines_max: int = 1_000,
    ) -> None:
        self.faults: Iterator[Fault] = iter(faults)
        self.refuses = refuses
        self.chokes = chokes
        self.lines_max = lines_max
        self.requests = 0
        self.barred: frozenset[str] = frozenset()  # run tokens
        self.fenced: frozenset[AttemptId] = frozenset()
        self.canceling: frozenset[AttemptId] = frozenset()
        self.steered: frozenset[AttemptId] = frozenset()
        self.stored: dict[tuple[str, str], dict[str, Any]] = {}
        self._positions: dict[tuple[str, int, str], str] = {}

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        self.requests += 1
        if token in self.barred:
            raise Barred("control_plane_barred", "the control plane answers 401")
        fault = next(self.faults, "none")
        if fault == "lost":
            raise Transient("control_plane_unreachable", "the request was lost")
        if fault == "busy":
            raise Transient("control_plane_refuses", "busy", retry_after_s=7.0)
        if (declined := self.declines(lines)) is not None:
            return declined
        verdicts = self.take(lines)
        if fault == "eaten":
            raise Transient("control_plane_unreachable", "the answer was lost")
        return Taken(verdicts.rejected, self.fenced, self.canceling, self.steered)

    def declines(self, lines: Sequence[bytes]) -> Declined | None:
        """Return why the request as a whole is refused, if it is."""
        if len(lines) > self.lines_max:
            return Declined("http_413", f"more than {self.lines_max} lines", is_too_large=True)
        if any(self.chokes(msgspec.json.decode(line)) for line in lines):
            return Declined("http_400", "not decodable")
        return None

    def take(self, lines: Sequence[bytes]) -> Verdicts:
        """Store what can be stored and judge each line."""
        accepted = duplicates = 0
        rejected = []
        for number, line in enumerate(lines, 1):
            event = msgspec.json.decode(line)
            code = self.refuses(event)
            if code is None:
                code = self._conflict(event)
            if code is not None:
                rejected.append(Rejection(number, code, f"refused: {code}", event["id"]))
            elif (event["source"], event["id"]) in self.stored:
                duplicates += 1
            else:
                accepted += 1
                self._store(event)
        return Verdicts(accepted, duplicates, tuple(rejected))

    def history(self, run_id: str = RUN_ID, attempt: int = 1) -> list[dict[str, Any]]:
        """Return the sequenced events of an attempt in the order in which they came."""
        return [
            event
            for event in self.stored.values()
            if event["subject"] == f"run/{run_id}" and event["attempt"] == attempt and "sequence" in event
        ]

    def _store(self, event: dict[str, Any]) -> None:
        self.stored[event["source"], event["id"]] = event
        if "sequence" in event:
            self._positions[event["subject"], event["attempt"], event["sequence"]] = event["id"]

    def _conflict(self, event: dict[str, Any]) -> str | None:
        known = self.stored.get((event["source"], event["id"]), event)
        holder = self._positions.get(
            (event["subject"], event["attempt"], event.get("sequence", "")), event["id"]
        )
        return None if known == event and holder == event["id"] else "conflict"


@dataclass(frozen=True, slots=True)
class DroppingIngest:
    """Takes an error for an answer: what could not be sent counts as sent."""

    ingest: Ingest

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        try:
            return self.ingest.post(lines, token=token, timeout_s=timeout_s)
        except Transient:
            return Taken()


def make_outbox(
    folder: Path, *, clock: Clock | None = None, ids: Ids | None = None, bytes_max: int = OUTBOX_BYTES_MAX
) -> Outbox:
    """Return the outbox of a data directory."""
    return Outbox(
        folder / "outbox.sqlite3", clock=clock or ManualClock(), ids=ids or SeededIds(), bytes_max=bytes_max
    )


def make_attempt(outbox: Outbox, run_id: str = RUN_ID, attempt: int = 1, *, token: str = "token-1") -> None:  # noqa: S107
    """Open an attempt as a claim would."""
    outbox.open_attempt(AttemptId(run_id, attempt), token=token, source=SOURCE, collection="runs")


def make_logs(count: int, *, first: int = 1) -> list[RunLog]:
    """Return `count` different log lines."""
    return [RunLog(message=f"line {number}") for number in range(first, first + count)]


def make_line(
    fact: Fact,
    *,
    sequence: int | None = 1,
    event_id: str | None = None,
    run_id: str = RUN_ID,
    attempt: int = 1,
) -> bytes:
    """Return an event as it travels."""
    head = Head(
        id=event_id or f"event-{attempt}-{sequence}",
        source=SOURCE,
        attempt_id=AttemptId(run_id, attempt),
        sequence=sequence,
        time=timestamp(EPOCH),
    )
    return wire(fact, head)
