"""The worker of the campaign: the product's own, with a short lease, a recorder and a wrong clock."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from events.runtime.logs import LogOptions, configure_logs
from pod_worker.__main__ import EXIT_CONFIG, stop_on_signals
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions
from pod_worker.config import Wishes, read_settings
from pod_worker.program import World, serve
from pod_worker.queue.mongo import MongoQueue
from pod_worker.queue.port import Queue
from testing.chaos.bugs import COMPOSABLE, NO_BUG, Parts
from testing.chaos.records import ledger
from testing.chaos.records.journal import Journal, Phase
from testing.chaos.records.recorder import RecordedChild, RecordedQueue
from testing.chaos.system.skew import skewed

BEAT_S: Final = 0.25
NEVER: Final = "never"


@dataclass(slots=True)
class LastWords(Journal):
    """A journal whose writer is killed right after a line that says `dies_at`."""

    dies_at: str = NEVER

    def note(self, what: str, phase: Phase = "note", **more: Any) -> float:
        # Named in full: a class with slots is made anew, and a bare `super` would look for the old one.
        at_s = super(LastWords, self).note(what, phase, **more)
        if f"{what} {phase}" == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return at_s


def main() -> int:
    """Run one worker until it is told to stop."""
    arguments = _arguments()
    clock, ids = SystemClock(), SystemIds()
    data = arguments.data.absolute()
    journal = LastWords.open(arguments.journal, arguments.name, clock)
    journal.dies_at = arguments.dies_at
    try:
        wishes = Wishes(data=data, slot=arguments.slot)
        settings = replace(read_settings(os.environ, wishes, dotenv=Path(os.devnull)), data=data)
        configure_logs(LogOptions(secrets=settings.secrets), sys.stderr)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        ledger.install(data / "outbox.db", clock, ids)
        journal.note("begun", pid=os.getpid(), rate=arguments.rate, offset_s=arguments.offset)
        _beat(journal)
        parts = COMPOSABLE[arguments.bug]
        world = World(
            stop=stop_on_signals(),
            clock=skewed(clock, offset_s=arguments.offset, rate=arguments.rate, set_by=arguments.clock),
            lease_ttl_s=arguments.ttl,
            renew_every_s=arguments.renew,
            queue=lambda queue: RecordedQueue(composed(parts, queue), journal, arguments.ttl),
            child=lambda child: RecordedChild(child, journal),
        )
        options = ChildOptions(environ=settings.environ, kinds=tuple(arguments.kinds))
        with ForkServer(options, world.clock) as fork_server:
            serve(settings, world, fork_server)
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG
    except Exception as error:
        # What ends a worker by itself is a finding, and the checker reads only journals.
        journal.note("died", error=f"{type(error).__name__}: {error}")
        logging.getLogger(__name__).exception("worker.died")
        raise
    journal.note("ended")
    return 0


def composed(parts: Parts, queue: Queue) -> Queue:
    """Return the queue made of `parts` on the database of the worker's own; as it is, where it has none."""
    if not isinstance(queue, MongoQueue):
        return queue
    db = queue.db if parts.write_concern is None else queue.db.with_options(write_concern=parts.write_concern)
    return parts.queue(db, queue.ttl_s)


def _beat(journal: Journal) -> None:
    """Note that the process runs, so that a frozen one can be told from one that is late."""
    never = threading.Event()

    def beat() -> None:
        while not journal.clock.wait(never, BEAT_S):
            journal.note("beat")

    threading.Thread(target=beat, name="beat", daemon=True).start()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="testing.chaos.system.pod", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--ttl", type=float, required=True)
    parser.add_argument("--renew", type=float, required=True)
    parser.add_argument("--slot", help="which slot of its pod it is; each has a disk of its own here")
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--offset", type=float, default=0.0, help="seconds that the wall clock is ahead")
    parser.add_argument("--rate", type=float, default=1.0, help="how fast the clock runs")
    parser.add_argument("--clock", type=Path, help="a file with the seconds by which the wall clock was set")
    parser.add_argument("--dies-at", default=NEVER, help="the line of the journal after which to be killed")
    parser.add_argument("--bug", default=NO_BUG)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
