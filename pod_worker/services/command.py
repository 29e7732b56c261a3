"""Runs the command of a service within a time, and keeps the end of what it prints.

Law: it runs in a group of its own, which is killed when its time is over. A command that ends and leaves
processes behind, as one that starts a service does, has ended; they keep their group.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from events.runtime.clock import Clock

LIMIT_S: Final = 60.0
KEPT_BYTES: Final = 8_000
CHUNK_BYTES: Final = 1 << 16
TURN_S: Final = 0.1
LAST_WORDS_S: Final = 0.5  # for what is still in the pipe after its end


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `status` is None for one that was killed because its time was over."""

    status: int | None
    printed: str


def run(argv: Sequence[str], environ: Mapping[str, str], clock: Clock, limit_s: float = LIMIT_S) -> Ended:
    """Run a command to its end. Raises `OSError` where it cannot be started."""
    with subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        cwd="/",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        status, printed = _follow(process, process.stdout, clock, limit_s)
    return Ended(status, printed.decode(errors="replace"))


def _follow(
    process: subprocess.Popen[bytes], output: IO[bytes], clock: Clock, limit_s: float
) -> tuple[int | None, bytes]:
    kept, until_s, is_open = b"", clock.monotonic_s() + limit_s, True
    os.set_blocking(output.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(output, selectors.EVENT_READ)
        while True:
            if is_open and ready.select(TURN_S):
                chunk = os.read(output.fileno(), CHUNK_BYTES)
                is_open, kept = bool(chunk), (kept + chunk)[-KEPT_BYTES:]
            elif not is_open:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(TURN_S)
            now_s = clock.monotonic_s()
            if process.poll() is not None:
                until_s = min(until_s, now_s + LAST_WORDS_S)
                if not is_open or now_s >= until_s:
                    return process.returncode, kept
            elif now_s >= until_s:
                with suppress(ProcessLookupError):  # its leader was not waited for, so the group is still its
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None, kept
