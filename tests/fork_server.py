"""A fork server for the programs that tests start: their imports are done once, and each start is a fork.

`start_program(arguments, ...)` answers with a `Forked`: a process of its own, with its own environment,
folder, standard streams, sockets and signals, and with the methods of `subprocess.Popen`. What it saves is
the import of the product (a control plane takes 1 s, a pipeline with PyTorch 4 s). Test processes that run
side by side share these imports as well: each has a server that was forked from a common one.

Law: a server has one thread, opens nothing and runs no program itself, so that what it forks is as good
as new. It is the parent of its programs, and reports how each ended.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Protocol

from tests import forked_children

REQUEST_BYTES: Final = 200_000
WORD_BYTES: Final = 64
STANDARD: Final = 3  # input, output, error
START_S: Final = 300.0  # imports take five seconds of a processor that many may share
PR_SET_PDEATHSIG: Final = 1
MADV_COLLAPSE: Final = 25
LARGE_PAGE_BYTES: Final = 2 << 20
# What programs of the product import, the heavy parts of the pipelines included.
PRELOADED: Final = (
    *(
        "tests.wired_control_plane",
        "control_plane.server.http.connection",
        "podfleet.main",
        "podfleet.commands.maintenance.verify",
    ),
    *(
        "events.runtime.logs",
        "pydantic.v1",
        "pymongo.asynchronous.auth",
        "structlog.dev",
        "uvicorn.lifespan.on",
    ),
    *("pod_worker.program", "pod_worker.child.main", "pod_worker.child.fork_server_main"),
    *("stages.kinds.ideation.pipeline", "stages.kinds.probe.pipeline", "stages.kinds.experiment.pipeline"),
    *("stages.kinds.benchmark.pipeline", "inspect_ai.agent._acp.server"),
    *("torch", "sklearn.datasets", "matplotlib.pyplot", "matplotlib.backends.backend_agg"),
    "stages.adapters.models.openai",
)

_way: Final[list[socket.socket]] = []  # to this process' server, once there is one


class Program(Protocol):
    """One started program; `subprocess.Popen` is one, too."""

    pid: int
    returncode: int | Any

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Forked:
    """A program that was forked."""

    def __init__(self, pid: int, ended: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        weakref.finalize(self, ended.close)  # where nobody asks any more how it ended

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal that ended it; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it runs
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            news = select.poll()  # select() takes no descriptor above 1,023
            news.register(self._ended, select.POLLIN)
            if not news.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"program {self.pid}", timeout or 0)
            word = self._ended.recv(WORD_BYTES)
            self._ended.close()
            assert word, f"nobody tells how program {self.pid} ended"
            self.returncode = os.waitstatus_to_exitcode(int(word))
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal; a program that is over gets none."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@contextmanager
def common_server() -> Iterator[str]:
    """Start a server that forks one for each test process that joins; give the address to join at."""
    with (
        tempfile.TemporaryDirectory(prefix="podfleet-forks-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door,
    ):
        door.bind(f"{folder}/door")
        door.listen()
        process = _start(door)
        try:
            yield f"{folder}/door"
        finally:
            process.kill()
            process.wait()


def join(address: str) -> None:
    """Let the common server there fork this process' own."""
    _way.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    _way[0].connect(address)
    atexit.register(_way[0].close)


def _server() -> socket.socket:
    """Return the way to this process' fork server, which ends with it; start one where there is none."""
    if not _way:
        way, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = _start(there)
        atexit.register(process.wait, START_S)
        atexit.register(way.close)
        _way.append(way)
    return _way[0]


def _start(given: socket.socket) -> subprocess.Popen[bytes]:
    """Start a server that serves whom this socket leads to."""
    command = [sys.executable, "-m", "tests.fork_server", str(given.fileno()), *PRELOADED]
    return subprocess.Popen(command, pass_fds=(given.fileno(),), cwd=Path(__file__).parents[1])


