"""The quota of dead letters: the bearer of a key may send any number of bad lines, and the disk is finite."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

LETTERS_MAX: Final = 20_000
COUNTED_EVERY: Final = 1_000  # letters of this process
LOOKED_EVERY: Final = 200  # requests, while there is no room


@dataclass(slots=True)
class DeadLetterQuota:
    """The dead letters that this process may store until its next count of all stored ones."""

    _left: int = 0
    _skipped: int = 0

    def is_to_be_counted(self, wanted: int) -> bool:
        """Say whether to count what is stored; not at every request while there is no room."""
        if self._left >= wanted:
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        return True

    def found(self, count: int) -> None:
        """Set the number of stored dead letters."""
        self._left = min(max(LETTERS_MAX - count, 0), COUNTED_EVERY)
        if not self._left:
            self._skipped = LOOKED_EVERY
            log.warning("letters.full", extra={"kept": count})

    def take(self, wanted: int) -> int:
        """Return how many of these may be kept."""
        taken = min(wanted, self._left)
        self._left -= taken
        return taken
