"""Cursors: a position in a list as opaque text that only its own list accepts, pure."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from control_plane.model.presentation import plain
from events.runtime.errors import Rejected

LIMIT_MAX: Final = 200
LIMIT_DEFAULT: Final = 50
CURSOR_CHARS_MAX: Final = 2_000
STORED_INTEGERS: Final = range(-(2**63), 2**63)


def encode(name: str, *key: str | int) -> str:
    """Return the cursor that stands behind `key` in the list `name`."""
    text = msgspec.json.encode([name, *map(plain, key)])
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def decode(name: str, cursor: str, *types: type) -> list[str | int]:
    """Return the key in a cursor of the list `name`. Raises `Rejected` (code `bad_cursor`)."""
    try:
        if len(cursor) > CURSOR_CHARS_MAX:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True)
        found, *key = msgspec.json.decode(text, type=list[str | int])
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise _bad(name) from None
    if found != name or [type(part) for part in key] != list(types):
        raise _bad(name)
    if any(isinstance(part, int) and part not in STORED_INTEGERS for part in key):
        raise _bad(name)
    return key


def limited(limit: int) -> int:
    """Return a valid `limit` as it is. Raises `Rejected` (code `bad_limit`)."""
    if not 1 <= limit <= LIMIT_MAX:
        raise Rejected("bad_limit", f"`limit` is a number from 1 to {LIMIT_MAX}, not {limit}")
    return limit


def _bad(name: str) -> Rejected:
    return Rejected(
        "bad_cursor", f"`after` is not a cursor of this list ({name}); take it from `next`, or leave it out"
    )
