"""The parent's handle of a pipeline's process: start it, read it, stop it, know its end.

Law: after the end no process of its group is left, also when the parent itself is killed. The child gets
only those variables of the environment that are named here. A daemon that a pipeline puts into a session of
its own escapes the group. A thread of its own writes to the child: a child that is stopped, or hangs, must
not block its supervisor.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Final, Protocol, Self

from events.catalog import ENDS
from events.delivery.pipe import (
    Began,
    Checkpoint,
    ContainerStop,
    ContainerTold,
    ContainerWanted,
    Environment,
    EnvironmentMade,
    EnvironmentWanted,
    FactFrame,
    FromChild,
    FromParent,
    Go,
    Kept,
    Made,
    Ready,
    Renewed,
    Shown,
    Start,
    Waiting,
    encode,
)
from events.queue.notes import Note
from events.runtime.clock import Clock
from events.runtime.errors import Transient
from events.text.mask import passwords_of
from pod_worker.child.exit_status import Exited, NeverStarted, Signalled
from pod_worker.child.pipe_reader import PipeReader
from pod_worker.isolation.confinement import Confinement
from pod_worker.isolation.process_space import ProcessSpace

log = logging.getLogger(__name__)

# No credential of the pod is among these; model keys reach the pipeline.
PASSED: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "XDG_CACHE_HOME",
        "MPLCONFIGDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HF_TOKEN", "HF_HOME",
        "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "PODFLEET_PRICES",
        "PODFLEET_DATASETS", "PODFLEET_ISOLATION", "PODFLEET_LITERATURE_URL", "PODFLEET_PRIVATE_HOSTS",
        "PODFLEET_GPU_USD_PER_HOUR", "PODFLEET_JUDGE_SECRET", "PODFLEET_HUB_URL", "PODFLEET_ENGINES",
        "PODFLEET_STREAM_FLUSH_CHARS", "PODFLEET_STREAM_FLUSH_SECONDS",
        "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT", "MODEL_PATH", "OLLAMA_MODELS", "DOCKER_HOST",
        "PODFLEET_ENDPOINTS",
    }
)  # fmt: skip
PASSED_PREFIXES: Final = ("LC_", "PYTHON", "CUDA_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "TORCH_", "OPENAI_")
# Whatever it begins with: other keys of a provider, such as one that administers the account.
NOT_PASSED: Final = re.compile(r"(^|_)(KEY|SECRET|TOKEN|PASSWORD|CREDENTIALS?)\s*\Z")
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")  # some programs read one case, some the other

# Of what is passed, these are secrets; a shorter value is a placeholder such as "EMPTY", and no secret.
SECRETS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN")
SECRET_MIN_CHARS: Final = 12

LEAVE_S: Final = 2.0

# The guard outlives a SIGKILL of the parent: its standard input ends, and it kills the child's group.
GUARD: Final = 'read -r _; kill -s KILL -- "-$1"'

Heard = (
    FactFrame | Made | Checkpoint | Shown | Waiting | Began | EnvironmentWanted | EnvironmentMade
    | ContainerWanted | ContainerStop
)  # fmt: skip
Listener = Callable[[Heard], None]


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the pod's environment that a pipeline may see."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED or (name.startswith(PASSED_PREFIXES) and not NOT_PASSED.search(name))
    }
    for upper in PROXIES:
        lower = upper.lower()
        if value := environ.get(upper) or environ.get(lower):
            passed |= {upper: value, lower: value}
    return passed


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in a pipeline's environment, those in addresses too, to be masked in logs."""
    values = (environ.get(name, "").strip() for name in SECRETS)
    passwords = (each for value in allowed(environ).values() for each in passwords_of(value))
    return (*(value for value in values if len(value) >= SECRET_MIN_CHARS), *dict.fromkeys(passwords))


