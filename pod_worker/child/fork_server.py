"""Starts children: the first like any program, later ones forked from a warm process.

The imports of the pipelines take seconds, and a shorter run should not wait for them. So from the second
child on there is a fork server beside the worker: a process that has imported everything and only forks.
While it loads, or after it died, children are started as the first was.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from events.runtime.clock import Clock
from events.runtime.errors import Transient
from pod_worker.child.process import Child, ChildOptions, Guard, Pipes, allowed, secrets_of
from pod_worker.isolation.room import Room

log = logging.getLogger(__name__)

LOADED: Final = b"loaded"
FORK: Final = b"fork"
NOBODY: Final = b"0"
WORD_MAX: Final = 64
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
        self._warm: Warm | None = None

    def prestart(self) -> None:
        """Start the first child ahead of time. Raises `Transient` if no process can be started."""
        self._first = self.spawn()

    def spawn(self) -> Child:
        """Return a child: forked if the fork server is loaded, else started. Raises `Transient`."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self.is_warm():
            return self._fork()
        if not self._is_first:
            self.warm_up()
        self._is_first = False
        return Child.spawn(self._options, self._clock)

    def warm_up(self) -> None:
        """Start the fork server, if there is none. Raises `Transient` if no process can be started."""
        if self._warm is None:
            self._warm = Warm.start(self._options, self._command)

    def is_warm(self) -> bool:
        """Say whether the fork server is loaded; one that died is closed."""
        if self._warm is not None and self._warm.is_over():
            log.warning("fork_server.lost", extra={"status": self._warm.process.returncode})
            self.close()
        return self._warm is not None and self._warm.is_loaded()

    def close(self) -> None:
        """End the fork server and an unused first child; both can be started again."""
        if self._first is not None:
            with self._first:
                self._first = None
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    def _fork(self) -> Child:
        assert self._warm is not None, "nothing else is forked from"
        reap_orphans(self._warm.process.pid)
        pipes = Pipes.open()
        room: Room | None = None
        try:
            room = self._options.room()
            pid = self._warm.fork(pipes, room)
            guard = Guard.over(pid)
        except OSError as error:
            pipes.close()
            self.close()
            if room is not None:
                room.clear()
                room.close()
            raise Transient("child_not_spawned", f"the pipeline's process cannot start: {error}") from error
        pipes.close_ends_of_child()
        return Child(Adopted(pid), guard, pipes, self._clock, secrets_of(self._options.environ), room)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class Warm:
    """The process of the fork server, and the socket to it."""

    process: subprocess.Popen[bytes]
    way: socket.socket
    _has_said: bool = False

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
        if not self._has_said and select.select([self.way], [], [], 0)[0]:
            self._has_said = self.way.recv(WORD_MAX) == LOADED
        return self._has_said

    def fork(self, pipes: Pipes, room: Room | None) -> int:
        """Fork a child that leads a process group and has its ends of the pipes; return its pid."""
        ends = [pipes.events_of_child, pipes.orders_of_child, pipes.stdout_of_child, pipes.stderr_of_child]
        socket.send_fds(self.way, [FORK, b"" if room is None else b"%d" % room.number], ends)
        answer = self.way.recv(WORD_MAX)
        if answer in (b"", NOBODY):
            raise OSError("the fork server has no room for another process")
        return int(answer)

    def close(self) -> None:
        """Kill the process and reap it."""
        self.way.close()
        self.process.kill()
        self.process.wait()


def reap_orphans(fork_server: int) -> None:
    """Reap processes that a pipeline left behind: beside a fork server this process adopts them."""
    for listed in Path("/proc/self/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended since
            continue
        for pid in map(int, children):
            if pid != fork_server:
                with suppress(ChildProcessError):  # whoever started it has taken its status
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
