"""What a computation says while it runs: a first line, lines of progress, and its figures at the end.

Law: each line goes to the watching page and into the lap's text, one a second and fewer with time into the
run's log. The page's numbers go on where the text has reached its bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from events.kinds.compute import MEASURED
from events.kinds.results import Column, Value
from stages.context import Context, Stage

LINES_MAX: Final = 20_000  # of a lap's text
TELL_EVERY_S: Final = 0.1  # at most, however short the interval is
LOG_EVERY_S: Final = 1.0
LOG_SHARE: Final = 0.05  # of the time since the lap began lies between two lines of the log
_STEPS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "K"))


def short(number: float) -> str:
    """Return a number in few characters: `168`, `9.6K`, `1.4M`."""
    for least, letter in _STEPS:
        if number >= least:
            return f"{number / least:.1f}{letter}"
    return f"{number:.0f}"


def progress_line(fraction: float, what: str, number: float, elapsed_s: float) -> str:
    """Return a line of progress; only what is done is 100 %."""
    percent = int(100 * min(1.0, max(0.0, fraction)))
    return f"Progress: {percent}% | {what}: {short(number)} | elapsed: {elapsed_s:.1f}s"


def figures(values: Mapping[str, Value]) -> list[str]:
    """Return the measured numbers, each in a line."""
    return [_figure(each, values[each.name]) for each in MEASURED if values.get(each.name) is not None]


def _figure(column: Column, value: Value) -> str:
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name}: {format(value, column.format)}{unit}"


def _numbers(values: Mapping[str, Value]) -> dict[str, float]:
    found = {each.name: values.get(each.name) for each in MEASURED}
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


@dataclass(slots=True)
class LapReporter:
    """Reports the laps of one run."""

    context: Context
    stage: Stage
    title: str
    interval_s: float
    laps: int
    lap: int = field(default=0, init=False)
    _text: list[str] = field(default_factory=list, init=False)
    _begun_s: float = field(default=0.0, init=False)
    _told_s: float = field(default=0.0, init=False)
    _logged_s: float = field(default=0.0, init=False)

    def begin(self, lap: int) -> None:
        """Begin a lap, with its first line."""
        self.lap = lap
        self._text.clear()
        self._begun_s = self._told_s = self._logged_s = self.context.clock.monotonic_s()
        line = f"Compute: {self.title}"
        self.context.log(line)
        self._show(line, progress=0.0)

    def progress(self, fraction: float, what: str, number: float) -> None:
        """Tell how far the lap is, if the interval has passed."""
        now_s = self.context.clock.monotonic_s()
        if now_s - self._told_s < max(TELL_EVERY_S, self.interval_s):
            return
        self._told_s = now_s
        elapsed_s = now_s - self._begun_s
        line = progress_line(fraction, what, number, elapsed_s)
        self._show(line, progress=min(1.0, fraction), **{what: number})
        if now_s - self._logged_s >= max(LOG_EVERY_S, LOG_SHARE * elapsed_s):
            self._logged_s = now_s
            self.context.log(line)
            self.stage.progress((self.lap - 1 + min(1.0, fraction)) / self.laps, line)

    def end(self, values: Mapping[str, Value]) -> None:
        """Tell the figures of the lap, and hand over its text."""
        for line in figures(values):
            self.context.log(line)
            self._show(line)
        self._show("", progress=1.0, **_numbers(values))
        self.stage.progress(self.lap / self.laps, f"lap {self.lap} of {self.laps}")
        path = self.context.workspace / f"text-{self.lap}.txt"
        path.write_text("".join(self._text), encoding="utf-8")
        self.context.keep(path)

    def _show(self, line: str, **values: float) -> None:
        text = f"{line}\n" if line and len(self._text) < LINES_MAX else ""
        if text:
            self._text.append(text)
        self.context.show(text, self.lap, **values)
