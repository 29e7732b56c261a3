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


class Crew(Protocol):
    """Does pieces in any order."""

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        """Yield each piece with its count as soon as it is done."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """The crew of one thread: this one."""

    counter: Counter

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        for piece in pieces:
            yield piece, self.counter.do(piece.step, piece.start, piece.stop, piece.first, piece.last)


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a crew."""

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
class Processes:
    """A crew of processes, each with a piece at a time."""

    members: tuple[Member, ...]

    def counts(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, int]]:
        rest = iter(pieces)
        with selectors.DefaultSelector() as selector:
            busy: dict[Member, Piece] = {}
            for member, piece in zip(self.members, rest, strict=False):
                assert member.process.stdout is not None
                member.take(piece)
                busy[member] = piece
                selector.register(member.process.stdout, selectors.EVENT_READ, member)
            while busy:
                for key, _ in selector.select():
                    member = key.data
                    done, count = busy.pop(member), member.answer()
                    following = next(rest, None)
                    if following is None:
                        selector.unregister(key.fileobj)
                    else:
                        member.take(following)
                        busy[member] = following
                    yield done, count


@contextmanager
def crew_of(n: int, threads: int, array_bytes: int, variables: Mapping[str, str]) -> Iterator[Crew]:
    """Provide a crew for counts up to `n`, prepared to begin; its array has `array_bytes`, 0 for none."""
    if threads == 1:
        array = _touched(np.empty(array_bytes, dtype=np.bool_)) if array_bytes else None
        yield Alone(Counter(n, array))
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
        members = []
        for _ in range(threads):
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, pass_fds=shared
            )
            members.append(Member(process))
            stack.callback(members[-1].close)
        for member in members:
            member.answer()  # prepared
        yield Processes(tuple(members))


def _touched(array: Flags) -> Flags:
    """Have the kernel give all of it before anything is measured, by calls between which a run may end."""
    for low in range(0, len(array), STRETCH):
        array[low : low + STRETCH] = True
    return array
