"""Who does the pieces of a prime count: this process, or one process for each thread.

Law: a thread here is a process with one thread, since Python's lock would let one of several compute. They
are of the run's own process group, so that they are paused and killed with it, and end with their input.
"""

from __future__ import annotations

import json
import mmap
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from events.runtime.errors import PipelineError
from stages.kinds.compute.primes import STRETCH, Counter, Flags, Piece

PASSED: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "HOME")
COMMAND: Final = (sys.executable, "-m", "stages.kinds.compute")
ANSWER_BYTES_MAX: Final = 32
LEAVE_S: Final = 2.0


class Pool(Protocol):
    """Does pieces in any order."""

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        """Yield each piece with its count as soon as it is done."""
        ...


@dataclass(frozen=True, slots=True)
class SingleProcess:
    """The pool of one thread: this process."""

    counter: Counter

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        """Yield each piece with its count, one after the other."""
        for piece in pieces:
            yield piece, self.counter.do(piece.step, piece.start, piece.stop, piece.first, piece.last)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process of a pool."""

    process: subprocess.Popen[bytes]

    def take(self, piece: Piece) -> None:
        """Begin a piece. Raises `PipelineError` where the process has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(piece.words).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def answer(self) -> int:
        """Return the count of the piece. Raises `PipelineError` where the process has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline(ANSWER_BYTES_MAX)
        if not line.endswith(b"\n") or not line[:-1].isdigit():
            raise self._ended()
        return int(line)

    def close(self) -> None:
        """End the process, and wait for its end."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):  # what it did not read
                    stream.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE_S)

    def _ended(self) -> PipelineError:
        status = None
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(LEAVE_S)
        how = "does not answer" if status is None else f"ended with status {status}"
        return PipelineError(
            "PROCESS_ENDED", f"a process of the count {how}; lower threads or n", retryable=True
        )


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """A pool of processes, each with a piece at a time."""

    workers: tuple[Worker, ...]

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        """Yield each piece with its count as soon as it is done. Raises `PipelineError`."""
        rest = iter(pieces)
        with selectors.DefaultSelector() as selector:
            busy: dict[Worker, Piece] = {}
            for worker, piece in zip(self.workers, rest, strict=False):
                assert worker.process.stdout is not None
                worker.take(piece)
                busy[worker] = piece
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            while busy:
                for key, _ in selector.select():
                    worker = key.data
                    done, count = busy.pop(worker), worker.answer()
                    following = next(rest, None)
                    if following is None:
                        selector.unregister(key.fileobj)
                    else:
                        worker.take(following)
                        busy[worker] = following
                    yield done, count


@contextmanager
def pool_of(n: int, threads: int, array_bytes: int, variables: Mapping[str, str]) -> Iterator[Pool]:
    """Provide a pool for counts up to `n`, prepared to begin; its array has `array_bytes`, 0 for none."""
    if threads == 1:
        array = _touched(np.empty(array_bytes, dtype=np.bool_)) if array_bytes else None
        yield SingleProcess(Counter(n, array))
        return
    environment = {name: variables[name] for name in PASSED if name in variables}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with ExitStack() as stack:
        words = [*COMMAND, str(n)]
        shared: tuple[int, ...] = ()
        if array_bytes:
            fd = os.memfd_create("primes")
            stack.callback(os.close, fd)
            os.ftruncate(fd, array_bytes)
            words += [str(array_bytes), str(fd)]
            shared = (fd,)
            _touched(np.frombuffer(mmap.mmap(fd, array_bytes), dtype=np.bool_))
        workers = []
        for _ in range(threads):
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, pass_fds=shared
            )
            workers.append(Worker(process))
            stack.callback(workers[-1].close)
        for worker in workers:
            worker.answer()  # prepared
        yield ProcessPool(tuple(workers))


def _touched(array: Flags) -> Flags:
    """Have the kernel give all of it before anything is measured, by calls between which a run may end."""
    for low in range(0, len(array), STRETCH):
        array[low : low + STRETCH] = True
    return array
