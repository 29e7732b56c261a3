"""What a study is after: a headline number, or two, each as low or as high as can be; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from events.kinds.results import COLUMN_NAME
from events.runtime.errors import Rejected

_NAME: Final = re.compile(COLUMN_NAME)


@dataclass(frozen=True, slots=True)
class Goal:
    """A headline number, and which of its values are better."""

    name: str
    is_lower_better: bool

    def is_better(self, value: float, than: float) -> bool:
        """Say whether a value is better than another one."""
        return value < than if self.is_lower_better else value > than

    def best(self, values: Sequence[float]) -> float:
        """Return the best of some values."""
        return min(values) if self.is_lower_better else max(values)

    def __str__(self) -> str:
        return f"{'min' if self.is_lower_better else 'max'}:{self.name}"


def goals_of(stored: str | Sequence[str]) -> tuple[Goal, ...]:
    """Return the goals that a plan names: `min:NAME` or `max:NAME`, or two of these. Raises `Rejected`."""
    texts = [stored] if isinstance(stored, str) else stored
    pairs = [each.partition(":") for each in texts]
    if bad := [text for text, pair in zip(texts, pairs, strict=True) if not _NAME.fullmatch(pair[2])]:
        raise Rejected("bad_plan", f"plan.goal: {bad[0]!r} names no headline number")
    goals = tuple(Goal(name, direction == "min") for direction, _, name in pairs)
    if len({each.name for each in goals}) < len(goals):
        raise Rejected("bad_plan", f"plan.goal: {goals[0].name!r} is named twice; two goals are two numbers")
    return goals
