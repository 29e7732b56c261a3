"""Serves a model on this pod as long as a block of code lasts, and proves after it that nothing is left.

Law: the engine has a session of its own, its log is whole, and every wait has an end. It cannot outlive the
process that started it, also where that is killed: a guard in its session reads a pipe that ends with that
process. After the block no process of the session is there and nobody listens at the port, or it raises.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.models.engine import Engine, Value
from events.runtime.clock import Clock, Ids
from events.runtime.errors import PipelineError
from stages.engines.processes import LOOPBACK, free_port, is_free, living
from stages.engines.readiness import has_alias

SOURCE: Final = str(Path(__file__).parents[2])
PAUSE_S: Final = 0.05
TAIL_BYTES: Final = 3_000
# The shell becomes the engine, once the guard of its group waits.
GUARDED: Final = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -s KILL 0; } & exec 3<&-; exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """How long an engine may take to be ready and to end, and how large its files and its memory may be."""

    ready_s: float = 300.0
    term_s: float = 10.0
    kill_s: float = 30.0
    file_bytes: int = 256 << 20
    memory_bytes: int | None = None


class EngineFailed(PipelineError):
    """The engine did not start, ended by itself, or did not end; `log` is the file of all that it wrote."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__("ENGINE_FAILED", message, retryable=True)
        self.log = log


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that is served: `name` is what requests call it, `alias` proves that the server is ours."""

    url: str
    metrics_url: str
    name: str
    alias: str
    port: int
    pid: int
    log: Path
    parameters: Mapping[str, Value]
    stop: Callable[[], None] = field(repr=False)
    ended: Callable[[], str | None] = field(repr=False)


@contextmanager
def serve(
    engine: Engine,
    model: Path,
    parameters: Mapping[str, Value],
    port: int | None = None,
    *,
    name: str,
    folder: Path,
    clock: Clock,
    ids: Ids,
    cores: int | None = None,
    environment: Mapping[str, str] | None = None,
    limits: ServingLimits | None = None,
) -> Iterator[Served]:
    """Serve the file `model` under `name`; without `port` at one that is free. Files go into `folder`.

    `environment` is what the engine gets beside its own: it has no key of this process. Raises
    `PipelineError`: CONFIG for wrong parameters, NOT_AVAILABLE without the engine, else ENGINE_FAILED.
    """
    bounds = limits or ServingLimits()
    settled = engine.settled(parameters, cores or len(os.sched_getaffinity(0)))
    if importlib.util.find_spec(engine.needs) is None:
        hint = f"pip install 'podfleet[{engine.extra}]' on this pod"
        raise PipelineError(
            "NOT_AVAILABLE", f"{engine.name} needs the package {engine.needs!r}: {hint}", retryable=True
        )
    place = port or free_port()
    if not is_free(place):
        raise PipelineError("ENGINE_FAILED", f"somebody listens at port {place} already", retryable=True)
    alias = f"podfleet-{ids.token()[:22]}"
    fields: dict[str, str | int] = {
        "python": sys.executable,
        "model": str(model),
        "port": place,
        "alias": alias,
        "name": name,
    }
    running = _Running(
        process=_start(engine.words(fields, settled), folder, environment or {}, bounds),
        engine=engine.name,
        port=place,
        log=_log_of(folder),
        clock=clock,
        limits=bounds,
    )
    try:
        running.wait_until(lambda: has_alias(place, engine.listing, alias))
        origin = f"http://{LOOPBACK}:{place}"
        yield Served(
            url=origin + engine.api,
            metrics_url=origin + engine.metrics,
            name=name,
            alias=alias,
            port=place,
            pid=running.process.pid,
            log=running.log,
            parameters=settled,
            stop=running.stop,
            ended=running.ended,
        )
    finally:
        running.stop()


@dataclass(slots=True, kw_only=True)
class _Running:
    """One engine from its start to the proof of its end."""

    process: subprocess.Popen[bytes]
    engine: str
    port: int
    log: Path
    clock: Clock
    limits: ServingLimits
    is_gone: bool = False
    _never: threading.Event = field(default_factory=threading.Event)

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return once it is ready. Raises `EngineFailed` where it ends, or takes too long."""
        until_s = self.clock.monotonic_s() + self.limits.ready_s
        while not is_ready():
            if (words := self.ended()) is not None:
                raise EngineFailed(words, self.log)
            if self.clock.monotonic_s() > until_s:
                late = f"{self.engine} was not ready within {self.limits.ready_s:.0f} s"
                raise EngineFailed(f"{late}: {_tail(self.log)}", self.log)
            self.clock.wait(self._never, PAUSE_S)

    def ended(self) -> str | None:
        """Return how it ended by itself, with the end of its log; None while it runs."""
        code = self.process.poll()
        return None if code is None else f"{self.engine} ended ({_end(code)}): {_tail(self.log)}"

    def stop(self) -> None:
        """End it, and prove that. Does nothing a second time. Raises `EngineFailed` where it remains."""
        if self.is_gone:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self.limits.term_s)
        assert self.process.stdin is not None
        self.process.stdin.close()  # and so the guard kills the group
        session = self.process.pid
        until_s = self.clock.monotonic_s() + self.limits.kill_s
        while (left := living(session)) or not is_free(self.port):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.clock.monotonic_s() > until_s:
                remains = f"processes {left}" if left else f"who listens at port {self.port}"
                raise EngineFailed(f"{self.engine} was killed, and {remains} did not end", self.log)
            self.clock.wait(self._never, PAUSE_S)
        self.process.wait()
        self.is_gone = True


def _start(
    words: list[str], folder: Path, environment: Mapping[str, str], limits: ServingLimits
) -> subprocess.Popen[bytes]:
    own = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
        "PYTHONPATH": SOURCE,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
    }
    with _log_of(folder).open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", GUARDED, "engine", *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=own | dict(environment),
            start_new_session=True,
        )
    with suppress(ProcessLookupError):
        _bound(process.pid, resource.RLIMIT_FSIZE, limits.file_bytes)
        if limits.memory_bytes is not None:
            _bound(process.pid, resource.RLIMIT_AS, limits.memory_bytes)
    return process


def _bound(pid: int, what: int, most: int) -> None:
    """Lower a limit of a process: never above what this one has itself."""
    _, hard = resource.prlimit(pid, what)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, what, (least, least))


def _log_of(folder: Path) -> Path:
    return folder / "engine.log"


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace").replace("\0", "").strip() or "its log is empty"


def _end(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {-code}"
