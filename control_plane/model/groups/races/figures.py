"""What the laps of a race came to: the figures of each lane, their places, and who won; pure.

Law: who was late, died or failed never wins. A difference that its 95 % interval does not tell from zero
decides nothing, nor do single laps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any, Final

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.ranking import Difference, difference
from control_plane.model.views.boards.interval import mean_of
from events.kinds.results import COLUMN_NAME, Column, is_measured
from events.runtime.errors import Rejected

LAPS: Final = "laps"  # the result set with a row for each lap
LAP: Final = "lap"
LAPS_MAX: Final = 1_000  # of a lane that are looked at
FINISH: Final = Column("finish_s", unit="s", direction="lower", format=".3f")
METHOD: Final = "Welch's t test over the laps, 95 % interval of the difference of the means"
REPEATS_WANTED: Final = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """The numbers of a lane in one column: mean, standard deviation, how many, and the 95 % t interval."""

    mean: float
    sd: float | None
    n: int
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Contender:
    """A lane with its numbers of the measure; one that `may_win` started in time and has succeeded."""

    pod: str
    numbers: Sequence[float]
    may_win: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who is first and second, by how much the first is better, and whether that is decided."""

    says: str
    is_decided: bool = False
    winner: str | None = None
    second: str | None = None
    difference: Difference | None = None
    percent: float | None = None


def figure_of(numbers: Sequence[float]) -> Figure:
    """Return the figure of at least one number."""
    found = mean_of(numbers)
    return Figure(found.mean, _deviation(numbers), found.count, found.low, found.high)


def _deviation(numbers: Sequence[float]) -> float | None:
    if len(numbers) < 2:
        return None
    scale = max(map(abs, numbers)) or 1.0  # squares of large numbers are beyond what a number can be
    parts = [each / scale for each in numbers]
    middle = fsum(parts) / len(parts)
    return scale * sqrt(fsum((each - middle) ** 2 for each in parts) / (len(parts) - 1))


def laps_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, float]]]:
    """Return the laps in stored rows, in their order, each with its numbers; what is no lap is left out."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        key, values = row.get("key"), row.get("values")
        if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 6 and key != "0":
            numbers = values.items() if isinstance(values, Mapping) else ()
            found[int(key)] = {
                str(name): value for name, value in numbers if name != LAP and is_measured(value)
            }
    return sorted(found.items())


def numbers_of(
    laps: Sequence[tuple[int, Mapping[str, float]]], summary: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return the numbers of a lane by column: one for each lap, or those of the summary without laps."""
    found: dict[str, list[float]] = {}
    for _, values in laps or [(1, summary)]:
        for name, value in values.items():
            if is_measured(value):
                found.setdefault(name, []).append(float(value))
    return found


def measure_of(wanted: str | None, headline: Sequence[Column], measured: Collection[str] = ()) -> Goal:
    """Return the number that decides a race: the one that is wanted, or the first that has a direction.

    `wanted` is a headline number, or `min:NAME` or `max:NAME`. Without it, one that was `measured` comes
    first; without any, the first at the end wins. Raises `Rejected`.
    """
    if wanted is None:
        directed = [each for each in [*headline, FINISH] if each.direction is not None]
        first = next((each for each in directed if each.name in measured), directed[0])
        return Goal(first.name, first.direction == "lower")
    direction, colon, name = wanted.partition(":")
    known = {each.name: each for each in [*headline, FINISH] if each.type == "number"}
    column = known.get(name if colon else wanted)
    if column is None:
        raise Rejected("bad_measure", f"measure: {wanted!r} is none of {', '.join(known)}")
    if colon:
        return Goal(column.name, direction == "min")
    if column.direction is None:
        either = f"min:{column.name} or max:{column.name}"
        raise Rejected("bad_measure", f"measure: {wanted!r} has no direction of its own: say {either}")
    return Goal(column.name, column.direction == "lower")


def stored_measure(stored: object, headline: Sequence[Column], measured: Collection[str] = ()) -> Goal:
    """Return the measure in a stored plan, which a kind of today may not have."""
    if stored is None:
        return measure_of(None, headline, measured)
    direction, _, name = str(stored).partition(":")
    if direction not in ("min", "max") or not re.fullmatch(COLUMN_NAME, name):
        raise Rejected("bad_measure", f"plan.measure: {stored!r} is not min:NAME or max:NAME")
    return Goal(name, direction == "min")


def ranked(contenders: Sequence[Contender], goal: Goal) -> list[Contender]:
    """Return those who may win and have numbers, the best mean first, of equals the first lane."""
    sign = 1 if goal.is_lower_better else -1
    able = [each for each in contenders if each.may_win and each.numbers]
    return sorted(able, key=lambda each: sign * mean_of(each.numbers).mean)


def verdict(contenders: Sequence[Contender], goal: Goal, unit: str, *, is_over: bool) -> Verdict:
    """Return who won a race, and by how much."""
    places = ranked(contenders, goal)
    if not is_over:
        return Verdict("Not decided yet: the race goes on")
    if not places:
        return Verdict("Nobody won: no lane that started in time has succeeded and measured it")
    first = places[0]
    if len(places) == 1:
        return Verdict(
            f"{first.pod} alone started in time, succeeded and measured {goal.name}", winner=first.pod
        )
    second = places[1]
    better, worse = (second, first) if goal.is_lower_better else (first, second)
    found = difference(better.numbers, worse.numbers)
    base = abs(mean_of(second.numbers).mean)
    percent = 100 * found.value / base if base else None
    amount = _amount(found.value, unit, percent)
    told = Verdict("", False, first.pod, second.pod, found, percent)
    ahead = f"is ahead of {second.pod} by {amount}" if found.value else f"and {second.pod} are equal"
    why = f"Not decided: {first.pod} {ahead} in {goal.name}"
    if found.low is None or found.high is None:
        why += f", but one lap tells no spread; race again with `repeats` of {REPEATS_WANTED} or more"
        return _with(told, why, is_decided=False)
    interval = f"95 % interval {found.low:.4g} to {found.high:.4g}"
    if found.low <= 0:
        why += f", {interval}, which contains zero; run more repeats"
        return _with(told, why, is_decided=False)
    return _with(
        told, f"{first.pod} won by {amount} in {goal.name} before {second.pod}, {interval}", is_decided=True
    )


def _with(told: Verdict, says: str, *, is_decided: bool) -> Verdict:
    return Verdict(says, is_decided, told.winner, told.second, told.difference, told.percent)


def _amount(value: float, unit: str, percent: float | None) -> str:
    words = f"{value:.4g} {unit}".strip()
    return words if percent is None else f"{words} ({percent:.3g} %)"
