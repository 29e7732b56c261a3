"""Names that the machine says, as a report can carry them, pure."""

from __future__ import annotations

from typing import Final

NAME_CHARS_MAX: Final = 200


def name_of(said: str) -> str:
    """Return a name in one line, short, without what no store takes."""
    text = said.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return " ".join(text.split())[:NAME_CHARS_MAX]
