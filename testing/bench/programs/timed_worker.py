"""`python -m testing.bench.programs.timed_worker FILE AHEAD_S ...`: notes when a process first speaks.

The worker's wall clock is so many seconds ahead; the monotonic clock, which all share, is right.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self, TextIO

from events.delivery.pipe import Began, ContainerTold, Environment, Go, Kept, Ready, Renewed, Start
from events.queue.notes import Note
from events.runtime.clock import Clock, SystemClock
from events.runtime.logs import LogOptions, configure_logs
from pod_worker.__main__ import stop_on_signals
from pod_worker.child.exit_status import NeverStarted
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions, Exit, Heard, Listener
from pod_worker.config import Wishes, read_settings
from pod_worker.program import World, serve
from pod_worker.worker import WarmProcess

BEGAN: Final = "/began"


@dataclass(frozen=True, slots=True)
class Ahead(SystemClock):
    """The machine's clock, but wrong."""

    seconds: float

    def now(self) -> datetime:
        return SystemClock.now(self) + timedelta(seconds=self.seconds)


@dataclass(slots=True)
class Timed:
    """The process of a run, whose first word is noted, and when it passed the barrier of a race."""

    child: WarmProcess
    file: TextIO
    clock: Clock

    def start(self, order: Start, listener: Listener) -> None:
        """Give the order; the first word's moment goes into the file, as seconds since 1970.

        The start of a lane follows behind `BEGAN`, as its process read it from the monotonic clock.
        """
        is_first = True

        def hear(heard: Heard) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                self.file.write(f"{order.run_id} {self.clock.now().timestamp()}\n")
                self.file.flush()
            if isinstance(heard, Began):
                self.file.write(f"{order.run_id}{BEGAN} {heard.at_s}\n")
                self.file.flush()
            listener(heard)

        self.child.start(order, hear)

    @property
    def work(self) -> Path | None:
        return self.child.work

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted:
        return self.child.wait_ready(limit_s)

    def join(self, limit_s: float) -> Exit | None:
        return self.child.join(limit_s)

    def answer(self, answer: Kept | Environment | ContainerTold) -> None:
        self.child.answer(answer)

    def tell(self, note: Note) -> None:
        self.child.tell(note)

    def begin(self, go: Go) -> None:
        self.child.begin(go)

    def renew(self, renewed: Renewed) -> None:
        self.child.renew(renewed)

    def terminate(self) -> None:
        self.child.terminate()

    def suspend(self) -> None:
        self.child.suspend()

    def resume(self) -> None:
        self.child.resume()

    def kill(self) -> None:
        self.child.kill()

    def __enter__(self) -> Self:
        self.child.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.child.__exit__(*error)


def main(file: Path, ahead_s: float, data: Path) -> None:
    """Work until told to stop."""
    settings = read_settings(os.environ, Wishes(data=data), dotenv=Path(".env"))
    configure_logs(LogOptions(secrets=settings.secrets), sys.stderr)
    with file.open("a") as noted:
        world = World(
            stop=stop_on_signals(),
            clock=Ahead(ahead_s),
            child=lambda child: Timed(child, noted, SystemClock()),
        )
        with ForkServer(ChildOptions(environ=settings.environ), SystemClock()) as fork_server:
            serve(settings, world, fork_server)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[sys.argv.index("--data") + 1]))
