"""Runs the slots of a pod: starts a worker for each, starts one that died again, and passes signals on.

Law: this process loads no pipeline. It ends when the last slot has ended, and at most `LEAVE_S` after its
first signal. A slot never outlives it for long: the kernel sends it SIGTERM when this process dies.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from events.runtime.errors import ConfigError
from events.runtime.exits import EXIT_LEFT
from pod_worker.slots.division import FOLDER, SLOTS_MAX, Slot

log = logging.getLogger(__name__)

EXIT_CONFIG: Final = 2
EXIT_LEFT_UNDELIVERED: Final = 4  # of a slot: it left for good, and still has events
EXIT_RESTART: Final = 5  # of a slot: the fleet wants the pod started again
ENDS: Final = frozenset({0, EXIT_LEFT, EXIT_LEFT_UNDELIVERED, EXIT_RESTART})
LOOK_S: Final = 0.2
LEAVING_LOOK_S: Final = 0.02
LEAVE_S: Final = 4.85  # the slots take less, and one provider kills a pod five seconds after its signal
AGAIN_FIRST_S: Final = 1.0
AGAIN_MAX_S: Final = 60.0
STEADY_S: Final = 60.0  # who lived so long has not failed before
LOCK: Final = "slots.lock"
LOCK_WAIT_S: Final = 15.0  # slots whose supervisor was killed leave in less


class SlotProcess(Protocol):
    """The process of a slot, as `subprocess.Popen` is one."""

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int) -> None: ...


@dataclass(slots=True)
class _Place:
    """One slot: its process while there is one, and else when it is started again."""

    slot: Slot
    process: SlotProcess | None = None
    status: int | None = None  # of a slot that is not started again
    begun_s: float = 0.0
    failures: int = 0
    starts: int = 0
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the slots of a pod have ended: the status of the pod's process, and whether all was delivered.

    Where it `restarts`, the fleet wants the pod started again.
    """

    status: int
    is_delivered: bool = True
    restarts: bool = False


@dataclass(slots=True)
class Supervisor:
    """The slots of one pod; `start` makes the process of one."""

    slots: Sequence[Slot]
    start: Callable[[Slot], SlotProcess]
    clock: Clock
    stop: threading.Event
    _places: list[_Place] = field(default_factory=list)
    _stopped_s: float | None = None

    def run(self) -> Outcome:
        """Keep the slots running until they have left, or until the pod is told to stop."""
        self.begin()
        never = threading.Event()
        while self.run_once():
            if self._stopped_s is None:
                self.clock.wait(self.stop, LOOK_S)
            else:
                self.clock.wait(never, LEAVING_LOOK_S)
        return self.outcome()

    def begin(self) -> None:
        """Have a place for each slot; the first look starts them."""
        self._places = [_Place(each) for each in self.slots]

    def run_once(self) -> bool:
        """Look at each slot; False when nothing is left to do."""
        now_s = self.clock.monotonic_s()
        for place in self._places:
            self._look(place, now_s)
        if any(place.status == EXIT_CONFIG for place in self._places):
            self.stop.set()
        if self.stop.is_set():
            self._leave(now_s)
        return any(place.process is not None for place in self._places) or not (
            self._stopped_s is not None or all(place.status is not None for place in self._places)
        )

    def _look(self, place: _Place, now_s: float) -> None:
        if place.process is not None:
            status = place.process.poll()
            if status is None:
                return
            place.process = None
            self._ended(place, status, now_s)
        is_wanted = place.status is None and self._stopped_s is None and not self.stop.is_set()
        if is_wanted and now_s >= place.due_s:
            self._start(place, now_s)

    def _start(self, place: _Place, now_s: float) -> None:
        place.begun_s, place.starts = now_s, place.starts + 1
        try:
            place.process = self.start(place.slot)
        except OSError as error:
            log.warning("slot.not_started", extra={"slot": place.slot.number, "why": str(error)})
            self._fails(place, now_s)

    def _ended(self, place: _Place, status: int, now_s: float) -> None:
        """Note how a slot ended; who did not end by itself is started again, alone, later each time."""
        is_wrong = status == EXIT_CONFIG and place.starts == 1
        if status in ENDS or is_wrong or self._stopped_s is not None:
            place.status = status
            return
        if now_s - place.begun_s >= STEADY_S:
            place.failures = 0
        self._fails(place, now_s)
        how = f"signal {-status}" if status < 0 else f"status {status}"
        again_s = round(place.due_s - now_s, 1)
        log.warning("slot.died", extra={"slot": place.slot.number, "how": how, "again_in_s": again_s})

    def _fails(self, place: _Place, now_s: float) -> None:
        place.failures += 1
        place.due_s = now_s + back_off_s(place.failures, first_s=AGAIN_FIRST_S, max_s=AGAIN_MAX_S)

    def _leave(self, now_s: float) -> None:
        """Tell the slots once that they shall leave; who takes too long is killed."""
        if self._stopped_s is None:
            self._stopped_s = now_s
            self._signal(signal.SIGTERM)
        elif now_s - self._stopped_s >= LEAVE_S:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        for place in self._places:
            if place.process is not None:
                place.process.send_signal(number)

    def outcome(self) -> Outcome:
        """Return how the slots have ended."""
        statuses = [place.status for place in self._places if not place.slot.is_spare]
        if EXIT_CONFIG in statuses:
            return Outcome(EXIT_CONFIG)
        has_left = bool(statuses) and all(each in (EXIT_LEFT, EXIT_LEFT_UNDELIVERED) for each in statuses)
        is_delivered = EXIT_LEFT_UNDELIVERED not in statuses
        return Outcome(EXIT_LEFT if has_left else 0, is_delivered, restarts=EXIT_RESTART in statuses)


def slots_to_run(count: int, boot: str, data: Path) -> list[Slot]:
    """Return the slots of a pod, and those that it had before, which may have something to deliver."""
    numbers = list(range(1, count + 1))
    left = (data / FOLDER).glob("*/outbox.db")
    earlier = {int(each.parent.name) for each in left if each.parent.name.isdecimal()}
    numbers += sorted(each for each in earlier if count < each <= SLOTS_MAX)
    return [Slot(number, count, boot, os.getpid()) for number in numbers]


@contextmanager
def held(data: Path, clock: Clock, stop: threading.Event) -> Iterator[int]:
    """Hold the pod's folder, with all slots that get the descriptor. Raises `ConfigError` where others do.

    Slots whose supervisor was killed are waited for a little: they leave.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until_s = clock.monotonic_s() + LOCK_WAIT_S
        while not _is_locked(handle):
            if clock.monotonic_s() > until_s or clock.wait(stop, LOOK_S):
                raise ConfigError([f"another worker uses the data directory {data}: give each its own"])
        yield handle
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def starter(
    command: Sequence[str], environ: Callable[[Slot], Mapping[str, str]], lock: int
) -> Callable[[Slot], SlotProcess]:
    """Return what starts the process of a slot: the worker's own command, told which slot it is.

    It leads a session of its own, so that a terminal's signal reaches this process alone.
    """

    def start(slot: Slot) -> SlotProcess:
        return subprocess.Popen(
            [*command, f"--slot={slot.argument}"],
            env=environ(slot),
            stdin=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
        )

    return start
