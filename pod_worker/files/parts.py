"""Sends a large file in parts, a few at once: read once, and hashed while it is read.

Law: the bytes that were hashed are the bytes that are sent, and are held until storage has them. So a cut
costs only the parts that were being sent, and memory holds a few parts, however large the file is.
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

PART_BYTES: Final = 8 << 20
AT_ONCE: Final = 4
FROM_BYTES: Final = 4 * PART_BYTES  # a smaller file goes whole


class Part(msgspec.Struct, frozen=True):
    """A part that is missing, and where to put it."""

    number: int
    url: str


class Parts(msgspec.Struct, frozen=True):
    """What the control plane says of an upload: the first of the parts that are missing."""

    key: str
    upload_id: str
    part_size: Annotated[int, msgspec.Meta(ge=1, le=PART_BYTES)]  # of all but the last
    parts: list[Part]


class UploadGone(PodfleetError):
    """Storage does not know this upload any more: everything has to be sent again."""

    def __init__(self) -> None:
        super().__init__("UPLOAD_GONE", "storage has forgotten the parts that it had")


@dataclass(slots=True)
class Passage:
    """One reading of a file into storage.

    `ask` has the upload begun, or goes on with it; `patiently` repeats a step until it is done, or raises;
    `put` sends a part to a URL.
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
        """Send everything; return the SHA-256 of what was sent.

        Raises `UploadGone`, and what the steps raise.
        """
        self.patiently(self._sign)
        threads = [threading.Thread(target=self._work, name="part", daemon=True) for _ in range(AT_ONCE - 1)]
        for thread in threads:
            thread.start()
        self._work()
        for thread in threads:
            thread.join()
        if self._trouble:
            raise self._trouble[0]
        return str(self._digest.hexdigest())

    def _work(self) -> None:
        """Take part after part until the file is read, or one of the threads cannot go on."""
        try:
            buffer = memoryview(bytearray(self._part_bytes))
            while (taken := self._next(buffer)) is not None:
                self.patiently(partial(self._deliver, *taken))
        except BaseException as error:  # noqa: BLE001 - the end of a thread: `send` raises it again
            self._trouble.append(error)

    def _next(self, buffer: memoryview) -> tuple[int, memoryview] | None:
        """Read and hash the next part; None behind the last one."""
        with self._reading:
            size = 0 if self._trouble else self.file.readinto(buffer)
            self._digest.update(buffer[:size])
            self._number += 1
            return (self._number, buffer[:size]) if size else None

    def _deliver(self, number: int, content: memoryview) -> None:
        """Bring a part to storage, unless it has it: as when only the answer was lost."""
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
        """Return a URL that was not used before; None when the part is not missing."""
        with self._asking:
            if number not in self._urls:
                self._sign()
            return self._urls.pop(number, None)

    def _sign(self) -> None:
        """Learn what is missing. Raises `UploadGone`."""
        signed = self.ask()
        if self._upload_id not in ("", signed.upload_id):
            raise UploadGone()
        self.key, self._upload_id, self._part_bytes = signed.key, signed.upload_id, signed.part_size
        self._urls = {part.number: part.url for part in signed.parts}


def pieces(content: memoryview, size: int, check: Callable[[], None]) -> Iterator[memoryview]:
    """Yield `content` in pieces; `check` may break off between them."""
    for begin in range(0, len(content), size):
        check()
        yield content[begin : begin + size]
