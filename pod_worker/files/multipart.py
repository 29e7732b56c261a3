"""Uploads a large file in parts, a few at once: it is read once, and hashed during that read.

Law: the bytes that were hashed are the bytes that are sent; they stay in memory until storage has them. An
interruption costs only the parts in transfer. Memory holds a few parts, whatever the size of the file.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from typing import Annotated, Any, Final

import msgspec

from events.runtime.errors import PodfleetError

PART_BYTES: Final = 8 << 20  # the least
PARTS_MAX: Final = 10_000  # of S3
PART_BYTES_MAX: Final = 1 << 30  # more than a part of the largest object of S3 has
AT_ONCE: Final = 4
MEMORY_BYTES: Final = 256 << 20  # of all parts at once, unless one alone is larger
FROM_BYTES: Final = 4 * PART_BYTES  # a smaller file goes whole


class Part(msgspec.Struct, frozen=True):
    """A part that storage lacks, and the URL for it."""

    number: int
    url: str


class Parts(msgspec.Struct, frozen=True):
    """The state of an upload as the control plane reports it: the first missing parts."""

    key: str
    upload_id: str
    part_size: Annotated[int, msgspec.Meta(ge=1, le=PART_BYTES_MAX)]  # of all but the last
    parts: list[Part]


class UploadGone(PodfleetError):
    """Storage has discarded this upload: the whole file has to be sent again."""

    def __init__(self) -> None:
        super().__init__("UPLOAD_GONE", "storage has forgotten the parts that it had")


def parts_of(size: int) -> int:
    """Return into how many parts a file of `size` bytes is cut."""
    part_bytes = max(PART_BYTES, -(-size // PARTS_MAX))
    return -(-size // part_bytes)


@dataclass(slots=True)
class Passage:
    """One transfer of a file to storage.

    `ask` starts or continues the upload; `patiently` repeats a step until it succeeds, or raises; `put` sends
    a part to a URL.
    """

    file: BufferedReader
    ask: Callable[[], Parts]
    put: Callable[[str, memoryview], None]
    patiently: Callable[[Callable[[], None]], None]
    key: str = ""
    _upload_id: str = ""
    _part_bytes: int = 0
    _number: int = 0
    _urls: dict[int, str] = field(default_factory=dict)
    _digest: Any = field(default_factory=hashlib.sha256)
    _trouble: list[BaseException] = field(default_factory=list)
    _reading: threading.Lock = field(default_factory=threading.Lock)
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def send(self) -> str:
        """Send the whole file; return the SHA-256 of the sent bytes.

        Raises `UploadGone`, and the exceptions of the steps.
        """
        self.patiently(self._sign)
        others = min(AT_ONCE, MEMORY_BYTES // self._part_bytes) - 1
        threads = [threading.Thread(target=self._work, name="part", daemon=True) for _ in range(others)]
        for thread in threads:
            thread.start()
        self._work()
        for thread in threads:
            thread.join()
        if self._trouble:
            raise self._trouble[0]
        return str(self._digest.hexdigest())

    def _work(self) -> None:
        """Send parts until the file is read or one of the threads has failed."""
        try:
            buffer = memoryview(bytearray(self._part_bytes))
            while (taken := self._next(buffer)) is not None:
                self.patiently(partial(self._deliver, *taken))
        except BaseException as error:  # noqa: BLE001 - the end of a thread: `send` raises it again
            self._trouble.append(error)

    def _next(self, buffer: memoryview) -> tuple[int, memoryview] | None:
        """Read and hash the next part; return None after the last one."""
        with self._reading:
            size = 0 if self._trouble else self.file.readinto(buffer)
            self._digest.update(buffer[:size])
            self._number += 1
            return (self._number, buffer[:size]) if size else None

    def _deliver(self, number: int, content: memoryview) -> None:
        """Send a part, unless storage has it already because only the answer was lost."""
        if self._trouble:
            raise self._trouble[0]
        url = self._url(number)
        if url is None:
            return
        try:
            self.put(url, content)
        except BaseException:
            with self._asking:
                self._urls.pop(number, None)  # signed before it was known whether the part arrived
            raise

    def _url(self, number: int) -> str | None:
        """Return an unused URL for the part; None if storage has the part."""
        with self._asking:
            if number not in self._urls:
                self._sign()
            return self._urls.pop(number, None)

    def _sign(self) -> None:
        """Fetch the list of missing parts and their URLs. Raises `UploadGone`."""
        signed = self.ask()
        if self._upload_id not in ("", signed.upload_id):
            raise UploadGone()
        self.key, self._upload_id, self._part_bytes = signed.key, signed.upload_id, signed.part_size
        self._urls = {part.number: part.url for part in signed.parts}


def pieces(content: memoryview, size: int, check: Callable[[], None]) -> Iterator[memoryview]:
    """Yield `content` in pieces; `check` may stop it between two of them by an exception."""
    for begin in range(0, len(content), size):
        check()
        yield content[begin : begin + size]
