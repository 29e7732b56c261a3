"""The fork server: has every pipeline imported, and forks a child for each run.

Law: it has one thread, runs no pipeline and uses no device, so that a forked child is as good as new: no
lock is held, and no CUDA context is shared. The child becomes the worker's own: this process forks twice,
and the worker adopts the orphan (`child/fork_server.py`).
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from events.runtime.clock import SystemClock
from pod_worker.child.confine import enter
from pod_worker.child.fork_server import FORK, LOADED, MESSAGE_BYTES_MAX, NOBODY
from pod_worker.child.main import Loader, attend, die_with, leave, load_what_works, prepare
from pod_worker.isolation.confinement import Confinement
from pod_worker.isolation.mounts import show
from pod_worker.isolation.privileges import BECOMES, KEPT, drop_capabilities
from pod_worker.isolation.process_space import ProcessSpace
from stages.pipeline import Pipeline
from stages.registry import imported, installed

FDS: Final = 4  # events, orders, standard output and error
ORPHAN_S: Final = 0.001
PROCESS_NAME: Final = "podfleet-warm"


def main(argv: Sequence[str], loader: Loader = load_what_works) -> int:
    """Fork a child at each request of the worker, until the worker ends; return the exit status."""
    arguments = _parse(argv)
    confinement: Confinement | None = arguments.confinement
    if gives_users := confinement is not None and confinement.method == "user":
        show(confinement.places)
    drop_capabilities(BECOMES if gives_users else KEPT)
    prepare(PROCESS_NAME)
    die_with(arguments.worker)
    pipelines = loader(arguments.kinds or installed())
    if not pipelines:
        return 1  # why is on standard error
    gc.collect()
    gc.freeze()  # what is here stays: pages that nobody writes to are shared with every child
    with socket.socket(fileno=arguments.socket) as worker:
        worker.send(LOADED)
        while True:
            message, fds, *_ = socket.recv_fds(worker, MESSAGE_BYTES_MAX, FDS)
            if not message.startswith(FORK):
                return 0
            number = int(message.removeprefix(FORK) or 0)
            _fork_child(worker, fds, pipelines, arguments.worker, Inside.of(confinement, number))
            for fd in fds:
                os.close(fd)


def _fork_child(
    worker: socket.socket,
    fds: Sequence[int],
    pipelines: Mapping[str, Pipeline],
    worker_pid: int,
    inside: Inside | None,
) -> None:
    """Fork a child that the worker adopts, and send its pid; does not return in the child."""
    read_fd, report_fd = os.pipe()
    try:
        between = os.fork()
        if not between:
            _fork_again(worker, (report_fd, *fds), pipelines, worker_pid, inside)
        os.close(report_fd)
        os.waitpid(between, 0)  # from here on the child is the worker's
        pid = os.read(read_fd, MESSAGE_BYTES_MAX)
    except OSError:  # no room for another process
        pid = b""
    finally:
        os.close(read_fd)
    worker.send(pid or NOBODY)


def _fork_again(
    worker: socket.socket,
    fds: Sequence[int],
    pipelines: Mapping[str, Pipeline],
    worker_pid: int,
    inside: Inside | None,
) -> None:
    """Fork the child from an intermediate process, which ends."""
    between = os.getpid()
    try:
        is_child = not os.fork()
    except OSError:
        os._exit(1)
    if not is_child:
        os._exit(0)
    report_fd, events, orders, stdout, stderr = fds
    os.setsid()
    os.write(report_fd, str(os.getpid()).encode())
    os.close(report_fd)
    worker.close()
    for fd, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(fd, standard)
        os.close(fd)
    never = threading.Event()
    while os.getppid() == between:
        SystemClock().wait(never, ORPHAN_S)
    if inside is not None:
        try:
            inside.enter()
        except OSError:  # nobody goes on who is not confined
            traceback.print_exc()
            leave(1)
    die_with(worker_pid)  # behind the change of user, which ends such a wish
    _draw_anew()
    leave(attend(events, orders, pipelines))


@dataclass(frozen=True, slots=True)
class Inside:
    """The confinement of a forked child."""

    confinement: Confinement
    space: ProcessSpace

    @classmethod
    def of(cls, confinement: Confinement | None, number: int) -> Self | None:
        """Return the confinement with the number that the worker sent; None if children are not confined."""
        return None if confinement is None else cls(confinement, confinement.space_of(number))

    def enter(self) -> None:
        """Confine this process for good, and set the environment to its folders."""
        enter(self.confinement, self.space)
        os.environ.update(self.space.variables)  # noqa: TID251 - a process gets its environment here
        tempfile.tempdir = None  # what an import has asked for was the worker's


def _draw_anew() -> None:
    """Reseed the random generators of numpy and torch; Python reseeds its own at a fork."""
    if (numpy := imported("numpy")) is not None:
        numpy.random.seed()
    if (torch := imported("torch")) is not None:
        torch.seed()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pod_worker.child.fork_server_main", description=__doc__)
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--worker", type=int, required=True, help="its process id")
    parser.add_argument("--confinement", type=Confinement.read, help="what keeps children from the worker")
    parser.add_argument("--kinds", nargs="*", help="load these kinds only")
    return parser.parse_args(argv)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
