"""Constraints of a study: what the headline numbers of a member must hold, pure.

Law: a member that breaks a constraint, or lacks the number of one, is infeasible: it is never the best.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from events.kinds.results import COLUMN_NAME, is_measured
from events.runtime.errors import Rejected

CONSTRAINTS_MAX: Final = 8
NUMBER: Final = r"[+-]?(?:\d{1,300}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?"
CONSTRAINT: Final = rf"^({COLUMN_NAME}) *(<=|>=) *({NUMBER})$"
BOUND_MAX: Final = 1e300
LACKING: Final = 1e300  # by so much a member without the number breaks its constraint


@dataclass(frozen=True, slots=True)
class Constraint:
    """A headline number that is at most, or at least, `bound`."""

    name: str
    is_upper: bool
    bound: float

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.is_upper else '>='} {self.bound:g}"

    def excess(self, summary: Mapping[str, Any]) -> float:
        """Return by how much headline numbers break it: positive where they do, `LACKING` without it."""
        value = summary.get(self.name)
        if not is_measured(value):
            return LACKING
        over = float(value) - self.bound if self.is_upper else self.bound - float(value)
        return max(-LACKING, min(LACKING, over))


def read_constraint(text: str) -> Constraint:
    """Return the constraint that a text is. Raises `Rejected`."""
    found = re.fullmatch(CONSTRAINT, text)
    if found is None or abs(float(found[3])) > BOUND_MAX:
        message = f"plan.constraints: {text[:100]!r} is no constraint; write NAME <= NUMBER or NAME >= NUMBER"
        raise Rejected("bad_plan", message)
    return Constraint(found[1], found[2] == "<=", float(found[3]))


def broken(constraints: Sequence[Constraint], summary: Mapping[str, Any]) -> str | None:
    """Return which constraints headline numbers break, in words; None if they hold all."""
    words = []
    for each in constraints:
        if each.excess(summary) > 0:
            value = summary.get(each.name)
            words.append(f"{each} (it is {value:.4g})" if is_measured(value) else f"{each} (it has none)")
    return "; ".join(words) or None