def oom_kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how often the kernel's out-of-memory killer struck here.

    The counter of our own control group where it can be read, else that of the machine.
    """
    counts = (_oom_count(file) for file in [*_group_counters(proc, cgroups), proc / "vmstat"])
    return next((count for count in counts if count is not None), 0)


def _group_counters(proc: Path, cgroups: Path) -> list[Path]:
    files: list[Path] = []
    for line in _lines(proc / "self/cgroup"):
        number, controllers, path = line.split(":", 2)
        # Inside a container the path may be the host's name for what is our root: try both.
        if "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.oom_control"
        elif number == "0":
            root, name = cgroups, "memory.events"
        else:
            continue
        files += [root / path.lstrip("/") / name, root / name]
    return files


def _oom_count(file: Path) -> int | None:
    return next((int(line.split()[1]) for line in _lines(file) if line.startswith("oom_kill ")), None)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:  # another kernel, another container runtime: the next source is asked
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions:
    """The options of a child. `environ` is that of the pod; only the allowed part is passed on."""

    environ: Mapping[str, str]
    kinds: tuple[str, ...] = ()  # empty: every kind that is installed
    command: tuple[str, ...] = (sys.executable, "-m", "pod_worker.child.main")
    confinement: Confinement | None = None  # none: children may do what we may

    @property
    def words(self) -> list[str]:
        """Return the options as words of a command line."""
        words = [] if self.confinement is None else self.confinement.words
        return [*words, "--kinds", *self.kinds] if self.kinds else words

    def make_space(self) -> ProcessSpace | None:
        """Return the folders and user of a new child, None if it is not confined. Raises `OSError`."""
        return None if self.confinement is None else self.confinement.make_space()

    def __repr__(self) -> str:
        return f"ChildOptions(kinds={self.kinds}, command={self.command})"  # the environment holds secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the process ended, with the evidence.

    `final` is the type of the end event that the child reported, None if it reported none.
    """

    end: Exited | Signalled
    final: str | None
    oom_evidence: bool
    last_words: str


class Living(Protocol):
    """A process that is our child."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Return its exit status, or the signal that ended it as a negative number."""
        ...


