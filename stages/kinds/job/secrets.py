"""Hides the values of a run's secrets in what its program prints, piece by piece, bytes as they come; pure.

Law: a secret is hidden wherever pieces are cut; what is no secret stays as it is, also where it is no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from events.text.mask import MASK, SECRET_MIN_CHARS

STARS: Final = MASK.encode()


@dataclass(slots=True)
class Secrets:
    """The values that are hidden, and the end of the last piece that may begin one."""

    values: Iterable[str]
    _forms: tuple[bytes, ...] = ()
    _known: re.Pattern[bytes] | None = None
    _held: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        lines = {part for each in self.values for part in (each, *each.splitlines())}
        lines |= {json.dumps(each)[1:-1] for each in lines}  # as `podfleet.run` says it
        forms = (each.encode(errors="replace") for each in lines if len(each) >= SECRET_MIN_CHARS)
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._known = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None

    def masked(self, piece: bytes) -> bytes:
        """Return what may be written by now: it does not yet have the end that may begin a secret."""
        if self._known is None:
            return piece
        data = self._known.sub(STARS, self._held + piece)
        cut = len(data) - self._begun(data)
        self._held = data[cut:]
        return data[:cut]

    def replaced(self, line: bytes) -> bytes:
        """Return a whole line of JSON or text without them: nothing is held back."""
        return line if self._known is None else self._known.sub(STARS, line)

    def are_in(self, text: str) -> bool:
        """Say whether a text, such as the name of a file, has one."""
        return self._known is not None and self._known.search(text.encode(errors="replace")) is not None

    def rest(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        return max((_overlap(data, form) for form in self._forms), default=0)


def _overlap(data: bytes, form: bytes) -> int:
    most = min(len(form) - 1, len(data))
    return next((size for size in range(most, 0, -1) if data.endswith(form[:size])), 0)
