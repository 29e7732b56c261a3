"""What an actor of the campaign noted while it lived: lines of JSON in a file that only grows.

Law: moments are those of the machine's own clocks, whatever clock the actor itself goes by,
so that the lines of all actors have one order. A line is written in one call: a kill may
cut the last one off, and never mixes two.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from events.runtime.clock import Clock

Phase = Literal["invoke", "ok", "fail", "unknown", "note"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: at `at_s` (monotonic) and `wall_s`, `actor` began `what`, or learnt how it went.

    `call` joins the lines of one call. `data` is what the call said or brought.
    """

    at_s: float
    wall_s: float
    actor: str
    what: str
    phase: Phase
    call: int = 0
    run: str | None = None
    attempt: int | None = None
    data: dict[str, Any] = {}


@dataclass(slots=True)
class Journal:
    """The writer of one actor."""

    actor: str
    clock: Clock
    descriptor: int
    calls: int = 0

    @classmethod
    def open(cls, path: Path, actor: str, clock: Clock) -> Self:
        """Go on with the journal at `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(actor, clock, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    def note(
        self,
        what: str,
        phase: Phase = "note",
        *,
        call: int = 0,
        run: str | None = None,
        attempt: int | None = None,
        **data: Any,
    ) -> float:
        """Write a line; return its monotonic moment."""
        at_s = self.clock.monotonic_s()
        wall_s = self.clock.now().timestamp()
        line = Line(at_s, wall_s, self.actor, what, phase, call, run, attempt, data)
        os.write(self.descriptor, msgspec.json.encode(line) + b"\n")
        return at_s

    def close(self) -> None:
        """Write no more."""
        os.close(self.descriptor)

    def begin(self, what: str, *, run: str | None = None, attempt: int | None = None, **data: Any) -> int:
        """Write that a call begins; return its number."""
        with _COUNTING:
            self.calls += 1
            call = self.calls
        self.note(what, "invoke", call=call, run=run, attempt=attempt, **data)
        return call


_COUNTING = threading.Lock()


def read(path: Path) -> Iterator[Line]:
    """Yield the lines of a journal; the last one may be cut off, and is then left out."""
    for raw in path.read_bytes().split(b"\n"):
        if raw.endswith(b"}"):
            yield msgspec.json.decode(raw, type=Line)
