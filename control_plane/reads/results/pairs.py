"""Two runs item by item: who was right where both were asked the same, and McNemar's exact test; pure.

An item that was asked several times is right where more than half of its answers are; what failed on the way
is no answer. Items are the same where their names and what tells their questions apart are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import comb, exp, fsum, lgamma, log
from typing import Any, Final

from events.kinds.results import Outcome

EXACT_MAX: Final = 1_000  # pairs up to which whole numbers are counted; beyond it logarithms are summed
METHOD: Final = "McNemar's exact test, two-sided"


@dataclass(slots=True)
class Asked:
    """What one run says of an item: how many answers, how many right ones, and its first row."""

    key: str
    same: Any
    answers: int = 0
    right: int = 0

    @property
    def is_right(self) -> bool | None:
        """Whether more than half of its answers are right; None without any."""
        return 2 * self.right > self.answers if self.answers else None


@dataclass(slots=True)
class Side:
    """The items of one run."""

    outcome: Outcome
    items: dict[tuple[str, ...], Asked] = field(default_factory=dict)

    def add(self, key: str, values: Mapping[str, Any]) -> None:
        """Count a row."""
        told, same = values.get(self.outcome.column), values.get(self.outcome.same)
        name = tuple(str(values.get(each)) for each in self.outcome.item)
        item = self.items.setdefault(name, Asked(key, same))
        if item.same != same:
            item.same = None  # it has asked two things under one name
        if told not in self.outcome.none:
            item.answers += 1
            item.right += told == self.outcome.right


@dataclass(frozen=True, slots=True)
class Changed:
    """An item that one of the runs alone has right, with its row in each."""

    name: tuple[str, ...]
    first: Asked
    second: Asked


@dataclass(slots=True)
class Pairs:
    """The items of two runs, counted."""

    both_right: int = 0
    both_wrong: int = 0
    only_first: int = 0
    only_second: int = 0
    in_first_alone: int = 0
    in_second_alone: int = 0
    other_question: int = 0
    unanswered: int = 0
    changed: list[Changed] = field(default_factory=list)

    @property
    def p_value(self) -> float:
        """The probability of so large a difference where the runs are equally good."""
        return mcnemar(self.only_first, self.only_second)


def paired(first: Side, second: Side) -> Pairs:
    """Return the items of two runs beside each other, what changed in the order of the names."""
    found = Pairs()
    found.in_second_alone = len(second.items.keys() - first.items.keys())
    for name, one in sorted(first.items.items()):
        other = second.items.get(name)
        if other is None:
            found.in_first_alone += 1
        elif one.same is None or one.same != other.same:
            found.other_question += 1
        elif one.is_right is None or other.is_right is None:
            found.unanswered += 1
        elif one.is_right == other.is_right:
            found.both_right += one.is_right
            found.both_wrong += not one.is_right
        else:
            found.only_first += one.is_right
            found.only_second += other.is_right
            found.changed.append(Changed(name, one, other))
    return found


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided p value of McNemar's exact test: a binomial test on the discordant pairs.

    Q. McNemar: Note on the sampling error of the difference between correlated proportions or percentages,
    Psychometrika 12 (1947), 153-157. In its exact form: M. W. Fagerland, S. Lydersen, P. Laake: The McNemar
    test for binary matched-pairs data, BMC Medical Research Methodology 13 (2013), 91.
    """
    count, fewer = only_first + only_second, min(only_first, only_second)
    if count <= EXACT_MAX:
        ways: int = sum(comb(count, each) for each in range(fewer + 1))
        return min(1.0, 2 * ways / 2.0**count)
    return min(1.0, 2.0 * fsum(exp(_log_share(count, each)) for each in range(fewer + 1)))


def _log_share(count: int, each: int) -> float:
    return lgamma(count + 1) - lgamma(each + 1) - lgamma(count - each + 1) - count * log(2)


def named(name: Iterable[str]) -> str:
    """Return an item's name as one text."""
    return "/".join(name)
