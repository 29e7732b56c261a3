"""The text of keys and tokens: `pf_<kind>_<random>_<checksum>`, pure.

The checksum is the CRC-32 of all before it in six letters of base 62. A scanner recognises a leaked key by
it, and a misspelt key is refused without a read of the store.
"""

from __future__ import annotations

import base64
import hashlib
import string
import zlib
from typing import Final, NamedTuple

LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
SECRET_CHARS: Final = 43  # 256 bits
CHECKSUM_CHARS: Final = 6
ATTEMPT_CHARS: Final = 4
RUN: Final = "run"


class RunToken(NamedTuple):
    """The content of a run token: the run, the attempt, and the token of the claim."""

    run_id: str
    attempt: int
    token: str


def digest(text: str) -> str:
    """Return the form in which a key or a token is stored: 256 random bits need no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def letters(token: str) -> str:
    """Return 256 random bits in URL-safe base 64 as letters and digits alone."""
    return _base62(int.from_bytes(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))), SECRET_CHARS)


def written(kind: str, random: str) -> str:
    """Return the text of a key of this kind."""
    body = f"pf_{kind}_{random}"
    return f"{body}_{_checksum(body)}"


def read(text: str) -> tuple[str, str] | None:
    """Return kind and random part of a key's text; None where it is none, or was not copied whole."""
    body, _, checksum = text.rpartition("_")
    prefix, _, random = body.rpartition("_")
    kind = prefix.removeprefix("pf_")
    if (
        not text.isascii()
        or prefix == kind
        or not random
        or not set(random) <= set(LETTERS)
        or checksum != _checksum(body)
    ):
        return None
    return kind, random


def run_token(run_id: str, attempt: int, token: str) -> str:
    """Return the text that proves who holds an attempt; it names the attempt, so that no search is needed."""
    return written(RUN, f"{run_id}{_base62(attempt, ATTEMPT_CHARS)}{token}")


def read_run_token(text: str) -> RunToken | None:
    """Return the content of a run token; None where the text is none."""
    found = read(text)
    if found is None or found[0] != RUN or len(found[1]) <= ATTEMPT_CHARS + SECRET_CHARS:
        return None
    named, token = found[1][:-SECRET_CHARS], found[1][-SECRET_CHARS:]
    return RunToken(named[:-ATTEMPT_CHARS], _number(named[-ATTEMPT_CHARS:]), token)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), CHECKSUM_CHARS)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, rest = divmod(number, len(LETTERS))
        digits.append(LETTERS[rest])
    return "".join(reversed(digits))


def _number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * len(LETTERS) + LETTERS.index(digit)
    return number
