"""The object storage of the campaign: a real S3 server that can stand still or die."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.runtime.clock import Clock, Ids
from podfleet.embedded.credentials import credentials
from podfleet.embedded.s3 import S3, find_s3, prepare_s3
from testing.chaos.system.cluster import NotReady
from testing.chaos.system.programs import Program

START_S: Final = 30.0
LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """One server and its program."""

    server: S3
    program: Program
    clock: Clock

    def start(self) -> None:
        """Start the server, or let it go on, and return when it serves its bucket."""
        self.program.signal(signal.SIGCONT)
        self.program.start()
        deadline_s = self.clock.monotonic_s() + START_S
        never = threading.Event()
        while not self.server.settle():
            if self.clock.monotonic_s() > deadline_s:
                raise NotReady(f"the S3 server did not come up: {self.program.last_words()}")
            self.clock.wait(never, LOOK_S)


def prepare_storage(home: Path, search_path: str | None, clock: Clock, ids: Ids) -> ObjectStorage:
    """Make ready the server's folder and program."""
    secrets = credentials(home / "s3" / "credentials.json", ids)
    server = prepare_s3(find_s3(search_path), home / "s3", secrets, ids)
    command = server.service().command
    program = Program("s3", command.argv, command.environment, home / "s3.log", clock)
    return ObjectStorage(server, program, clock)
