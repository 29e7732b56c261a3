"""Job queues of other people: their workers, and a process that hands jobs in.

A job does nothing but note when it begins.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from podfleet.embedded.process import Command
from podfleet.embedded.service import Service
from testing.bench.comparison import Absent, Setting
from testing.bench.load.senders import IDS
from testing.bench.machine import CLOCK, pause
from testing.bench.peers.environments import (
    GRACE_S,
    START_S,
    Program,
    environment,
    program,
    running_service,
    surroundings,
)

LOOK_S: Final = 0.002
LIMIT_S: Final = 120.0
WARM_UP: Final = 10  # jobs a worker


class Queue(NamedTuple):
    """A job queue: whose packages, which module has the job, and how its workers are started."""

    peer: str
    module: str
    worker: tuple[str, ...]  # with the number of processes to come

    def argv(self, python: Path, processes: int) -> tuple[str, ...]:
        """Return the command of the workers."""
        return (str(python), "-m", *self.worker, str(processes))


CELERY_MODULE: Final = "testing.bench.peers.programs.celery_jobs"
TASKIQ_MODULE: Final = "testing.bench.peers.programs.taskiq_jobs"
CELERY: Final = Queue(
    "celery",
    CELERY_MODULE,
    ("celery", "-A", CELERY_MODULE, "worker", "--loglevel", "ERROR", "--concurrency"),
)
TASKIQ: Final = Queue(
    "taskiq",
    TASKIQ_MODULE,
    ("taskiq", "worker", f"{TASKIQ_MODULE}:broker", "--log-level", "ERROR", "--workers"),
)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The running queue of a peer."""

    workers: int  # the group of their processes
    sender: Program
    notes: Path

    def hand_in(self, count: int) -> float:
        """Put jobs into the queue; return when that began."""
        begun_s: float = self.sender.ask(count)
        return begun_s

    def begun(self) -> list[float]:
        """Return when each job so far began."""
        return [float(line) for line in self.notes.read_text().splitlines()]

    def pick_ups(self, count: int, pause_s: float, draw: random.Random) -> list[float]:
        """Return how late jobs began that were handed in one at a time, at idle."""
        late_s = []
        for _ in range(count):
            pause(pause_s * (1 + draw.random()))
            known = len(self.begun())
            handed_in_s = self.hand_in(1)
            late_s.append(self._awaited(known + 1)[-1] - handed_in_s)
        return late_s

    def rate(self, count: int) -> float:
        """Return how many jobs of a filled queue begin in a second; workers are stopped for the filling."""
        known = len(self.begun())
        os.killpg(self.workers, signal.SIGSTOP)
        try:
            self.hand_in(count)
        finally:
            os.killpg(self.workers, signal.SIGCONT)
        return rate(self._awaited(known + count)[known:])

    def _awaited(self, count: int) -> list[float]:
        until_s = CLOCK.monotonic_s() + LIMIT_S
        while self.notes.read_bytes().count(b"\n") < count:
            assert CLOCK.monotonic_s() < until_s, "the peer's jobs do not begin"
            pause(LOOK_S)
        return self.begun()


def rate(moments: list[float]) -> float:
    """Return how many of these happened in a second, from the first to the last."""
    return (len(moments) - 1) / (max(moments) - min(moments))


@contextmanager
def jobs(queue: Queue, broker: str | Absent, workers: int, setting: Setting) -> Iterator[Jobs | Absent]:
    """Run a queue with so many worker processes."""
    python = environment(queue.peer, setting)
    if isinstance(python, Absent):
        yield python
        return
    if isinstance(broker, Absent):
        yield broker
        return
    home = setting.scratch / IDS.ulid()
    home.mkdir()
    notes = home / "notes"
    notes.touch()
    environ = {"BROKER": broker, "NOTES": str(notes)}
    command = Command(queue.argv(python, workers), surroundings(python, environ))
    with program(python, queue.module, environ) as sender:
        sender.ask(WARM_UP * workers)
        running = Service(
            name=queue.peer,
            command=command,
            is_ready=lambda: notes.read_bytes().count(b"\n") >= WARM_UP * workers,
            start_s=START_S,
            grace_s=GRACE_S,
        )
        with running_service(running, home) as group:
            yield Jobs(group, sender, notes)
