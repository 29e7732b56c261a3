"""Passes the new lines of a program's log on while it runs: the last ones, now and then, so many in all.

Law: it costs a look a second, says no secret, and a log that is gone or replaced fails nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from events.runtime.clock import Clock
from events.text.mask import Mask

EVERY_S: Final = 1.0
LINES_AT_ONCE: Final = 20
LINES_MAX: Final = 200
LINE_CHARS: Final = 300
LOOK_BYTES: Final = 64 << 10


@dataclass(slots=True, kw_only=True)
class Following:
    """The log of one program, and how far it was passed on."""

    name: str
    say: Callable[[str], None] = field(repr=False)
    mask: Mask
    clock: Clock
    place: int = 0
    lines_left: int = LINES_MAX
    _next_s: float = 0.0

    def look(self, log: BinaryIO, *, is_last: bool = False) -> None:
        """Say what was written since the last look, of a file that is open to read."""
        now_s = self.clock.monotonic_s()
        if self.lines_left <= 0 or (now_s < self._next_s and not is_last):
            return
        self._next_s = now_s + EVERY_S
        with suppress(OSError, ValueError):
            self._say(self._new(log))

    def _new(self, log: BinaryIO) -> list[str]:
        """Return the whole lines that are new, of the last bytes where there are many."""
        size = os.fstat(log.fileno()).st_size
        at = max(self.place, size - LOOK_BYTES) if size >= self.place else size
        data = os.pread(log.fileno(), LOOK_BYTES, at)  # it leaves alone where it is written to
        whole, _, rest = data.rpartition(b"\n")
        is_cut = at > self.place
        self.place = at + len(data) - (len(rest) if len(data) < LOOK_BYTES else 0)
        lines = whole.decode(errors="replace").replace("\0", "").splitlines()
        return [each for line in lines[is_cut:] if (each := line.strip())]

    def _say(self, lines: list[str]) -> None:
        shown = lines[-min(LINES_AT_ONCE, self.lines_left) :]
        if not shown:
            return
        self.lines_left -= len(shown)
        masked = self.mask.text("\n".join(shown)).split("\n")
        said = [f"{self.name}: {line[:LINE_CHARS]}" for line in masked]
        if self.lines_left <= 0:
            said.append(f"{self.name}: what follows is in its file alone")
        self.say("\n".join(said))
