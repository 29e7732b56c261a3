"""Children of a worker that was forked itself: its fork server is forked from it, with every import.

Replaces, in the processes of `fork_server` alone, how a worker starts its fork server. What it does is the
product's own code. A worker that has threads already starts its fork server as the product does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
from dataclasses import dataclass
from typing import Self

from events.runtime.sockets import is_readable
from pod_worker.child import fork_server, fork_server_main
from pod_worker.child.fork_server import COMMAND, FORK_S, PR_SET_CHILD_SUBREAPER, ForkServer, ServerProcess
from pod_worker.child.main import leave
from pod_worker.child.process import ChildOptions, allowed


@dataclass(slots=True)
class Forked:
    """A process that this one forked, as far as a fork server asks for it."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._look(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end."""
        return self._look(0)

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


class ForkedServerProcess(ServerProcess):
    """A fork server that was forked instead of started."""

    @classmethod
    def start(cls, options: ChildOptions, command: tuple[str, ...]) -> Self:
        """Fork it where that is safe, else start it."""
        if threading.active_count() > 1 or command != COMMAND:
            return super().start(options, command)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.settimeout(FORK_S)
        worker = os.getpid()
        pid = os.fork()
        if not pid:
            here.close()
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            environ = allowed(options.environ)
            os.environ.clear()  # noqa: TID251 - a process gets its environment here
            os.environ.update(environ)  # noqa: TID251
            leave(fork_server_main.main([f"--socket={there.detach()}", f"--worker={worker}", *options.words]))
        there.close()
        return cls(Forked(pid), here)  # type: ignore[arg-type]  # has what a fork server needs of a Popen


def prestart(self: ForkServer) -> None:
    """Fork the first child, too."""
    self.start()
    assert self._process is not None
    is_readable(self._process.channel, FORK_S)
    self._first = self._fork() if self.is_loaded() else self.spawn()


def install() -> None:
    """Let workers of this process and of its forks have such fork servers."""
    fork_server.ServerProcess = ForkedServerProcess  # type: ignore[misc]
    ForkServer.prestart = prestart  # type: ignore[method-assign]
