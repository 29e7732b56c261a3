"""Resets services by the orders of the fleet: each order once, one after another, while the pod has no run.

Law: an order is on the disk before it is begun. A worker that ends meanwhile, an answer that comes twice and
a control plane that repeats an old order never have it done again. Where the disk's file cannot be read, no
order is begun.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from events.answers.pods import ResetOrder
from events.runtime.clock import Clock
from events.runtime.loops import Threads
from events.text.mask import Mask
from pod_worker.services import command
from pod_worker.services.orders import Outcome

log = logging.getLogger(__name__)

KNOWN_MAX: Final = 256  # orders that are remembered
TOLD_MAX: Final = 8  # outcomes in a report
WAITING_MAX: Final = 8
LINES_MAX: Final = 10
MESSAGE_CHARS_MAX: Final = 1_000
FREE_S: Final = 30.0  # for a claim that is being made
DOCUMENT_BYTES_MAX: Final = 2 << 20


class Claiming(Protocol):
    """What a claim and a reset that needs the pod free exclude each other by."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class _Kept(msgspec.Struct):
    """An order on the disk; one without an outcome was begun, or waited."""

    id: str
    outcome: Outcome | None = None


@dataclass(slots=True)
class Journal:
    """The orders that this pod has taken, over restarts of its worker."""

    file: Path
    kept: dict[str, Outcome | None] = field(init=False)
    damage: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.kept = {}
        try:
            with self.file.open("rb") as opened:
                stored = msgspec.json.decode(opened.read(DOCUMENT_BYTES_MAX), type=list[_Kept])
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.damage = f"{self.file} cannot be read ({error}); move it away, and start the worker again"
            log.error("service.journal_damaged", extra={"why": self.damage})
            return
        self.kept = {each.id: each.outcome for each in stored}

    def put(self, name: str, outcome: Outcome | None) -> None:
        """Keep what is known of an order, durably. Raises `OSError`, always where the file was damaged."""
        self.kept[name] = outcome
        while len(self.kept) > KNOWN_MAX:
            del self.kept[next(iter(self.kept))]
        if self.damage:
            raise OSError(errno.EIO, self.damage)
        written = self.file.with_suffix(".new")
        with written.open("wb") as opened:
            opened.write(msgspec.json.encode([_Kept(*each) for each in self.kept.items()]))
            opened.flush()
            os.fsync(opened.fileno())
        written.replace(self.file)


@dataclass(slots=True)
class Resetter:
    """The services of this pod, by the command that resets each; `tell` has the next report come soon."""

    services: Mapping[str, Sequence[str]]
    journal: Journal
    environ: Mapping[str, str]
    mask: Mask
    clock: Clock
    threads: Threads
    now: Callable[[], datetime]
    is_busy: Callable[[], bool] = lambda: False
    claiming: Claiming = field(default_factory=threading.Lock)
    tell: Callable[[], object] = lambda: None
    limit_s: float = command.LIMIT_S
    _waiting: list[ResetOrder] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_working: bool = False

    def __post_init__(self) -> None:
        """Close what the end of an earlier worker cut off."""
        for name, outcome in list(self.journal.kept.items()):
            if outcome is None:
                self.journal.kept[name] = self._failed(name, "CUT_OFF", "the worker ended meanwhile")

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what became of the last orders."""
        with self._lock:
            ended = [each for each in self.journal.kept.values() if each is not None]
        return tuple(ended[-TOLD_MAX:])

    def hear(self, orders: Sequence[ResetOrder]) -> None:
        """Take the orders that are new, and carry them out beside the caller."""
        with self._lock:
            for order in orders:
                if order.id not in self.journal.kept:
                    self._take(order)
            if not self._waiting or self._is_working:
                return
            self._is_working = True
        self.threads("resets", self._work)

    def _take(self, order: ResetOrder) -> None:
        refused = None
        if order.service not in self.services:
            refused = self._failed(order.id, "UNKNOWN_SERVICE", "this pod lets nobody reset that")
        elif len(self._waiting) >= WAITING_MAX:
            refused = self._failed(order.id, "TOO_MANY", f"{WAITING_MAX} orders wait already")
        try:
            self.journal.put(order.id, refused)
        except OSError as error:  # what cannot be remembered could be done twice
            message = f"the disk does not keep the order: {error.strerror}"
            self.journal.kept[order.id] = self._failed(order.id, "DISK_FAILED", message)
            return
        if refused is None:
            self._waiting.append(order)

    def _work(self) -> None:
        while True:
            with self._lock:
                order = self._waiting.pop(0) if self._waiting else None
                if order is None:
                    self._is_working = False
                    return
            try:
                outcome = self._reset(order)
            except Exception as error:  # noqa: BLE001 - whatever happens, the order has an outcome
                outcome = self._failed(order.id, "RESET_FAILED", f"{type(error).__name__}: {error}")
            log.warning(
                "service.reset", extra={"service": order.service, "ok": outcome.ok, "code": outcome.code}
            )
            with self._lock, suppress(OSError):
                self.journal.put(order.id, outcome)
            self.tell()

    def _reset(self, order: ResetOrder) -> Outcome:
        if order.force:
            return self._run(order)
        if not self.claiming.acquire(timeout=FREE_S):
            return self._failed(order.id, "BUSY", "a claim was being made all the time")
        try:
            if self.is_busy():
                return self._failed(order.id, "BUSY", "the pod has a run; wait for its end, or use force")
            return self._run(order)
        finally:
            self.claiming.release()

    def _run(self, order: ResetOrder) -> Outcome:
        try:
            ended = command.run(self.services[order.service], self.environ, self.clock, self.limit_s)
        except OSError as error:
            return self._failed(order.id, "NOT_STARTED", f"its command cannot be started: {error.strerror}")
        words = self.words(ended.printed)
        if ended.status == 0:
            return Outcome(order.id, True, None, words, self.now())
        if ended.status is None:
            return self._failed(order.id, "TIMED_OUT", f"no end within {self.limit_s:.0f} s; {words}")
        return self._failed(order.id, "RESET_FAILED", f"it ended with status {ended.status}; {words}")

    def words(self, printed: str) -> str:
        """Return the last lines that a command printed, without secrets, short."""
        shown = "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in printed)
        lines = [line.strip() for line in self.mask.text(shown).splitlines() if line.strip()]
        return "\n".join(lines[-LINES_MAX:])[-MESSAGE_CHARS_MAX:]

    def _failed(self, name: str, code: str, message: str) -> Outcome:
        return Outcome(name, False, code, message[:MESSAGE_CHARS_MAX], self.now())
