"""Looks that need a process of their own: a kernel on the GPU, a program in the sandbox.

The libraries that they load stay out of the worker, and one that crashes or hangs takes nothing with it.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from events.delivery.pipe import Tried
from pod_worker.child.process import ChildOptions, allowed
from pod_worker.health.check import Finding

TRIAL_S: Final = 60.0
COMMAND: Final = (sys.executable, "-m", "pod_worker.child.health_trial")
ANSWER_BYTES_MAX: Final = 10_000
CODES: Final = {"gpu": "GPU_BROKEN", "sandbox": "NO_ISOLATION"}


@dataclass(frozen=True, slots=True)
class Trial:
    """Tries one thing in a process with the environment and the confinement of a pipeline."""

    what: Literal["gpu", "sandbox"]
    options: ChildOptions
    command: tuple[str, ...] = COMMAND

    def __call__(self) -> Finding:
        """Start the process, and return what it says in its last line."""
        space = None
        try:
            space = self.options.make_space()
            done = subprocess.run(
                [*self.command, self.what, *self._words(None if space is None else space.number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=allowed(self.options.environ) | ({} if space is None else space.variables),
                start_new_session=True,
                timeout=TRIAL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return self._failure(f"its trial took more than {TRIAL_S:.0f} s")
        except OSError as error:
            return self._failure(f"its trial cannot start: {error}")
        finally:
            if space is not None:
                space.clear()
                space.close()
        line = done.stdout[-ANSWER_BYTES_MAX:].strip().rpartition(b"\n")[2]
        try:
            tried = msgspec.json.decode(line, type=Tried)
        except msgspec.MsgspecError:
            return self._failure(f"its trial ended with status {done.returncode} and said nothing")
        if tried.ok:
            return Finding(True, tried.code, tried.message)
        return Finding(False, tried.code or CODES[self.what], tried.message)

    def _words(self, space: int | None) -> list[str]:
        confinement = self.options.confinement
        return [] if confinement is None else [*confinement.words, f"--space={space}"]

    def _failure(self, why: str) -> Finding:
        return Finding(False, CODES[self.what], why)
