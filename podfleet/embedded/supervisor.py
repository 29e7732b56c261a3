"""Supervises the services of the stack: starts them in order, restarts those that die, stops all.

Law: one thread starts, watches and stops every service. So no service is started twice, and an exception in
the main thread (Ctrl-C) cannot come between a start and the record of it. The thread lives as long as the
services, because the kernel kills a service whose starter is gone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from events.runtime.backoff import back_off_s
from events.runtime.clock import Clock
from events.runtime.errors import PodfleetError
from podfleet.embedded.process import Process, tail
from podfleet.embedded.service import Service

LOOK_S: Final = 0.05
BACK_OFF_FIRST_S: Final = 0.5
BACK_OFF_MAX_S: Final = 30.0
STEADY_S: Final = 60.0
START_TRIES_MAX: Final = 3

Say = Callable[[str], None]


class StartFailed(PodfleetError):
    """A service of the stack did not start; the message names it, and its last output."""

    def __init__(self, service: str, why: str, last_words: str) -> None:
        quoted = "".join(f"\n  | {line}" for line in last_words.splitlines())
        super().__init__("start_failed", f"{service} {why}{quoted}")


@dataclass(slots=True)
class _Watched:
    """A service and its state."""

    service: Service
    log: Path
    process: Process | None = None
    is_up: bool = False
    was_up: bool = False
    failures: int = 0
    started_s: float = 0.0
    due_s: float = 0.0


class Supervisor:
    """Runs services in tiers: a tier starts when the one before it is ready, and stops before it.

    `say` gets one line for people about each change; it is called from the supervisor's thread.
    """

    def __init__(self, tiers: Sequence[Sequence[Service]], *, logs: Path, clock: Clock, say: Say) -> None:
        self._tiers = [
            [_Watched(service, logs / f"{service.name}.log") for service in tier] for tier in tiers
        ]
        self._clock = clock
        self._say = say
        self._asked_to_stop = threading.Event()
        self._in_a_hurry = threading.Event()
        self._decided = threading.Event()  # every service has been ready once, or the thread has ended
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start everything and return when all of it is ready; raise what prevented it."""
        self.begin()
        self._decided.wait()
        self.check()

    def begin(self) -> None:
        """Start everything and return at once; `is_settled` is true when it is ready."""
        self._thread.start()

    def is_settled(self, wait_s: float) -> bool:
        """Wait a while for the start to succeed or fail; `check` returns which."""
        return self._decided.wait(wait_s)

    def check(self) -> None:
        """Raise what ended the supervision, if anything did."""
        if self._failure is not None:
            raise self._failure

    def is_running(self) -> bool:
        """Return whether the services are supervised."""
        return self._thread.is_alive()

    def pids(self) -> dict[str, int]:
        """Return the process of each living service."""
        return {w.service.name: w.process.pid for w in self._all() if w.process is not None}

    def stop(self) -> None:
        """Stop everything, the last started first, and return when nothing is left.

        A Ctrl-C meanwhile cuts the grace short; it is raised again when nothing is left.
        """
        self.ask_to_stop()
        if not self._thread.is_alive():
            return
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._in_a_hurry.set()
            self._thread.join()
            raise

    def ask_to_stop(self) -> None:
        """Begin to stop; `is_running` is false when nothing is left."""
        self._asked_to_stop.set()

    def hurry(self) -> None:
        """Let the stop under way kill instead of wait."""
        self._in_a_hurry.set()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _all(self) -> list[_Watched]:
        return [watched for tier in self._tiers for watched in tier]

    def _run(self) -> None:
        try:
            while not self._asked_to_stop.is_set():
                self._look_after_all()
                self._clock.wait(self._asked_to_stop, LOOK_S)
        except (PodfleetError, OSError) as error:
            self._failure = error
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._stop_all()
            self._decided.set()

    def _look_after_all(self) -> None:
        for tier in self._tiers:
            for watched in tier:
                if self._asked_to_stop.is_set():
                    return
                self._look_after(watched)
            if not all(watched.was_up for watched in tier):
                return
        self._decided.set()

    def _look_after(self, watched: _Watched) -> None:
        """Do the next step of starting or checking one service."""
        now_s = self._clock.monotonic_s()
        if watched.process is None:
            if now_s >= watched.due_s:
                watched.started_s = now_s
                watched.process = Process(watched.service.command, watched.log)
            return
        end, left = watched.process.end(), watched.service.exit_left
        if end is not None and left is not None and watched.process.status() == left:
            self._let_go(watched)
        elif end is not None:
            self._note_failure(watched, end)
        elif not watched.is_up:
            self._ask_whether_ready(watched)

    def _let_go(self, watched: _Watched) -> None:
        """Leave a service alone that left for good."""
        _process(watched).kill()  # also what it left behind
        watched.process, watched.due_s, watched.was_up = None, math.inf, True
        self._say(f"{watched.service.name} has left for good, and is not started again")

    def _ask_whether_ready(self, watched: _Watched) -> None:
        took_s = self._clock.monotonic_s() - watched.started_s
        if took_s >= watched.service.steady_s and watched.service.is_ready():
            took_s = self._clock.monotonic_s() - watched.started_s
            self._say(
                f"{watched.service.name} is {'back' if watched.was_up else 'ready'} after {took_s:.1f} s"
            )
            watched.is_up = watched.was_up = True
        elif took_s > watched.service.start_s:
            self._note_failure(watched, f"was not ready after {watched.service.start_s:.0f} s")

    def _note_failure(self, watched: _Watched, why: str) -> None:
        """Clear away what is left of the service and plan its next start, or give up a first start."""
        assert watched.process is not None
        watched.process.kill()
        watched.process = None
        now_s = self._clock.monotonic_s()
        was_steady = watched.is_up and now_s - watched.started_s >= STEADY_S
        watched.failures = 1 if was_steady else watched.failures + 1
        watched.is_up = False
        if not watched.was_up and watched.failures >= START_TRIES_MAX:
            raise StartFailed(watched.service.name, why, tail(watched.log))
        wait_s = back_off_s(watched.failures, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S)
        watched.due_s = now_s + wait_s
        self._say(f"{watched.service.name} {why}; starting it again in {wait_s:.1f} s (log: {watched.log})")

    def _stop_all(self) -> None:
        if any(watched.process is not None for watched in self._all()):
            self._say("stopping")
        try:
            for tier in reversed(self._tiers):
                self._stop_tier([watched for watched in tier if watched.process is not None])
        finally:
            for watched in self._all():
                if watched.process is not None:
                    watched.process.kill()
                    watched.process = None

    def _stop_tier(self, tier: Sequence[_Watched]) -> None:
        began_s = self._clock.monotonic_s()
        waiting = list(tier)
        for watched in waiting:
            _process(watched).ask_to_stop()
        while waiting:
            spent_s = self._clock.monotonic_s() - began_s
            for watched in list(waiting):
                stopped = _process(watched).end() is not None
                overdue = spent_s >= watched.service.grace_s or self._in_a_hurry.is_set()
                if overdue and not stopped:
                    self._say(f"{watched.service.name} did not stop within {spent_s:.1f} s and was killed")
                if stopped or overdue:
                    _process(watched).kill()  # also what it left behind
                    watched.process = None
                    waiting.remove(watched)
            self._clock.wait(self._in_a_hurry, LOOK_S)


def _process(watched: _Watched) -> Process:
    assert watched.process is not None
    return watched.process