class Child:
    """One pipeline's process, from spawn to exit. Every method may be called from any thread."""

    def __init__(
        self,
        process: Living,
        guard: Guard,
        pipes: Pipes,
        clock: Clock,
        secrets: tuple[str, ...] = (),
        space: ProcessSpace | None = None,
    ) -> None:
        self.pid: Final = process.pid
        self._space = space
        self._process = process
        self._guard = guard
        self._death_writer = pipes.death_writer
        self._hearing = PipeReader(
            events=pipes.events,
            stdout=pipes.stdout,
            stderr=pipes.stderr,
            death=pipes.death,
            secrets=secrets,
        )
        self._words: SimpleQueue[FromParent | None] = SimpleQueue()
        self._clock = clock
        self._begun_s = clock.monotonic_s()
        self._oom_before = oom_kills()
        self._living = threading.Lock()  # guards `_end`: no signal may reach a stranger with our old id
        self._end: Exited | Signalled | None = None
        self._ready: Ready | None = None
        self._listener: Listener | None = None
        self._listener_error: Exception | None = None
        self._final: str | None = None
        self._news = threading.Event()
        self._over = threading.Event()
        self._undertaker = threading.Thread(target=self._bury, name=f"child-{self.pid}-end", daemon=True)
        self._undertaker.start()
        orders = os.fdopen(pipes.orders, "wb")
        self._speaker = threading.Thread(
            target=self._speak, args=(orders,), name=f"child-{self.pid}-words", daemon=True
        )
        self._speaker.start()
        threading.Thread(target=self._hear, name=f"child-{self.pid}-hearing", daemon=True).start()

    @classmethod
    def spawn(cls, options: ChildOptions, clock: Clock) -> Self:
        """Start a process that imports its pipelines and then waits for one order.

        Raises `Transient` where the system has no room for another process.
        """
        pipes = Pipes.open()
        process: subprocess.Popen[bytes] | None = None
        space: ProcessSpace | None = None
        try:
            space = options.make_space()
            home = {} if space is None else space.variables
            process = subprocess.Popen(
                _command(options, pipes, space),
                stdin=subprocess.DEVNULL,
                stdout=pipes.stdout_of_child,
                stderr=pipes.stderr_of_child,
                env=allowed(options.environ) | home,
                pass_fds=(pipes.events_of_child, pipes.orders_of_child),
                start_new_session=True,
            )
            guard = Guard.over(process.pid)
        except OSError as error:
            if process is not None:
                process.kill()
                process.wait()
            pipes.close()
            if space is not None:
                space.clear()
                space.close()
            raise Transient("child_not_spawned", f"the pipeline's process cannot start: {error}") from error
        pipes.close_ends_of_child()
        return cls(process, guard, pipes, clock, secrets_of(options.environ), space)

    @property
    def work(self) -> Path | None:
        """Return the only folder in which its run's may be, None where any will do."""
        return None if self._space is None else self._space.work

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted:
        """Wait until the child can serve; one that is not ready in time is left as it is.

        After a `NeverStarted` without an end this may be called again; after a `Ready` that is still
        loading, to wait for what comes next.
        """
        self._clock.wait(self._news, limit_s)
        self._news.clear()
        is_over, ready = self._over.is_set(), self._ready
        if is_over or (ready is not None and not ready.is_loading):
            self._news.set()  # nothing more will come
        if ready is not None and not (is_over and ready.is_loading):
            return ready
        return NeverStarted(waited_s=self._clock.monotonic_s() - self._begun_s, end=self._end)

    def start(self, order: Start, listener: Listener) -> None:
        """Give the one order; `listener` hears, in order and in one thread, what the child says.

        Printed lines come as `ai.run.log`, without the order's secrets. A listener that blocks makes the
        child wait; one that raises ends it, and `join` raises the same.
        """
        assert self._listener is None, "a child serves one order"
        if self._space is not None:
            self._space.own(Path(order.workspace))
        self._listener = listener
        self._oom_before = oom_kills()
        self._hearing.hide(order.secrets.values())
        self._words.put(order)

    def join(self, limit_s: float) -> Exit | None:
        """Return how the child ended, when all that it wrote was heard; None while it still runs."""
        if not self._clock.wait(self._over, limit_s):
            return None
        if self._listener_error is not None:
            raise self._listener_error
        assert self._end is not None, "over means buried"
        return Exit(
            end=self._end,
            final=self._final,
            oom_evidence=oom_kills() > self._oom_before,
            last_words=self._hearing.last_words,
        )

    def answer(self, answer: Kept | Environment | ContainerTold) -> None:
        """Send the pipeline the result of a checkpoint, its environment, or how its container is."""
        self._words.put(answer)

    def tell(self, note: Note) -> None:
        """Send a person's note to the pipeline."""
        self._words.put(note)

    def renew(self, renewed: Renewed) -> None:
        """Give the pipeline new values of secrets; they are masked like those of its order."""
        self._hearing.hide_renewed(renewed.secrets.values())
        self._words.put(renewed)

    def begin(self, go: Go) -> None:
        """Tell a pipeline that waits when it begins."""
        self._words.put(go)

    def terminate(self) -> None:
        """Ask the pipeline to stop and clean up; a suspended one is asked when it is resumed."""
        self._signal(os.kill, signal.SIGTERM)

    def suspend(self) -> None:
        """Suspend every process of the group."""
        self._signal(os.killpg, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the group."""
        self._signal(os.killpg, signal.SIGCONT)

    def kill(self) -> None:
        """End every process of the group, also of a suspended one."""
        self._signal(os.killpg, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the child, if it still lives, and wait until nothing of it is left.

        A listener that is stuck, as one may be whose reader has given up, is left behind.
        """
        self.kill()
        self._undertaker.join()
        if not self._over.wait(LEAVE_S):
            log.error("child.unheard", extra={"pid": self.pid})
        if self._space is not None:
            self._space.close()

    def _speak(self, orders: BinaryIO) -> None:
        """Write the messages to the child until it ends; `join` returns how it ended."""
        with suppress(BrokenPipeError), orders:
            while (frame := self._words.get()) is not None:
                with suppress(BrokenPipeError):
                    orders.write(encode(frame))
                    orders.flush()

    def _signal(self, send: Callable[[int, int], None], number: int) -> None:
        with self._living:
            if self._end is None:
                with suppress(ProcessLookupError):  # dead already, only not buried yet
                    send(self.pid, number)

    def _bury(self) -> None:
        """Wait for the process's end, then end its group."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # its id stays taken: the group is still ours
        self.kill()  # grandchildren would hold the pipes open, and the device busy
        if self._space is not None:
            self._space.clear()
        with self._living:
            self._guard.dismiss()
            status = self._process.wait()
            self._end = Signalled(-status) if status < 0 else Exited(status)
        os.close(self._death_writer)

    def _hear(self) -> None:
        try:
            self._hearing.listen(self._tell)
        except Exception as error:  # noqa: BLE001 - the end of a thread: `join` raises it where it is caught
            self._listener_error = error
            self.kill()
        self._undertaker.join()
        self._hearing.close()
        self._words.put(None)
        self._speaker.join(LEAVE_S)  # longer only where a daemon escaped that has the pipe, and reads nothing
        self._over.set()
        self._news.set()

    def _tell(self, frame: FromChild) -> None:
        listener = self._listener
        if isinstance(frame, Ready):
            self._ready = frame
            self._news.set()
        elif listener is None:
            log.warning("child.said", extra={"pid": self.pid, "said": str(frame)})
        elif isinstance(frame, FactFrame) and frame.type in ENDS and self._final is not None:
            log.warning("child.ended_twice", extra={"pid": self.pid, "said": frame.type})
        else:
            if isinstance(frame, FactFrame) and frame.type in ENDS:
                self._final = frame.type
            listener(frame)


@dataclass(frozen=True, slots=True)
class Guard:
    """A shell that does nothing but wait for the parent's death, and then kills a group.

    It stands outside the group, so that a suspended group is killed too, and needs nothing
    of the child, so that a child hanging in native code is killed too.
    """

    process: subprocess.Popen[bytes]

    @classmethod
    def over(cls, group: int) -> Self:
        """Start a guard over the process group `group`."""
        command = ["/bin/sh", "-c", GUARD, "podfleet-guard", str(group)]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, env={}, start_new_session=True))

    def dismiss(self) -> None:
        """End the guard, which then kills nobody."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@dataclass(frozen=True, slots=True)
class Pipes:
    """Both ends of every pipe between parent and child; `death` is closed when the child is dead."""

    events: int
    events_of_child: int
    stdout: int
    stdout_of_child: int
    stderr: int
    stderr_of_child: int
    orders_of_child: int
    orders: int
    death: int
    death_writer: int

    @classmethod
    def open(cls) -> Self:
        pipes = cls(*os.pipe(), *os.pipe(), *os.pipe(), *os.pipe(), *os.pipe())
        for fd in (pipes.events, pipes.stdout, pipes.stderr):
            os.set_blocking(fd, False)
        return pipes

    def close_ends_of_child(self) -> None:
        """Close the child's ends in this process, without which no pipe would reach its end of file."""
        for fd in (self.events_of_child, self.stdout_of_child, self.stderr_of_child, self.orders_of_child):
            os.close(fd)

    def close(self) -> None:
        """Close all ends, if no child was started."""
        self.close_ends_of_child()
        for fd in (self.events, self.stdout, self.stderr, self.orders, self.death, self.death_writer):
            os.close(fd)


def _command(options: ChildOptions, pipes: Pipes, space: ProcessSpace | None) -> list[str]:
    command = [
        *options.command,
        f"--events-fd={pipes.events_of_child}",
        f"--orders-fd={pipes.orders_of_child}",
    ]
    if threading.current_thread() is threading.main_thread():
        # The kernel ends the child with the *thread* that spawned it, and only this one lives as long as
        # the process. Spawned by another thread, the child has the guard alone.
        command.append(f"--die-with={os.getpid()}")
    if space is not None:
        command.append(f"--space={space.number}")
    return [*command, *options.words]
