"""Signs exports: Ed25519, with a key of the fleet that follows from its key for secrets.

Law: nothing of it is stored. Every replica has the same keys, for as long as its settings have the key for
secrets that they follow from; of several the first signs. HKDF-SHA256 (RFC 5869) divides the two uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from control_plane.access.secrets.encryption import NO_KEY
from events.files.export_zip import Key, key_id
from events.runtime.errors import Conflict

LABEL: Final = b"podfleet export signing 1\0"


@dataclass(frozen=True, slots=True)
class ExportSigner:
    """The keys by which a fleet signs its exports; the first signs."""

    keys: Sequence[Ed25519PrivateKey] = field(repr=False)

    @classmethod
    def of(cls, fleet: str, secrets_keys: Sequence[bytes]) -> Self:
        """Return the signer of a fleet with these keys for secrets."""
        return cls([_derived(fleet, each) for each in secrets_keys])

    @property
    def public(self) -> list[Key]:
        """The public keys, that of the signing one first."""
        raw = [each.public_key().public_bytes_raw() for each in self.keys]
        return [Key(key_id(each), each.hex()) for each in raw]

    def require(self) -> Key:
        """Return the public key of what signs. Raises `Conflict` where there is none."""
        if not self.keys:
            raise Conflict("no_secrets_key", NO_KEY)
        return self.public[0]

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes. Raises `Conflict` without a key."""
        self.require()
        return self.keys[0].sign(content)


def _derived(fleet: str, secrets_key: bytes) -> Ed25519PrivateKey:
    seed = HKDF(SHA256(), 32, salt=None, info=LABEL + fleet.encode()).derive(secrets_key)
    return Ed25519PrivateKey.from_private_bytes(seed)
