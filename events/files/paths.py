"""Types of untrusted names and paths: a value of them may be joined to a folder, pure.

Law: a name in a checkpoint, an artifact, an event, an archive or a program is text until it went through
one of these types. Code that makes a file name of it takes the type as its argument. The output is plain
text (`str(path)`), the only text that msgspec's encoders know.
"""

from __future__ import annotations

import re
from typing import Final, Self

from events.runtime.errors import Rejected

NAME_CHARS_MAX: Final = 64
PATH_BYTES_MAX: Final = 1_024  # what object storages take as a key
PART_BYTES_MAX: Final = 255  # what file systems take
SHOWN_CHARS_MAX: Final = 80
BAD_PATH: Final = "bad_path"

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_CHARS_MAX - 1}}}")


class BadPath(Rejected, ValueError):
    """A text is no name, or no path; a `ValueError`, so that decoders name its place."""

    def __init__(self, text: object, why: str) -> None:
        shown = repr(text if not isinstance(text, str) else text[:SHOWN_CHARS_MAX])
        super().__init__(BAD_PATH, f"{shown} {why}")


class SafeName(str):
    """One part of a path: 1 to 64 of A-Z, a-z, 0-9, `_`, `.` and `-`, the first a letter or a digit."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises `BadPath`."""
        if not _NAME.fullmatch(text):
            allowed = f"1 to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, _ . and -, the first a letter or a digit"
            raise BadPath(text, f"is no name: it takes {allowed}")
        return super().__new__(cls, text)


class RunPath(str):
    """A relative path with `/` between its parts, which cannot lead out of the folder it is joined to.

    No part is empty, `.` or `..`; nothing in it steers a terminal, and no `\\` stands for a separator.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises `BadPath`."""
        if (why := _wrong_with(text)) is not None:
            raise BadPath(text, why)
        return super().__new__(cls, text)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names between the separators, at least one."""
        return tuple(self.split("/"))

    def is_below(self, folder: str) -> bool:
        """Return whether it lies below `folder`, which ends with a separator."""
        assert folder.endswith("/")
        return self.startswith(folder)


def _wrong_with(text: str) -> str | None:
    """Return why `text` is no path, None where it is one."""
    if not text.isprintable() or "\\" in text:
        return "is no path: it takes printable characters, and no \\"
    if not 1 <= len(text.encode()) <= PATH_BYTES_MAX:
        return f"is no path: it takes 1 to {PATH_BYTES_MAX} bytes"
    for part in text.split("/"):
        if part in ("", ".", ".."):
            return "is no relative path: between two / there is a name, and no . or .."
        if len(part.encode()) > PART_BYTES_MAX:
            return f"is no path: a name between two / takes at most {PART_BYTES_MAX} bytes"
    return None


def from_text(kind: type, value: object) -> object:
    """Return `value` as one of these types: the hook of msgspec's decoders, whose other one is `str`.

    Raises `BadPath`, or `TypeError` for other types.
    """
    if kind not in (SafeName, RunPath):
        raise TypeError(f"{kind.__name__} is not read from text")
    if not isinstance(value, str):
        raise BadPath(value, "is no text")
    return kind(value)
