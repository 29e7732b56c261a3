"""The secrets of a fleet: set, listed without their values, removed, encrypted anew, handed to attempts.

Law: a value leaves this module encrypted, or to an attempt that holds a run which names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.access.secrets.encryption import Cipher, Sealed
from control_plane.access.secrets.naming import require_name, serves_kind
from control_plane.store.access.secrets import Secrets
from events.runtime.errors import Conflict, NotFound, Rejected, Transient
from events.text.secret_names import SECRETS_MAX, fault_of_name, fault_of_value

BATCH_MAX: Final = 50
PARTS_MAX: Final = 2 * SECRETS_MAX // BATCH_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSecret:
    """A secret to set. Without `kinds` or `keys` it keeps the list that it has; an empty one allows all."""

    name: str
    value: str = field(repr=False)
    by: str
    kinds: Sequence[str] | None = None
    keys: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """The values for an attempt, and the names of those that cannot be had any more."""

    values: Mapping[str, str] = field(repr=False)
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rotated:
    """How many secrets have the current key only now, and which have a key that is not here."""

    key_id: str
    count: int
    unreadable: Sequence[str]


@dataclass(frozen=True, slots=True)
class Vault:
    """Keeps the secrets of a fleet. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    store: Secrets
    cipher: Cipher

    async def set(self, wanted: WantedSecret) -> Mapping[str, Any]:
        """Set a secret, new or in place of its former value, and return it without the value."""
        name = require_name(wanted.name)
        if fault := fault_of_value(wanted.value):
            raise Rejected("bad_secret_value", fault)
        sealed = self.cipher.seal(name, wanted.value)
        if not await self.store.has_room(name, SECRETS_MAX):
            raise Conflict("too_many_secrets", f"there are {SECRETS_MAX} secrets already; remove one first")
        stored = {"sealed": sealed.data, "keyId": sealed.key_id, "setBy": wanted.by}
        lists = {"kinds": _listed(wanted.kinds), "keys": _listed(wanted.keys)}
        return await self.store.put(name, stored, lists)

    async def remove(self, name: str) -> None:
        """Remove a secret; what names it fails at its next attempt."""
        if not await self.store.delete(name):
            raise NotFound("unknown_secret", f"there is no secret {name[:100]}")

    async def rotate(self) -> Rotated:
        """Encrypt with the current key what has an older one; again it does nothing."""
        current, count = self.cipher.current, 0
        unreadable: list[str] = []
        for _ in range(PARTS_MAX):
            part = await self.store.of_other_keys(current, after=unreadable, limit=BATCH_MAX)
            for document in part:
                name, value = document["_id"], self._open(document)
                if value is None:
                    unreadable.append(name)
                    continue
                sealed = self.cipher.seal(name, value)
                count += await self.store.reseal(name, document["sealed"], sealed.data, sealed.key_id)
            if len(part) < BATCH_MAX:
                break
        return Rotated(current, count, unreadable)

    async def hand(self, names: Sequence[str], kind: str) -> Handed:
        """Return the values that a run of `kind` names. Raises `Transient` where a key is not here.

        One whose name an earlier release took, and this one does not, cannot be had.
        """
        found = {each["_id"]: each for each in await self.store.of_names(names)}
        values: dict[str, str] = {}
        for name, document in found.items():
            if not self.cipher.has(_sealed(document)):
                message = f"this control plane lacks the key {document['keyId']} of the secret {name}"
                raise Transient("no_secrets_key", message)
            value = self._open(document)
            if value is not None and serves_kind(document, kind) and fault_of_name(name) is None:
                values[name] = value
        return Handed(values, [name for name in names if name not in values])

    def _open(self, document: Mapping[str, Any]) -> str | None:
        sealed = _sealed(document)
        return self.cipher.open(document["_id"], sealed) if self.cipher.has(sealed) else None


def _sealed(document: Mapping[str, Any]) -> Sealed:
    return Sealed(document["keyId"], document["sealed"])


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else sorted(set(names))
