"""Encrypts the files of a backup: in chunks, each bound to its place, its file and its end.

Law: a chunk that was changed, moved, left out or put behind the last one is not decrypted (AES-256-GCM as in
the construction STREAM: the nonce is the number of the chunk and whether it is the last one). Each file has a
key of its own, which follows from the key of the folder, a random salt, and the file's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from events.runtime.errors import Rejected

CHUNK_BYTES: Final = 64 * 1024
TAG_BYTES: Final = 16
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
NUMBER_BYTES: Final = 11
# 128 MiB and a third of a second for each guess of a passphrase: the program's, never a file's, to say
COST: Final = 1 << 17
BLOCK: Final = 8
PASSPHRASE_CHARS_MIN: Final = 12
NOT_OURS: Final = "cannot be decrypted: the passphrase is another one, or the file was changed or cut off"


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a folder of backups."""

    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, passphrase: str, salt: bytes) -> Self:
        """Return the key that a passphrase and the salt of a folder make."""
        return cls(Scrypt(salt=salt, length=KEY_BYTES, n=COST, r=BLOCK, p=1).derive(passphrase.encode()))

    def name(self, text: str) -> str:
        """Return a name that tells nothing of the text to who lacks the key."""
        found = HMAC(self._derived(b"", "names"), SHA256())
        found.update(text.encode())
        return found.finalize().hex()

    def cipher(self, salt: bytes, name: str) -> AESGCM:
        """Return the cipher of one file."""
        return AESGCM(self._derived(salt, f"file {name}"))

    def _derived(self, salt: bytes, purpose: str) -> bytes:
        info = b"podfleet backup 1\0" + purpose.encode()
        return HKDF(SHA256(), KEY_BYTES, salt or None, info).derive(self.secret)


class Sealer:
    """Encrypts one file as it is written."""

    def __init__(self, key: Key, name: str, write: Callable[[bytes], object]) -> None:
        salt = os.urandom(SALT_BYTES)
        self._cipher, self._write = key.cipher(salt, name), write
        self._held, self._number = bytearray(), 0
        write(salt)

    def write(self, data: bytes) -> None:
        """Take more of the file."""
        self._held += data
        while len(self._held) > CHUNK_BYTES:  # never the last one: that is written by `close`
            self._seal(bytes(self._held[:CHUNK_BYTES]), is_last=False)
            del self._held[:CHUNK_BYTES]

    def close(self) -> None:
        """Write the last chunk, which says that it is."""
        self._seal(bytes(self._held), is_last=True)

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        self._write(self._cipher.encrypt(_nonce(self._number, is_last=is_last), chunk, None))
        self._number += 1


def opened(key: Key, name: str, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the pieces of an encrypted file. Raises `Rejected` at the first that is not as it was written."""
    salt = read(SALT_BYTES)
    cipher, number = key.cipher(salt, name), 0
    chunk = read(CHUNK_BYTES + TAG_BYTES)
    while True:
        following = read(CHUNK_BYTES + TAG_BYTES)
        try:
            yield cipher.decrypt(_nonce(number, is_last=not following), chunk, None)
        except (InvalidTag, ValueError) as error:
            raise Rejected("bad_backup", f"{name} {NOT_OURS}") from error
        if not following:
            return
        chunk, number = following, number + 1


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big") + bytes([is_last])
