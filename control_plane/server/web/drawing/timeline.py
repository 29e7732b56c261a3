"""The stages of a run as bars on one axis of time, pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from events.answers.attempts import Attempt, Stage
from events.formatting import seconds

LEFT: Final = 140.0  # of the picture's units, for the names of the stages
RIGHT: Final = 980.0
WIDTH: Final = 1000.0
TOP: Final = 26.0
ROW: Final = 26.0
BAR: Final = 14.0
BAR_MIN: Final = 2.0
ROWS_MAX: Final = 60
TICKS_MAX: Final = 8
STEPS_S: Final = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800,
    604_800,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """One stage of one attempt."""

    x: float
    y: float
    width: float
    status: str
    title: str


@dataclass(frozen=True, slots=True)
class Band:
    """An attempt, or the gap after it, over the whole height."""

    x: float
    width: float
    label: str
    is_gap: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """A picture with its own units: `width` by `height`."""

    rows: Sequence[tuple[str, float]]
    bars: Sequence[Bar]
    bands: Sequence[Band]
    ticks: Sequence[tuple[float, str]]
    height: float
    width: float = WIDTH
    left: float = LEFT
    bar: float = BAR


def timeline(stages: Sequence[Stage], attempts: Sequence[Attempt], now: datetime) -> Timeline | None:
    """Return the picture of a run; None if no stage has begun."""
    begun = [each for each in stages if each.started_at]
    if not begun:
        return None
    names = list(dict.fromkeys(each.name for each in sorted(begun, key=_place)))[:ROWS_MAX]
    spans = {each.id: (_at(each.started_at), _end(each, attempts, now)) for each in begun}
    claimed = [_at(each.claimed_at) for each in attempts if each.claimed_at]
    first = min([start for start, _ in spans.values()] + claimed)
    last = max(end for _, end in spans.values())
    whole_s = max(1.0, (last - first).total_seconds())

    def x(moment: datetime) -> float:
        share = (moment - first).total_seconds() / whole_s
        return round(LEFT + min(1.0, max(0.0, share)) * (RIGHT - LEFT), 1)

    bars = []
    for each in begun:
        if each.name not in names:
            continue
        start, end = spans[each.id]
        took = seconds((end - start).total_seconds())
        bars.append(
            Bar(
                x(start),
                TOP + ROW * names.index(each.name) + (ROW - BAR) / 2,
                max(BAR_MIN, round(x(end) - x(start), 1)),
                each.status,
                f"{each.name}, attempt {each.attempt}: {each.status}, {took}",
            )
        )
    ticks = list(_ticks(whole_s))
    rows = [(name, TOP + ROW * number + ROW / 2) for number, name in enumerate(names)]
    bands = list(_bands(attempts, x, last))
    return Timeline(rows, bars, bands, ticks, TOP + ROW * len(names) + 6)


def _bands(attempts: Sequence[Attempt], x: Callable[[datetime], float], last: datetime) -> Iterator[Band]:
    """Yield the attempts if there are several, and the gaps between them."""
    spans = [
        (_at(each.claimed_at), _at(each.ended_at) if each.ended_at else last, each.attempt)
        for each in attempts
        if each.claimed_at
    ]
    if len(spans) < 2:
        return
    for start, end, number in spans:
        yield Band(x(start), max(BAR_MIN, x(end) - x(start)), f"attempt {number}", is_gap=False)
    for (_, end, _), (start, _, _) in pairwise(spans):
        if start > end:
            waited = seconds((start - end).total_seconds())
            yield Band(x(end), x(start) - x(end), f"nobody worked on it for {waited}", is_gap=True)


def _ticks(whole_s: float) -> Iterator[tuple[float, str]]:
    step = next((each for each in STEPS_S if whole_s / each <= TICKS_MAX), whole_s / TICKS_MAX)
    for number in range(int(whole_s / step) + 1):
        at_s = number * step
        yield round(LEFT + at_s / whole_s * (RIGHT - LEFT), 1), _short(at_s)


def _short(value_s: float) -> str:
    if value_s < 60 or value_s % 60:
        minutes, rest = divmod(value_s, 60)
        return f"{minutes:.0f}:{rest:02.0f}" if minutes else f"{rest:.0f} s"
    if value_s < 3600:
        return f"{value_s / 60:.0f} min"
    if value_s < 86_400:
        hours, rest = divmod(value_s, 3600)
        return f"{hours:.0f} h {rest / 60:.0f}" if rest else f"{hours:.0f} h"
    return f"{value_s / 86_400:.3g} d"


def _place(stage: Stage) -> tuple[int, str]:
    return stage.index or 0, stage.started_at or ""


def _end(stage: Stage, attempts: Sequence[Attempt], now: datetime) -> datetime:
    """Return when a stage ended: by its own event, else with its attempt; now if it still runs."""
    if stage.completed_at:
        return _at(stage.completed_at)
    for each in attempts:
        if each.attempt == stage.attempt and each.ended_at:
            return max(_at(each.ended_at), _at(stage.started_at))
    return max(now, _at(stage.started_at))


def _at(text: str | None) -> datetime:
    assert text is not None, "it has begun"
    return datetime.fromisoformat(text)
