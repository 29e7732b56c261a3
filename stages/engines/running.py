"""One engine from its start to the proof of its end, as a process of this pod or in a container.

Law: the engine has a session of its own, its log is whole, and every wait has an end. It cannot outlive the
process that started it, also where that is killed: a guard in its session reads a pipe that ends with that
process, and then removes the container, and kills the session, also who left the group that began it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from events.files.tree_removal import remove_tree
from events.models.containers import PROGRAM
from events.models.presence import search_path
from events.runtime.clock import Clock
from events.text.mask import Mask
from stages.engines.container import Docker
from stages.engines.failure import KILLED_FOR_MEMORY, EngineFailed
from stages.engines.following import Following
from stages.engines.processes import end_session, is_free, living, memory_bytes

LOG: Final = "log.txt"
SOURCE: Final = str(Path(__file__).parents[2])
PAUSE_S: Final = 0.05
MEMORY_LOOK_S: Final = 0.2
GIB: Final = 1 << 30
TAIL_BYTES: Final = 3_000
SNAPSHOTS_AT_S: Final = (60.0, 120.0, 300.0)
SNAPSHOT_LINES: Final = 50
SNAPSHOT_BYTES: Final = 9_000
LINE_BYTES: Final = 1 << 20
# The shell becomes the engine, once the guard of its session waits. The guard is a copy of that shell, and so
# has the number of the session in $$.
GUARDED: Final = (
    'exec 3<&0 </dev/null; container=$1 python=$2 end=$3; shift 3; trap "" TERM; '
    "{ read -r _ <&3; exec 3<&-; "
    f'[ -z "$container" ] || timeout 60 {PROGRAM} rm --force --volumes "$container" >/dev/null 2>&1; '
    '"$python" -I -S -c "$end" $$; kill -s KILL 0; } & '
    'trap - TERM; exec 3<&-; exec "$@"'
)
END: Final = (
    f"import sys; sys.path.insert(0, {SOURCE!r}); from stages.engines.processes import end_session; "
    "end_session(int(sys.argv[1]), 30.0)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """How long an engine may take to be ready and to end, and its files, memory and cores at most.

    `memory_bytes` are those of its processes together without what the kernel can take back, such as weights
    that are mapped: five times a second somebody looks, and kills all that have more.
    """

    ready_s: float = 300.0
    term_s: float = 10.0
    kill_s: float = 30.0
    file_bytes: int = 256 << 20
    memory_bytes: int | None = None
    cores: int | None = None


@dataclass(slots=True, kw_only=True)
class Running:
    """One engine that was started, and is ended by `stop`.

    `output` is the file that it writes to: while it lives, it may put anything else in the place of `log`.
    """

    process: subprocess.Popen[bytes]
    output: BinaryIO = field(repr=False)
    engine: str
    port: int
    clock: Clock
    limits: ServingLimits
    mask: Mask
    is_offline: bool = False
    docker: Docker | None = None
    say: Callable[[str], None] = field(repr=False)
    is_gone: bool = False
    _too_large_bytes: int | None = None
    _ends: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None
    _following: Following = field(init=False)
    _never: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._following = Following(name=self.engine, say=self.say, mask=self.mask, clock=self.clock)
        if self.limits.memory_bytes is not None and self.docker is None:
            self._watch = threading.Thread(target=self._watch_memory, name="engine-memory", daemon=True)
            self._watch.start()

    @property
    def log(self) -> Path:
        """The name of its log."""
        return Path(self.output.name)

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return once it is ready; meanwhile say how its log goes on.

        Raises `EngineFailed` where it ends, or takes too long.
        """
        begun_s = self.clock.monotonic_s()
        ahead = list(SNAPSHOTS_AT_S)
        while not is_ready():
            if (words := self.ended()) is not None:
                raise EngineFailed(words, self.log, is_offline=self.is_offline)
            self.look()
            waited_s = self.clock.monotonic_s() - begun_s
            if waited_s > self.limits.ready_s:
                late = f"{self.engine} was not ready within {self.limits.ready_s:.0f} s"
                said = f"{late}: {self._tail()}"
                raise EngineFailed(said, self.log, is_late=True, is_offline=self.is_offline)
            if ahead and waited_s >= ahead[0]:
                late = f"{self.engine} is not ready after {ahead.pop(0):.0f} s"
                self.say(f"{late}; its log ends with\n{self.last_lines()}")
            self.clock.wait(self._never, PAUSE_S)

    def look(self, *, is_last: bool = False) -> None:
        """Pass on what it has written since the last time; at most once a second, and at the end."""
        if not self.output.closed:
            self._following.look(self.output, is_last=is_last)

    def ended(self) -> str | None:
        """Return how it ended by itself, with the end of its log; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        found = None if self.docker is None or self.is_gone else self.docker.inspected()
        killed = f"; its container was {KILLED_FOR_MEMORY}" if found and found.is_out_of_memory else ""
        if self._too_large_bytes is not None and self.limits.memory_bytes is not None:
            had, most = (
                f"{each / GIB:.2f} GiB" for each in (self._too_large_bytes, self.limits.memory_bytes)
            )
            killed = f"; {KILLED_FOR_MEMORY}, of which it had {had} and memory_gib allows {most}"
        return f"{self.engine} ended ({_end(code)}{killed}): {self._tail()}"

    def last_lines(self) -> str:
        """Return the last lines of its log, without secrets."""
        lines = self._end_of_log(SNAPSHOT_BYTES).splitlines()[-SNAPSHOT_LINES:]
        return self.mask.text("\n".join(lines)) or "nothing: it is empty"

    def stop(self) -> None:
        """End it, and prove that. Does nothing a second time. Raises `EngineFailed` where it remains."""
        if self.is_gone:
            return
        self._ends.set()
        if self._watch is not None:
            self._watch.join()
        if self.docker is not None:
            self.docker.stop(self.limits.term_s)
            self.docker.write_log(self.log)
        elif self.process.poll() is None:
            self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(self.limits.term_s)
        remains = None if self.docker is None else self.docker.remove()
        assert self.process.stdin is not None
        self.process.stdin.close()  # and so the guard kills the group
        session = self.process.pid
        until_s = self.clock.monotonic_s() + self.limits.kill_s
        while (left := living(session)) or remains or not is_free(self.port):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.clock.monotonic_s() > until_s:
                self._clean_log()
                what = f"processes {left}" if left else remains or f"who listens at port {self.port}"
                raise EngineFailed(f"{self.engine} was killed, and {what} did not end", self.log)
            self.clock.wait(self._never, PAUSE_S)
            remains = self.docker.remove() if remains and self.docker else None
        self.process.wait()
        self.is_gone = True
        self._clean_log()

    def _watch_memory(self) -> None:
        """Kill all of its session once they have more memory together than they may."""
        most, session = self.limits.memory_bytes, self.process.pid
        while most is not None and not self.clock.wait(self._ends, MEMORY_LOOK_S):
            found = memory_bytes(session, most)
            if found > most:
                self._too_large_bytes = found
                end_session(session, self.limits.kill_s)
                return

    def _tail(self) -> str:
        return self.mask.text(self._end_of_log(TAIL_BYTES)) or "its log is empty"

    def _end_of_log(self, most: int) -> str:
        with self._opened_log() as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most).decode(errors="replace").replace("\0", "").strip()

    def _opened_log(self) -> BinaryIO:
        """Open all that it wrote: once it has ended, or where Docker's client wrote it, by its name."""
        if self.output.closed or self.docker is not None:
            return self.log.open("rb")
        return Path(f"/proc/self/fd/{self.output.fileno()}").open("rb")

    def _clean_log(self) -> None:
        """Write the log again as text without secrets: it may be kept where people read it."""
        if self.output.closed:
            return
        clean = self.log.with_suffix(".clean")
        make_way(clean)
        with self._opened_log() as source, clean.open("x", encoding="utf-8", newline="") as out:
            while line := source.readline(LINE_BYTES):
                out.write(self.mask.text(line.decode(errors="replace").replace("\0", "")))
        make_way(self.log)
        clean.replace(self.log)
        self.output.close()


