"""What keeps pods from claiming runs, by their own checks, pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

SHOWN_MAX: Final = 20  # names of checks in a count; pods choose those of their models
OTHERS: Final = "other"


@dataclass(frozen=True, slots=True)
class Broken:
    """A check of a pod that fails; `kinds` need it, None is all."""

    name: str
    message: str
    kinds: frozenset[str] | None

    @classmethod
    def of(cls, checks: Iterable[Mapping[str, Any]]) -> tuple[Self, ...]:
        """Return those of the stored checks of a pod that fail."""
        return tuple(
            cls(each["name"], each["message"], None if each["kinds"] is None else frozenset(each["kinds"]))
            for each in checks
            if not each["ok"]
        )


def obstacle(kind: str, broken: Sequence[Broken]) -> Broken | None:
    """Return what keeps a pod from claiming runs of a kind; None where nothing does."""
    return next((each for each in broken if each.kinds is None or kind in each.kinds), None)


def count_failing(pods: Iterable[Iterable[Mapping[str, Any]]]) -> Mapping[str, int]:
    """Return how many pods report each check as failing; the rarer ones together."""
    counts = Counter(each.name for checks in pods for each in Broken.of(checks))
    shown = dict(counts.most_common(SHOWN_MAX))
    rest = sum(counts.values()) - sum(shown.values())
    return {**shown, OTHERS: rest} if rest else shown
