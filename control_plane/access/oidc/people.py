"""Who somebody is by the claims of an ID token, and what they may do, pure.

A person is the issuer and its `sub`, which is never given to another; the e-mail address is for people to
read. Who has no role may do nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from control_plane.access.keys import SCOPES, USER, Kind, Scope

ID_CHARS: Final = 20
EVERYBODY: Final = "*"
VALUES_MAX: Final = 1_000  # of one claim, as groups
ROLES: Final[tuple[Kind, ...]] = ("viewer", "operator", "admin")  # in the order of what they may do
READABLE: Final = re.compile(r"[A-Za-z0-9._%+@-]{1,60}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Person:
    """A person: the id, the name in records, and what of their claims the settings have named."""

    id: str
    name: str
    held: tuple[str, ...]


def person_of(issuer: str, claims: Mapping[str, Any], roles: Sequence[tuple[str, str]]) -> Person:
    """Return whose ID token has these claims, which were verified."""
    sub = claims["sub"]
    is_verified = claims.get("email_verified") is True
    email = claims.get("email") if is_verified else None
    shown = next((each for each in (email, sub) if isinstance(each, str) and READABLE.fullmatch(each)), "")
    person_id = hashlib.sha256(msgspec.json.encode([issuer, sub])).hexdigest()[:ID_CHARS]
    held = tuple(who for who in dict.fromkeys(who for who, _ in roles) if _holds(claims, who, is_verified))
    return Person(person_id, f"{USER}{shown}:{person_id}", held)


def scopes_of(held: Collection[str], roles: Sequence[tuple[str, str]]) -> frozenset[Scope]:
    """Return what may be done by the roles of today; nothing without one."""
    given = {role for who, role in roles if who in held}
    best = next((each for each in reversed(ROLES) if each in given), None)
    return frozenset() if best is None else SCOPES[best]


def _holds(claims: Mapping[str, Any], who: str, is_verified: bool) -> bool:
    if who == EVERYBODY:
        return True
    claim, _, wanted = who.partition(":")
    found = claims.get(claim)
    if claim == "email":
        return is_verified and isinstance(found, str) and found.lower() == wanted.lower()
    values = found[:VALUES_MAX] if isinstance(found, list) else [found]
    return any(isinstance(each, str) and each == wanted for each in values)
