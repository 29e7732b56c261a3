"""The program of a job in a container of its image: started, heard, and ended by the worker.

Law: it has of the run what a program of the pod has, at the same places, and nothing else of the pod. Its
output ends when the worker says that the container is gone.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.models.job_containers import PRINTED
from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.context import Context
from stages.kinds.job.environment import WITHIN
from stages.kinds.job.program import Output
from stages.ports.containers import ContainerState

MODULES: Final = "modules"  # the folder from which a program imports podfleet.run
OF_THE_POD: Final = (
    *("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "LANG"),
    "CUDA_VISIBLE_DEVICES",  # the container has the cards of the slot, and counts them anew
)
STEP_S: Final = 0.05
END_S: Final = 150.0  # the worker takes less to stop and remove a container
READER_S: Final = 10.0
RETRYABLE: Final = ("NOT_AVAILABLE", "REGISTRY_UNREACHABLE", "DISK_FULL")


@dataclass(slots=True)
class ContainerProgram:
    """A program in a container; `code` is how it ended."""

    context: Context
    reader: threading.Thread
    clock: Clock
    image: str
    _state: ContainerState = field(default_factory=ContainerState)
    _told: set[str] = field(default_factory=set)

    def code(self) -> int | None:
        """Return its status, or None while it runs. Raises `PipelineError` where it did not run."""
        self._look(0.0)
        state = self._state
        if not state.has_ended:
            return None
        if state.code:
            raise PipelineError(state.code, state.problem, retryable=state.code in RETRYABLE)
        if state.is_out_of_memory:
            raise PipelineError("JOB_FAILED", "the container was killed for memory, of which it had no more")
        return state.status

    def stop(self, grace_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Ask it to end, and have it ended; does nothing to one that has ended."""
        if not self._state.has_ended:
            self.context.containers.stop(grace_s)
            until_s = self.clock.monotonic_s() + grace_s + END_S
            while not self._state.has_ended and self.clock.monotonic_s() < until_s:
                meanwhile()
                self._look(STEP_S)

    def _look(self, within_s: float) -> None:
        state = self._state = self.context.containers.state(within_s)
        if state.is_pulling:
            self._say(f"the image {self.image} is fetched")
        if state.has_begun:
            self._say(f"it runs in the image {state.image}")

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.context.log(text)


@contextmanager
def contained(
    context: Context,
    image: str,
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Output,
) -> Iterator[ContainerProgram]:
    """Start a program in a container of the run's image; in the end nothing of it is left."""
    pipe = context.workspace / PRINTED
    os.mkfifo(pipe, 0o600)
    held = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)  # so that no side waits for the other, or ends early
    stream = pipe.open("rb")
    reader = threading.Thread(target=output.take, args=(stream,), name="job-output", daemon=True)
    reader.start()
    program = ContainerProgram(context, reader, context.clock, image)
    try:
        context.containers.start([*words], folder, dict(environment), context.workspace)
        yield program
    finally:
        try:
            program.stop(0.0)
        finally:
            os.close(held)
            reader.join(READER_S)


def container_environment(
    environment: Mapping[str, str], own: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the variables of a program in a container: the paths of the pod mean nothing there.

    `own` are those that the run says itself. `podfleet.run` can be imported from the folder.
    """
    package = folder / "podfleet"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copyfile(WITHIN, package / "run.py")
    kept = {name: value for name, value in environment.items() if name not in OF_THE_POD or name in own}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), own.get("PYTHONPATH"))))}
