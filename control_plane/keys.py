"""Keys: their form, what each kind may do, and when one opens, pure.

A key is `pf_<kind>_<random>_<checksum>`: 43 letters of base 62 (256 bits) and the CRC-32 of all before it, in
six. The checksum lets a scanner know a leaked key, and refuses a misspelt one without a look at the store.
The first ten letters of the random part are the key's id, which is no secret; the whole is kept as its
SHA-256 only: what has 256 random bits needs no slow hash.
"""

from __future__ import annotations

import base64
import hashlib
import string
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from events.errors import Rejected

Scope = Literal["ingest", "claim", "submit", "read", "review", "admin"]
Kind = Literal["viewer", "operator", "admin", "pod"]

ALL: Final[frozenset[Scope]] = frozenset(get_args(Scope))
# What a key of each kind may do at most; one may be made that may do less.
SCOPES: Final[Mapping[Kind, frozenset[Scope]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "submit", "review"}),
    "admin": ALL,
    "pod": frozenset({"ingest", "claim"}),
}

LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARS: Final = 43
CHECKSUM_CHARS: Final = 6
ID_CHARS: Final = 10
NAME_CHARS_MAX: Final = 100
LIFE_MAX: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it is stored; `scopes` are all that it may do."""

    id: str
    kind: str
    name: str
    hash: str
    scopes: frozenset[Scope]
    created_at: datetime
    ends_at: datetime | None
    revoked_at: datetime | None

    def is_open(self, now: datetime) -> bool:
        """Say whether it opens anything at `now`."""
        return self.revoked_at is None and (self.ends_at is None or now < self.ends_at)


def written(kind: Kind, token: str) -> str:
    """Return the text of a key made of 256 random bits in URL-safe base 64."""
    bits = int.from_bytes(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    body = f"pf_{kind}_{_base62(bits, RANDOM_CHARS)}"
    return f"{body}_{_checksum(body)}"


def id_of(text: str) -> str | None:
    """Return the id in a key; None where the text is none, or was not copied whole."""
    body, _, checksum = text.rpartition("_")
    prefix, _, random = body.rpartition("_")
    kind = prefix.removeprefix("pf_")
    if kind not in SCOPES or prefix == kind or len(random) != RANDOM_CHARS or not set(random) <= set(LETTERS):
        return None
    return random[:ID_CHARS] if checksum == _checksum(body) else None


def digest(text: str) -> str:
    """Return the form in which a key is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def granted(kind: Kind, wanted: Collection[Scope] | None) -> frozenset[Scope]:
    """Return what a new key may do. Raises `Rejected` where its kind may not do that."""
    may = SCOPES[kind]
    scopes = may if wanted is None else frozenset(wanted)
    if not scopes:
        raise Rejected("no_scope", "a key needs a scope; leave `scopes` out for all that its kind may do")
    if foreign := scopes - may:
        raise Rejected(
            "foreign_scope",
            f"a key of kind {kind} may do {', '.join(sorted(may))}; not {', '.join(sorted(foreign))}",
        )
    return scopes


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), CHECKSUM_CHARS)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, rest = divmod(number, len(LETTERS))
        digits.append(LETTERS[rest])
    return "".join(reversed(digits))
