"""Reads arrays in NumPy's format from untrusted files.

Law: a header is matched, never evaluated, and its claims are checked before a byte of data is read or any
memory is allocated for it. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath

MAGIC: Final = b"\x93NUMPY"
LENGTH_BYTES: Final = {(1, 0): 2, (2, 0): 4}  # of the heading's own length; numbers need no version 3
HEADING_BYTES_MAX: Final = 4_096
DIMENSIONS_MAX: Final = 32
SHOWN_CHARS: Final = 60

_ENTRY: Final = (
    r"""\s*+(?:['"]descr['"]\s*+:\s*+['"](?P<descr{0}>[<>|=]?[?biufcmMOSUV]\d{{0,9}}(?:\[\w{{1,8}}\])?)['"]"""
    r"""|['"]fortran_order['"]\s*+:\s*+(?P<fortran{0}>True|False)"""
    r"""|['"]shape['"]\s*+:\s*+\((?P<shape{0}>[\d,\s]*+)\))\s*+"""
)
_HEADING: Final = re.compile(rf"\{{{_ENTRY.format(0)},{_ENTRY.format(1)},{_ENTRY.format(2)},?+\s*+\}}\s*+")
_SHAPE: Final = re.compile(r"\s*+(?:\d{1,18}\s*+(?:,\s*+\d{1,18}\s*+)*+,?+\s*+)?+")
_NUMBER: Final = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")


class NotAnArray(ValueError):
    """What is wrong with a file that should hold an array, in words for people."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What an array claims to be; `start` is where its data begin, in bytes."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool
    start: int

    @property
    def data_bytes(self) -> int:
        """Return how many bytes of data it claims."""
        return math.prod(self.shape) * self.kind.itemsize


def read_heading(stream: IO[bytes]) -> Heading:
    """Read the heading of an array, and nothing behind it. Raises `NotAnArray`."""
    start = _exactly(stream, len(MAGIC) + 2)
    if not start.startswith(MAGIC):
        raise NotAnArray("it does not begin as an array of NumPy does")
    version = (start[-2], start[-1])
    if version not in LENGTH_BYTES:
        raise NotAnArray(f"version {version} of the format")
    length = int.from_bytes(_exactly(stream, LENGTH_BYTES[version]), "little")
    if length > HEADING_BYTES_MAX:
        raise NotAnArray(f"its heading has {length} bytes, and {HEADING_BYTES_MAX} are allowed")
    text = _exactly(stream, length).decode("latin-1")
    return _claimed(text, len(start) + LENGTH_BYTES[version] + length)


def read_numbers(file: Path, *shapes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the numbers of a plain file that has one of `shapes` and nothing besides. Raises `NotAnArray`.

    No more is read, and no more memory taken, than an array of that shape needs.
    """
    try:
        stream = read_beneath(file.parent, RunPath(file.name))
    except OSError as error:
        raise NotAnArray(f"there is no file that can be read ({error.strerror})") from error
    with stream:
        heading = read_heading(stream)
        if not _NUMBER.fullmatch(heading.kind.str):
            raise NotAnArray(f"it holds no numbers but {heading.kind}")
        if heading.shape not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise NotAnArray(f"it has the shape {_shown(str(heading.shape))}; {wanted} is wanted")
        size = os.fstat(stream.fileno()).st_size
        if size != heading.start + heading.data_bytes:
            claimed = heading.start + heading.data_bytes
            raise NotAnArray(f"it has {size} bytes where its heading claims {claimed}")
        data = _exactly(stream, heading.data_bytes)
    flat = np.frombuffer(data, heading.kind).astype(np.float64)
    return flat.reshape(heading.shape, order="F" if heading.by_columns else "C")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise NotAnArray("it ends too early")
    return data


def _claimed(text: str, start: int) -> Heading:
    match = _HEADING.fullmatch(text)
    if match is None:
        raise NotAnArray(f"its heading is strange: {_shown(text)}")
    found: dict[str, str] = {}
    for name, value in match.groupdict().items():
        if value is not None:
            found[name[:-1]] = value
    if len(found) != 3:
        raise NotAnArray(f"its heading names something twice: {_shown(text)}")
    if not _SHAPE.fullmatch(found["shape"]):
        raise NotAnArray(f"its heading is strange: {_shown(text)}")
    shape = tuple(map(int, re.findall(r"\d+", found["shape"])))
    if len(shape) > DIMENSIONS_MAX:
        raise NotAnArray(f"it has {len(shape)} dimensions")
    try:
        kind = np.dtype(found["descr"])
    except (TypeError, ValueError, OverflowError) as error:
        raise NotAnArray(f"its values are of no known kind: {_shown(found['descr'])}") from error
    return Heading(kind, shape, found["fortran"] == "True", start)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