def start(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    limits: ServingLimits,
    docker: Docker | None,
) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """Start an engine, and return it with its log in the folder. `environment` is all that it has."""
    guard = [GUARDED, "engine", docker.container.name if docker else "", sys.executable, END]
    log = log_of(folder).open("w+b")
    try:
        with _on_cores(limits.cores):
            process = subprocess.Popen(
                ["/bin/sh", "-c", *guard, *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
    except BaseException:
        log.close()
        raise
    with suppress(ProcessLookupError):
        _bound(process.pid, resource.RLIMIT_FSIZE, limits.file_bytes)
    return process, log


def own_environment(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return what a program of this pod has: a home and a place of its own, and what is given."""
    own = {"LANG": "C.UTF-8", **given, "PATH": search_path(given)}
    return own | {"HOME": str(folder), "TMPDIR": str(folder)}


def log_of(folder: Path) -> Path:
    """Return the file of all that an engine writes."""
    return folder / "engine.log"


@contextmanager
def log_kept(folder: Path, keep: Callable[[Path, str], None]) -> Iterator[None]:
    """Hand over the log in the folder when its engine has ended, however the block is left."""
    try:
        yield
    finally:
        log = log_of(folder)
        if log.is_file():
            make_way(folder / LOG)
            keep(log.rename(folder / LOG), f"engine/{LOG}")


def make_way(path: Path) -> None:
    """Remove whatever is in the place of a file of ours: an engine wrote into the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _on_cores(most: int | None) -> Iterator[None]:
    """Have what this thread starts meanwhile run on the last ones of its cores, so many of them."""
    own = os.sched_getaffinity(0)
    if most is None or most >= len(own):
        yield
        return
    os.sched_setaffinity(0, sorted(own)[-most:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _bound(pid: int, what: int, most: int) -> None:
    """Lower a limit of a process: never above what this one has itself."""
    _, hard = resource.prlimit(pid, what)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, what, (least, least))


def _end(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {-code}"
