"""Encrypts the values of secrets: authenticated, and bound to the secret's name and its fleet.

AES-256-GCM. The name and the fleet are associated data: what is copied to another name, or to the database of
another fleet, cannot be decrypted. A fleet is the name of its database, which its settings name and its
content cannot change. The first key encrypts, and every key decrypts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from events.runtime.errors import Conflict

FORM: Final = "podfleet secret 1"
NONCE_BYTES: Final = 12
ID_CHARS: Final = 12
NO_KEY: Final = (
    "this control plane has no key for secrets: set PODFLEET_SECRETS_KEY, or PODFLEET_SECRETS_KEY_FILE, to "
    "what `openssl rand -base64 32` prints, the same on every replica"
)


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted value, and the id of the key that decrypts it."""

    key_id: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cipher:
    """Encrypts and decrypts the values of one fleet."""

    fleet: str
    first: str | None
    ciphers: Mapping[str, AESGCM] = field(repr=False)

    @classmethod
    def of(cls, fleet: str, keys: Sequence[bytes]) -> Self:
        """Return the cipher of a fleet with these keys, of which the first encrypts."""
        named = {key_id(each): AESGCM(each) for each in keys}
        return cls(fleet, next(iter(named), None), named)

    @property
    def current(self) -> str:
        """The id of the key that encrypts. Raises `Conflict` where there is none."""
        if self.first is None:
            raise Conflict("no_secrets_key", NO_KEY)
        return self.first

    def seal(self, name: str, value: str) -> Sealed:
        """Encrypt a value. Raises `Conflict` without a key."""
        current, nonce = self.current, os.urandom(NONCE_BYTES)
        data = self.ciphers[current].encrypt(nonce, value.encode(), self._bound(name))
        return Sealed(current, nonce + data)

    def has(self, sealed: Sealed) -> bool:
        """Say whether the key of an encrypted value is here."""
        return sealed.key_id in self.ciphers

    def open(self, name: str, sealed: Sealed) -> str | None:
        """Decrypt a value whose key is here; None where it was changed or moved."""
        nonce, data = sealed.data[:NONCE_BYTES], sealed.data[NONCE_BYTES:]
        try:
            return self.ciphers[sealed.key_id].decrypt(nonce, data, self._bound(name)).decode()
        except (InvalidTag, ValueError):
            return None

    def _bound(self, name: str) -> bytes:
        return msgspec.json.encode([FORM, self.fleet, name])


def key_id(key: bytes) -> str:
    """Return the id of a key, which tells nothing of it."""
    return hashlib.sha256(b"podfleet secrets key\0" + key).hexdigest()[:ID_CHARS]
