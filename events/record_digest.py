"""The root of a record: a digest that differs if any line is changed, left out or added. Pure.

An attempt's own root, which its worker sends with the settle, is over the lines as they were recorded. The
log may have a notice in the place of a refused line; the notice has the digest of the line that it replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from events.catalog import EventRefused, type_of

NOTHING: Final = ""  # the root of a record without lines
REFUSED: Final = type_of(EventRefused)


def chained(root: str, digest: str) -> str:
    """Return the root of a record after a line of this digest is added, both in hexadecimal."""
    return hashlib.sha256(f"{root}{digest}".encode()).hexdigest()


def said_digest(event_type: str, data: Mapping[str, Any], digest: str) -> str:
    """Return the digest of a line of the log that its worker's root includes."""
    replaced = data.get("digest") if event_type == REFUSED else None
    return replaced if isinstance(replaced, str) else digest


class Roots(NamedTuple):
    """The root of the lines in the log, and that of the same lines as their worker recorded them."""

    stored: str = NOTHING
    said: str = NOTHING

    def then(self, event_type: str, data: Mapping[str, Any], digest: str) -> Roots:
        """Return the roots after one more line, of this type and digest."""
        said = chained(self.said, said_digest(event_type, data, digest))
        return Roots(chained(self.stored, digest), said)


NO_LINES: Final = Roots()