def start_program(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: IO[Any] | None = None,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> Forked:
    """Start what `python *arguments` would start: `-m MODULE ...`, `-c CODE ...` or `FILE ...`.

    A stream that is not given is the test's own, input apart.
    """
    request = json.dumps({"arguments": [*arguments], "env": dict(env), "cwd": str(cwd)}).encode()
    assert len(request) < REQUEST_BYTES
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # words stay apart
    with theirs, open(os.devnull) as nothing:
        streams = (stdin or nothing, stdout or 1, stderr or 2)
        fds = [each if isinstance(each, int) else each.fileno() for each in streams]
        socket.send_fds(_server(), [request], [*fds, theirs.fileno()])
    ours.settimeout(START_S)
    pid = ours.recv(WORD_BYTES)
    assert pid, "the fork server cannot start a program"
    ours.settimeout(None)
    return Forked(int(pid), ours)


def execute_program(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: IO[Any] | None = None
) -> subprocess.Popen[bytes]:
    """Start the same by `exec`: its environment and its command line are its own in /proc, too."""
    return subprocess.Popen([sys.executable, *arguments], env=env, cwd=cwd, stderr=stderr)


def run_program(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, limit_s: float = 100.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which it is given when its time is over; return what it printed."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as error:
        program = start_program(arguments, env=env, cwd=cwd, stdout=output, stderr=error)
        try:
            status = program.wait(limit_s)
        finally:
            program.kill()
        for each in (output, error):
            each.seek(0)
        return subprocess.CompletedProcess([*arguments], status, output.read(), error.read())


def admitted(door: socket.socket) -> socket.socket:
    """Fork a server for each test process that comes; return in that server, with the way to its client."""
    _die_with(os.getppid())
    server = os.getpid()
    while True:
        way, _ = door.accept()
        if not os.fork():
            _die_with(server)
            door.close()
            return way
        way.close()


def serve(way: socket.socket) -> list[str]:
    """Fork for each request until the client is gone; a program's own process returns its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ready = select.poll()
    ready.register(way, select.POLLIN)
    server = os.getpid()
    programs: dict[int, tuple[int, socket.socket]] = {}  # by the file descriptors that tell of their ends
    while True:
        for fd, _ in ready.poll():
            if fd in programs:
                ready.unregister(fd)
                _report(fd, *programs.pop(fd))
                continue
            request, fds, *_ = socket.recv_fds(way, REQUEST_BYTES, STANDARD + 1)
            if not request:
                sys.exit(0)
            *streams, report = fds
            pid = os.fork()
            if not pid:
                _die_with(server)
                way.close()
                for each, (_, client) in programs.items():
                    os.close(each)
                    client.close()
                os.close(report)
                return _become(json.loads(request), streams)
            for each in streams:
                os.close(each)
            client = socket.socket(fileno=report)
            with contextlib.suppress(BrokenPipeError):  # the client has ended
                client.send(b"%d" % pid)
            end = os.pidfd_open(pid)
            programs[end] = pid, client
            ready.register(end, select.POLLIN)


def _report(end: int, pid: int, client: socket.socket) -> None:
    """Tell the client of a program how that ended."""
    os.close(end)
    status = os.waitpid(pid, 0)[1]
    with client, contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
        client.send(b"%d" % status)


def _die_with(parent: int) -> None:
    """Let no program outlive its test process: one that a failed test forgot would hold its output open."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that was asked for
        signal.raise_signal(signal.SIGKILL)


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    """Take the streams, the environment and the folder of a program; return its arguments."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()  # noqa: TID251 - a process gets its environment here
    os.environ.update(request["env"])  # noqa: TID251
    os.chdir(request["cwd"])
    random.seed()
    time.tzset()
    return list(request["arguments"])


def run(arguments: list[str]) -> None:
    """Run what `python *arguments` would run, as the main module."""
    how, *rest = arguments
    if how == "-m":
        sys.argv, sys.path[0] = rest, os.getcwd()
        sys.modules.pop(rest[0], None)  # it is run anew
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as python -c does
    else:
        sys.argv, sys.path[0] = arguments, str(Path(how).parent)
        runpy.run_path(how, run_name="__main__")


def main() -> None:
    """Import what programs need, then fork."""
    way_number, *modules = sys.argv[1:]
    gc.disable()  # what is imported stays
    for name in modules:
        importlib.import_module(name)
    forked_children.install()
    for each in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # has no public way
        each.atexit = False  # torch takes itself apart for 40 ms
    gc.enable()
    gc.collect()
    gc.freeze()  # pages that nobody writes to are shared with every program
    _use_large_pages()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the servers of test processes ended
    way = socket.socket(fileno=int(way_number))
    if way.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        way = admitted(way)
    with way:
        arguments = serve(way)
    leave(ended(arguments))


def _use_large_pages() -> None:
    """Put what was imported into large pages, where the kernel can: a fork copies a table of all pages."""
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        addresses, rights, _, _, _, *name = line.split()
        first, end = (int(each, 16) for each in addresses.split("-"))
        first, end = (
            -(-first // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES,
            end // LARGE_PAGE_BYTES * LARGE_PAGE_BYTES,
        )
        if rights == "rw-p" and name in ([], ["[heap]"]) and first < end:
            advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MADV_COLLAPSE)


def ended(arguments: list[str]) -> int:
    """Run a program and return its exit status, as the interpreter would have it."""
    try:
        run(arguments)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> None:
    """End as the interpreter does, but leave the modules to the kernel: to take them apart takes 0.3 s."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
