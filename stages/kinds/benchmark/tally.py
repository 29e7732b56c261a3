"""Sums up the items of a suite: its score with a 95 % interval by Wilson, its failures and its cost; pure.

An item that failed is no answer: it stands beside the score, and not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from events.kinds.results import Value, wilson

OUTCOMES: Final = ("right", "wrong", "unparsed", "error")


@dataclass(slots=True)
class Tally:
    """What the items of a suite came to so far."""

    wanted: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    value: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    lost_requests: int = 0

    @property
    def items(self) -> int:
        """Return how many items there are results of."""
        return sum(self.outcomes.values())

    @property
    def scored(self) -> int:
        """Return how many items have a score."""
        return self.items - self.outcomes["error"]

    @property
    def score(self) -> float | None:
        """Return the mean over the items that have a score; None without any."""
        return self.value / self.scored if self.scored else None

    def add(self, values: Mapping[str, Value]) -> None:
        """Count the row of an item."""
        outcome = str(values.get("outcome"))
        self.outcomes[outcome if outcome in OUTCOMES else "error"] += 1
        self.value += _number(values, "score")
        self.seconds += _number(values, "seconds")
        self.tokens += int(_number(values, "tokens"))
        self.cost_usd += _number(values, "cost_usd")
        self.priced += values.get("cost_usd") is not None
        self.lost_requests += int(_number(values, "lost_requests"))

    def row(self, state: str, says: str = "") -> dict[str, Value]:
        """Return the row of the suite."""
        low, high = wilson(self.value, self.scored) if self.scored else (None, None)
        return {
            "score": self.score,
            "low": low,
            "high": high,
            "items": self.items,
            "failures": self.outcomes["unparsed"] + self.outcomes["error"],
            "seconds": round(self.seconds, 3),
            "cost_usd": self.cost_usd if self.priced else None,
            "tokens": self.tokens,
            "state": state,
            "says": says,
            "wanted": self.wanted,
            **self.outcomes,
            "lost_requests": self.lost_requests,
        }


def headline(tallies: Mapping[str, Tally], named: Sequence[str]) -> dict[str, Value]:
    """Return the numbers of a run: its score is the mean over its suites; those of `named` stand alone."""
    scores = {name: each.score for name, each in tallies.items() if each.score is not None}
    every = tallies.values()
    return {
        "score": sum(scores.values()) / len(scores) if scores else None,
        # what an earlier summary said stays unless this one says otherwise
        "scored": tallies[next(iter(scores))].scored if len(scores) == 1 else None,
        "items": sum(each.items for each in every),
        "failures": sum(each.outcomes["unparsed"] + each.outcomes["error"] for each in every),
        "seconds": round(sum(each.seconds for each in every), 3),
        "tokens": sum(each.tokens for each in every),
        "cost_usd": sum(each.cost_usd for each in every) if any(each.priced for each in every) else None,
        **{f"score_{name}": score for name, score in scores.items() if name in named},
        **{f"scored_{name}": tallies[name].scored for name in scores if name in named},
    }


def _number(values: Mapping[str, Value], name: str) -> float:
    found = values.get(name)
    return float(found) if isinstance(found, int | float) else 0.0
