"""A file of the run's own folder, written to the disk and read back; each block is compared.

Law: the file is gone when the laps are over, however they end. No call holds more than a part of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from events.kinds.results import Value
from events.runtime.errors import PipelineError
from stages.kinds.compute.laps import Job, Lap, Pace, Telling, per_s, timed
from stages.kinds.compute.machine import file_system_of, need_room

Block = npt.NDArray[np.uint8]

BLOCK_BYTES: Final = 4 << 20
SYNC_BYTES: Final = 64 << 20  # written to the disk at once: nothing interrupts that
NUMBER_BYTES: Final = 8
SEED: Final = 1


@contextmanager
def stored(job: Job) -> Iterator[Lap]:
    """Provide the laps of a file. Raises `PipelineError` where there is no room for it."""
    size = job.spec.bytes
    need_room(job.workspace, size)
    path = job.workspace / "disk.bin"
    file_system = file_system_of(job.workspace)
    if file_system in ("tmpfs", "ramfs"):
        job.say("the folder of the run lies in memory: these figures are of no disk")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        path.unlink()  # it goes with this process, whatever ends it
        file = File(job, fd)

        def lap(telling: Telling) -> Mapping[str, Value]:
            pace, write_s, read_s = Pace(job, telling), 0.0, 0.0
            for _ in pace.rounds():
                write_s += file.written_s(pace)
                read_s += file.read_s(pace)
            gigabytes = size * pace.done / 1e9
            return {
                **timed(pace.done, write_s + read_s),
                "write_gb_per_s": per_s(gigabytes, write_s),
                "read_gb_per_s": per_s(gigabytes, read_s),
                "threads_used": 1,
                "file_system": file_system,
            }

        yield lap
    finally:
        os.close(fd)


class File:
    """A file of blocks that differ in their numbers, and hold nothing that could be stored in less."""

    def __init__(self, job: Job, fd: int) -> None:
        self._size = job.spec.bytes
        self._now_s = job.clock.monotonic_s
        self._fd = fd
        self._block: Block = np.random.default_rng(SEED).integers(0, 256, BLOCK_BYTES, dtype=np.uint8)
        self._found: Block = np.empty(BLOCK_BYTES, dtype=np.uint8)

    def written_s(self, pace: Pace) -> float:
        """Write the file to the disk; return the seconds of that."""
        seconds, synced = 0.0, 0
        for place, block in self._blocks():
            begun_s = self._now_s()
            _write(self._fd, block.data, place)
            end = place + len(block)
            if end - synced >= SYNC_BYTES or end == self._size:
                os.fsync(self._fd)
                synced = end
            seconds += self._now_s() - begun_s
            pace.within(end / self._size / 2)
        return seconds

    def read_s(self, pace: Pace) -> float:
        """Read the file, which the system's cache was asked to forget; return the seconds of that.

        Raises `PipelineError` where it is not what was written.
        """
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
        seconds = 0.0
        for place, block in self._blocks():
            found = self._found[: len(block)]
            begun_s = self._now_s()
            count = _read(self._fd, found.data, place)
            seconds += self._now_s() - begun_s
            if count != len(block) or not np.array_equal(found, block):
                raise PipelineError(
                    "WRONG_RESULT", f"what was read from byte {place:,} on differs from what was written"
                )
            pace.within(0.5 + (place + len(block)) / self._size / 2)
        return seconds

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        for place in range(0, self._size, BLOCK_BYTES):
            block = self._block[: min(BLOCK_BYTES, self._size - place)]
            number = np.frombuffer(place.to_bytes(NUMBER_BYTES, "little"), dtype=np.uint8)
            block[:NUMBER_BYTES] = number[: len(block)]
            yield place, block


def _write(fd: int, data: memoryview, place: int) -> None:
    while data:
        written = os.pwrite(fd, data, place)
        data, place = data[written:], place + written


def _read(fd: int, data: memoryview, place: int) -> int:
    """Read until the data is full or the file ends; return how many bytes that were."""
    begun = place
    while data and (count := os.preadv(fd, [data], place)):
        data, place = data[count:], place + count
    return place - begun
