"""What a change of the quarantines may not do is told, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from testing.simulation.quarantines import wrong_quarantines


def pod(name: str, *, since: int = 1, trial: int | None = None) -> dict[str, Any]:
    return {"pod": name, "since": since, "trialAt": trial}


A, B = pod("a"), pod("b")


@pytest.mark.parametrize(
    ("before", "after", "is_calm", "word"),
    [
        ([pod("a", trial=2)], [A], False, "by the same decision"),
        ([A], [], False, "nothing says why"),
        ([A], [A, B], True, "2 of 3 pods"),
    ],
)
def test_a_change_that_may_not_be_is_told(
    before: list[dict[str, Any]], after: list[dict[str, Any]], is_calm: bool, word: str
) -> None:
    (told,) = wrong_quarantines(before, after, 3, is_calm=is_calm)
    assert word in told


@pytest.mark.parametrize(
    ("before", "after", "is_calm"),
    [
        ([], [A], True),
        ([A], [pod("a", trial=2)], True),
        ([pod("a", trial=2)], [pod("a", since=3)], True),
        ([A], [A, B], False),  # how many there are may have been another then
        ([A, B], [A, B], True),
    ],
)
def test_a_lawful_change_is_not(
    before: list[dict[str, Any]], after: list[dict[str, Any]], is_calm: bool
) -> None:
    assert wrong_quarantines(before, after, 3, is_calm=is_calm) == []
