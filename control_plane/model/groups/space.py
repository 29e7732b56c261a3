"""The space of a study: which values each of its parameters may take; pure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from control_plane.model.groups.parameters import Values, in_json
from events.kinds.results import WHOLE_MAX
from events.runtime.errors import Rejected


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: Sequence[Any]

    @property
    def is_ordered(self) -> bool:
        """Say whether they are numbers that grow, or fall: neighbours have something in common."""
        if not all(isinstance(each, int | float) and type(each) is not bool for each in self.values):
            return False
        steps = {after > before for before, after in pairwise(self.values)}
        return len(steps) == 1 and len(set(self.values)) == len(self.values)

    def draw(self, chance: random.Random) -> Any:
        """Return a random value."""
        return chance.choice(self.values)

    def points(self, count: int) -> Sequence[Any]:
        """Return the values that a grid tries."""
        return self.values

    def ends(self) -> Sequence[Any]:
        """Return the values by which a range is checked."""
        return self.values


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included: `log` and `uniform` are fractions, `int` whole numbers."""

    form: str
    low: float
    high: float

    def draw(self, chance: random.Random) -> float:
        """Return a random value."""
        if self.form == "int":
            return chance.randint(int(self.low), int(self.high))
        if self.form == "log":
            return self._within(math.exp(chance.uniform(math.log(self.low), math.log(self.high))))
        return self._within(chance.uniform(self.low, self.high))

    def points(self, count: int) -> Sequence[float]:
        """Return the values that a grid tries: the ends, and `count - 2` others evenly between them."""
        if self.form == "int":
            steps = min(count, int(self.high - self.low) + 1)
            return list(dict.fromkeys(round(each) for each in _evenly(self.low, self.high, steps)))
        if self.form == "log":
            logs = _evenly(math.log(self.low), math.log(self.high), count)
            return [self.low, *(self._within(math.exp(each)) for each in logs[1:-1]), self.high]
        return _evenly(self.low, self.high, count)

    def ends(self) -> Sequence[float]:
        """Return the values by which a range is checked."""
        return [int(self.low), int(self.high)] if self.form == "int" else [self.low, self.high]

    def _within(self, value: float) -> float:
        return min(self.high, max(self.low, value))


Dimension = Choice | Range
OTHERS_MAX: Final = 30  # combinations in which a value is looked at, until one is possible
VALUES_BYTES_MAX: Final = 4_096  # of one run, as JSON: the values of thousands are compared


def _evenly(low: float, high: float, count: int) -> list[float]:
    if count < 2:
        return [low]
    return [low + (high - low) * step / (count - 1) for step in range(count - 1)] + [high]


def space_of(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, Dimension]:
    """Return the parameters with what they may be. Raises `Rejected`."""
    found: dict[str, Dimension] = {}
    for name, wanted in stored.items():
        form = wanted["type"]
        if form == "values":
            found[name] = Choice(wanted["values"])
            continue
        low, high = wanted["low"], wanted["high"]
        if form == "int":
            if low != int(low) or high != int(high) or max(abs(low), abs(high)) > WHOLE_MAX:
                raise Rejected("bad_plan", f"plan.space: {name}: int({low}, {high}) takes whole numbers")
            low, high = int(low), int(high)
        if not low < high or (form == "log" and low <= 0):
            above = "0 < low < high" if form == "log" else "low < high"
            raise Rejected("bad_plan", f"plan.space: {name}: {form}({low}, {high}) is no range; {above}")
        found[name] = Range(form, low, high)
    longest = [max(len(in_json(value)) for value in each.ends()) for each in found.values()]
    if sum(longest) > VALUES_BYTES_MAX:
        message = f"the values of a run have up to {sum(longest):,} bytes; {VALUES_BYTES_MAX:,} are allowed"
        raise Rejected("bad_plan", f"plan.space: {message}")
    return found


def examples(space: Mapping[str, Dimension]) -> list[Values]:
    """Return values by which a space is checked: each end of each parameter, beside the others' first."""
    first = {name: each.ends()[0] for name, each in space.items()}
    return [first] + [
        {**first, name: value} for name, each in space.items() for value in list(each.ends())[1:]
    ]


def others(space: Mapping[str, Dimension], example: Values) -> Iterator[Values]:
    """Yield values with the end that an impossible example tries, and others of the rest."""
    first = {name: each.ends()[0] for name, each in space.items()}
    tried = {name: value for name, value in example.items() if value != first[name]}
    yield {**{name: each.ends()[-1] for name, each in space.items()}, **tried}
    chance = random.Random(0)  # noqa: S311 - a search, no secret
    for _ in range(OTHERS_MAX):
        yield {**{name: each.draw(chance) for name, each in space.items()}, **tried}
