"""The root of a record: one digest, another one where any line of it is changed, left out or added."""

from __future__ import annotations

import hashlib
from typing import Final

NOTHING: Final = ""  # the root of a record without lines


def chained(root: str, digest: str) -> str:
    """Return the root of a record that goes on with a line of this digest, both in hexadecimal."""
    return hashlib.sha256(f"{root}{digest}".encode()).hexdigest()
