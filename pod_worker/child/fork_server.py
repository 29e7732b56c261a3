"""Starts children: the first as a new process, later ones forked from a loaded process.

The imports of the pipelines take seconds, which is too long for a short run. From the second child on, the
worker therefore has a fork server: a process that has imported everything and only forks. While it loads,
or after it died, children are started as new processes.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from events.runtime.clock import Clock
from events.runtime.errors import Transient
from events.runtime.sockets import is_readable
from pod_worker.child.process import Child, ChildOptions, Guard, Pipes, allowed, secrets_of
from pod_worker.isolation.process_space import ProcessSpace

log = logging.getLogger(__name__)

LOADED: Final = b"loaded"
FORK: Final = b"fork"
NOBODY: Final = b"0"
MESSAGE_BYTES_MAX: Final = 64
COMMAND: Final = (sys.executable, "-m", "pod_worker.child.fork_server_main")
PR_SET_CHILD_SUBREAPER: Final = 36
FORK_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Adopted:
    """A process that the fork server forked and this process adopted as its child."""

    pid: int

    def wait(self) -> int:
        """Return its exit status, or the signal that ended it as a negative number."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ForkServer:
    """Starts the children of one worker; as a context manager, it ends what it started."""

    def __init__(self, options: ChildOptions, clock: Clock, command: tuple[str, ...] = COMMAND) -> None:
        self._options = options
        self._clock = clock
        self._command = command
        self._first: Child | None = None
        self._is_first = True
        self._process: ServerProcess | None = None

    @property
    def options(self) -> ChildOptions:
        """The options of its children."""
        return self._options

    def prestart(self) -> None:
        """Start the first child ahead of time. Raises `Transient` if no process can be started."""
        self._first = self.spawn()

    def spawn(self) -> Child:
        """Return a child: forked if the fork server is loaded, else started. Raises `Transient`."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self.is_loaded():
            return self._fork()
        if not self._is_first:
            self.start()
        self._is_first = False
        return Child.spawn(self._options, self._clock)

    def start(self) -> None:
        """Start the fork server, if there is none. Raises `Transient` if no process can be started."""
        if self._process is None:
            self._process = ServerProcess.start(self._options, self._command)

    def is_loaded(self) -> bool:
        """Say whether the fork server is loaded; one that died is closed."""
        if self._process is not None and self._process.is_over():
            log.warning("fork_server.lost", extra={"status": self._process.process.returncode})
            self.close()
        return self._process is not None and self._process.is_loaded()

    def close(self) -> None:
        """End the fork server and an unused first child; both can be started again."""
        if self._first is not None:
            with self._first:
                self._first = None
        if self._process is not None:
            self._process.close()
            self._process = None

    def _fork(self) -> Child:
        assert self._process is not None, "nothing else is forked from"
        reap_orphans(self._process.process.pid)
        pipes = Pipes.open()
        space: ProcessSpace | None = None
        try:
            space = self._options.make_space()
            pid = self._process.fork(pipes, space)
            guard = Guard.over(pid)
        except OSError as error:
            pipes.close()
            self.close()
            if space is not None:
                space.clear()
                space.close()
            raise Transient("child_not_spawned", f"the pipeline's process cannot start: {error}") from error
        pipes.close_ends_of_child()
        return Child(Adopted(pid), guard, pipes, self._clock, secrets_of(self._options.environ), space)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class ServerProcess:
    """The process of the fork server, and the socket that connects the worker to it."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    _is_loaded: bool = False

    @classmethod
    def start(cls, options: ChildOptions, command: tuple[str, ...]) -> Self:
        """Start the process, which imports the pipelines. Raises `Transient` if it cannot be started."""
        # What it forks loses its parent at once, and becomes our child.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.settimeout(FORK_S)
        argv = [*command, f"--socket={there.fileno()}", f"--worker={os.getpid()}"]
        argv += options.words
        with there:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    env=allowed(options.environ),
                    pass_fds=(there.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                here.close()
                raise Transient("child_not_spawned", f"the fork server cannot start: {error}") from error
        return cls(process, here)

    def is_over(self) -> bool:
        """Say whether the process has ended."""
        return self.process.poll() is not None

    def is_loaded(self) -> bool:
        """Say whether it can fork."""
        if not self._is_loaded and is_readable(self.channel):
            self._is_loaded = self.channel.recv(MESSAGE_BYTES_MAX) == LOADED
        return self._is_loaded

    def fork(self, pipes: Pipes, space: ProcessSpace | None) -> int:
        """Fork a child that leads a process group and has its ends of the pipes; return its pid."""
        ends = [pipes.events_of_child, pipes.orders_of_child, pipes.stdout_of_child, pipes.stderr_of_child]
        socket.send_fds(self.channel, [FORK, b"" if space is None else b"%d" % space.number], ends)
        answer = self.channel.recv(MESSAGE_BYTES_MAX)
        if answer in (b"", NOBODY):
            raise OSError("the fork server has no room for another process")
        return int(answer)

    def close(self) -> None:
        """Kill the process and reap it."""
        self.channel.close()
        self.process.kill()
        self.process.wait()


def reap_orphans(fork_server: int) -> None:
    """Reap processes that a pipeline left behind: a worker with a fork server adopts them."""
    for listed in Path("/proc/self/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended since
            continue
        for pid in map(int, children):
            if pid != fork_server:
                with suppress(ChildProcessError):  # whoever started it has taken its status
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
