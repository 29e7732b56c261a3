"""Keys: their form, the scopes of each kind, and when one is valid, pure.

A key's random part is 43 letters of base 62 (256 bits). The first ten of them are the key's id, which is no
secret. The whole is stored as its SHA-256 only: 256 random bits need no slow hash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from events.runtime.errors import Rejected
from events.text import key_text

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

USER: Final = "user:"  # before the name of a user; no key may have such a name
ID_CHARS: Final = 10
NAME_CHARS_MAX: Final = 100
LIFE_MAX: Final = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it is stored; `scopes` are all that it may do, `pod` the only name that a pod has with it."""

    id: str
    kind: str
    name: str
    hash: str
    scopes: frozenset[Scope]
    created_at: datetime
    ends_at: datetime | None
    revoked_at: datetime | None
    pod: str | None = None
    projects: tuple[str, ...] = ()  # whose runs alone it submits; empty: any

    def is_open(self, now: datetime) -> bool:
        """Say whether the key is valid at `now`."""
        return self.revoked_at is None and (self.ends_at is None or now < self.ends_at)


def id_of(text: str) -> str | None:
    """Return the id in a key's text; None if the text is not a key or its checksum is wrong."""
    found = key_text.read(text)
    if found is None or found[0] not in SCOPES or len(found[1]) != key_text.SECRET_CHARS:
        return None
    return found[1][:ID_CHARS]


def bound(kind: Kind, pod: str | None) -> str | None:
    """Return the pod that a new key is for. Raises `Rejected` where its kind is for no pod."""
    if pod is None:
        return None
    if kind != "pod":
        raise Rejected(
            "foreign_pod", f"a key of kind {kind} is for no pod: leave `pod` out, or make one of kind pod"
        )
    if "/" in pod:
        raise Rejected(
            "foreign_pod", "`pod` is the name of a pod, such as pod-7, without the mark of a start"
        )
    return pod


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


def person_id_in(name: str | None) -> str | None:
    """Return the id in a user's name; None for the name of a key."""
    if name is None or not name.startswith(USER):
        return None
    return name.rpartition(":")[2]
