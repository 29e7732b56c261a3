"""The child's side of live text: gathers what a pipeline shows into pieces, and sends them soon.

Law: it never holds a pipeline up. A piece that the pipe has no room for is dropped; its characters count all
the same, so that a reader sees the gap.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from events.answers.worker.live_text import LAP_MAX, NAME_CHARS_MAX, OFFSET_MAX, VALUE_MAX, VALUES_MAX
from events.delivery.pipe import SHOWN_CHARS_MAX, Shown
from events.runtime.clock import Clock

FLUSH_CHARS: Final = 64
FLUSH_S: Final = 0.1
FLUSH_CHARS_SETTING: Final = "PODFLEET_STREAM_FLUSH_CHARS"
FLUSH_S_SETTING: Final = "PODFLEET_STREAM_FLUSH_SECONDS"
FLUSH_CHARS_MAX: Final = SHOWN_CHARS_MAX
FLUSH_S_MIN: Final = 0.01  # each flush wakes four programs
FLUSH_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class FlushRule:
    """When what was gathered goes out: at so many characters, or so long after the last piece."""

    chars: int = FLUSH_CHARS
    seconds: float = FLUSH_S


def flush_rule(environ: Mapping[str, str]) -> FlushRule:
    """Return the rule that the settings name, else the default. Raises `ValueError` that says what to set."""
    chars, seconds = environ.get(FLUSH_CHARS_SETTING), environ.get(FLUSH_S_SETTING)
    rule = FlushRule()
    if chars and not (chars.isascii() and chars.isdigit() and 1 <= int(chars[:9]) <= FLUSH_CHARS_MAX):
        allowed = f"a whole number from 1 to {FLUSH_CHARS_MAX}"
        raise ValueError(f"{FLUSH_CHARS_SETTING} is {chars[:40]!r}; it has to be {allowed}")
    if seconds and not FLUSH_S_MIN <= _number(seconds) <= FLUSH_S_MAX:
        allowed = f"a number of seconds from {FLUSH_S_MIN:g} to {FLUSH_S_MAX:g}"
        raise ValueError(f"{FLUSH_S_SETTING} is {seconds[:40]!r}; it has to be {allowed}")
    return FlushRule(int(chars) if chars else rule.chars, float(seconds) if seconds else rule.seconds)


@dataclass(slots=True)
class ChildLiveView:
    """Gathers what is shown, from any thread; a thread of its own sends what would else wait for more.

    `send` returns at once, and drops what there is no room for. `guard` keeps a signal out of a piece.
    """

    send: Callable[[Shown], object]
    clock: Clock
    rule: FlushRule = field(default_factory=FlushRule)
    guard: AbstractContextManager[object] = field(default_factory=nullcontext)
    _lap: int = 1
    _offsets: dict[int, int] = field(default_factory=dict)
    _text: str = ""
    _values: dict[str, float] = field(default_factory=dict)
    _sent_s: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _late: threading.Event = field(default_factory=threading.Event)
    _has_timer: bool = False
    _is_off: bool = False

    def __post_init__(self) -> None:
        os.register_at_fork(after_in_child=self._disown)

    def show(self, text: str, lap: int, values: Mapping[str, float]) -> None:
        """Add text to a lap, and set numbers; what can be shown nowhere is left out."""
        if self._is_off or not isinstance(lap, int) or not 1 <= lap <= LAP_MAX:
            return
        with self.guard, self._lock:
            if lap != self._lap:
                self._flush()
                self._lap = lap
            self._text += str(text).encode("utf-8", "replace").decode()  # half a character is none
            self._note(values)
            is_due = len(self._text) >= self.rule.chars or "\n" in self._text
            if is_due or self.clock.monotonic_s() - self._sent_s >= self.rule.seconds:
                self._flush()
            elif self._text or self._values:
                self._wake_timer()

    def flush(self) -> None:
        """Send what was gathered."""
        with self.guard, self._lock:
            self._flush()

    def _note(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if len(self._values) >= VALUES_MAX and name not in self._values:
                return
            number = _number(value)
            is_name = name.isascii() and name.isidentifier() and name[0].islower() and name == name.lower()
            if is_name and len(name) <= NAME_CHARS_MAX and abs(number) <= VALUE_MAX:
                self._values[name] = number

    def _flush(self) -> None:
        text, values = self._text, self._values
        self._text, self._values = "", {}
        offset = self._offsets.get(self._lap, 0)
        while (text or values) and offset <= OFFSET_MAX:
            piece, text = text[:SHOWN_CHARS_MAX], text[SHOWN_CHARS_MAX:]
            self.send(Shown(lap=self._lap, offset=offset, text=piece, values={} if text else values))
            offset += len(piece)
            values = values if text else {}
            self._sent_s = self.clock.monotonic_s()
        self._offsets[self._lap] = offset

    def _wake_timer(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            threading.Thread(target=self._send_late, name="live-view", daemon=True).start()
        self._late.set()

    def _send_late(self) -> None:
        never = threading.Event()
        while True:
            self._late.wait()
            self._late.clear()
            while (left_s := self._sent_s + self.rule.seconds - self.clock.monotonic_s()) > 0:
                self.clock.wait(never, left_s)
            with self._lock:
                self._flush()

    def _disown(self) -> None:
        """Show nothing from a forked process, which shares the pipe and no lock."""
        self._is_off = True


def _number(value: object) -> float:
    """Return a number, one that is none for anything else."""
    try:
        return float(value)  # type: ignore[arg-type] # what is no number raises
    except (TypeError, ValueError, OverflowError):
        return math.nan
