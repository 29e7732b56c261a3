"""Tells a model that is away from an item that it cannot answer; pure.

Law: what failed because the model is away is not done: the attempt ends as a fault of the outside, and the
next one asks it again. An item that fails twice while others are answered has its own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from events.runtime.errors import PipelineError
from stages.kinds.benchmark.engine import Evaluated
from stages.models.model import Trouble

IN_A_ROW: Final = 8  # each of them has been tried several times
AWAY: Final[frozenset[Trouble]] = frozenset({"unreachable", "rate_limited", "quota", "unauthorised"})
# Whoever says so is there.
ANSWERS: Final[frozenset[Trouble]] = frozenset({"refused", "malformed", "cut_off"})


@dataclass(slots=True)
class Outage:
    """What came of the items of a suite, as far as it may be the model's fault."""

    held: dict[str, Evaluated] = field(default_factory=dict)  # to be asked again
    known: set[str] = field(default_factory=set)  # failed once, and others were answered since
    in_a_row: int = 0

    def holds(self, found: Evaluated) -> bool:
        """Return whether a result is no result yet. Raises `PipelineError` where the model is away."""
        if found.trouble not in AWAY:
            if found.answer is not None or found.trouble in ANSWERS:
                self.in_a_row = 0
                self.known |= self.held.keys()
            return False
        if found.key in self.known:
            return False
        self.held[found.key] = found
        self.in_a_row += 1
        if self.in_a_row >= IN_A_ROW:
            raise self._away(found, found.trouble)
        return True

    def begin_again(self) -> list[str]:
        """Return what is to be asked a second time."""
        keys = list(self.held)
        self.held.clear()
        return keys

    def left(self, *, has_score: bool) -> Sequence[Evaluated]:
        """Return what failed twice, as results. Raises `PipelineError` where nothing was ever answered."""
        left = list(self.held.values())
        if left and left[-1].trouble is not None and not has_score:
            raise self._away(left[-1], left[-1].trouble)
        return left

    def _away(self, found: Evaluated, trouble: Trouble) -> PipelineError:
        return PipelineError(
            f"MODEL_{trouble.upper()}",
            f"the model is away: {self.in_a_row} items in a row came to nothing, the last one since "
            f"{found.score.why}. What failed so is asked again by the next attempt",
            retryable=True,
        )
