"""The token of a claim that may be in flight, on disk before the call that uses it.

A claim whose answer was lost is found again by this token, even by the next process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from events.runtime.errors import Transient


@dataclass(frozen=True, slots=True)
class Intent:
    """A file that exists while the result of a claim is unknown."""

    path: Path

    def open(self, token: str) -> None:
        """Write the token to the disk, durably. Raises `Transient` if the disk refuses it."""
        try:
            self._write(token)
        except OSError as error:
            message = f"{self.path} cannot be written: {error.strerror}"
            raise Transient("DISK_FULL", message) from error

    def _write(self, token: str) -> None:
        temporary = self.path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, token.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(self.path)

    def token(self) -> str | None:
        """Return the token of a claim whose result is unknown."""
        return self.path.read_text() if self.path.exists() else None

    def close(self) -> None:
        """Remove the file: the claim is in the outbox, or was not made."""
        self.path.unlink(missing_ok=True)
