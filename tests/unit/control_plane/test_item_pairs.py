"""McNemar's exact test beside whole numbers, and which items of two runs are the same."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import pytest

from control_plane.reads.results import pairs
from control_plane.reads.results.pairs import Side, mcnemar, paired
from events.kinds.benchmark import ITEMS


def exact(one: int, other: int) -> Fraction:
    total = sum(comb(one + other, each) for each in range(min(one, other) + 1))
    return min(Fraction(1), Fraction(2 * total, 2 ** (one + other)))


@pytest.mark.parametrize(
    ("one", "other", "p_value"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (0, 6, 0.03125), (10, 2, 0.038574), (6, 16, 0.052479)],
)
def test_the_p_value_is_that_of_the_binomial_test(one: int, other: int, p_value: float) -> None:
    assert mcnemar(one, other) == mcnemar(other, one) == pytest.approx(p_value, abs=5e-7)


def test_many_pairs_have_the_p_value_of_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(0, 3), (40, 60), (480, 520), (1_000, 1_100), (2_000, 2_001), (30, 2_000)]
    expected = [float(exact(*each)) for each in cases]
    monkeypatch.setattr(pairs, "EXACT_MAX", 1)
    assert [mcnemar(*each) for each in cases] == pytest.approx(expected, rel=1e-9)


def side(*rows: tuple[str, str, str | None]) -> Side:
    assert ITEMS.outcome is not None
    found = Side(ITEMS.outcome)
    for number, (item, outcome, question) in enumerate(rows):
        values: dict[str, Any] = {"suite": "s", "item": item, "outcome": outcome, "question": question}
        found.add(f"s/{item}#{number}", values)
    return found


def test_an_item_is_right_where_more_than_half_of_its_answers_are() -> None:
    one = side(*[("1", each, "q") for each in ("right", "wrong", "right", "error")], ("2", "right", "q"))
    other = side(*[("1", each, "q") for each in ("right", "unparsed")], ("2", "right", "q"))
    found = paired(one, other)
    assert (found.only_first, found.both_right, found.only_second) == (1, 1, 0)
    assert [each.name for each in found.changed] == [("s", "1")]
    assert (found.changed[0].first.key, found.changed[0].second.key) == ("s/1#0", "s/1#0")


def test_only_what_was_asked_alike_and_answered_is_compared() -> None:
    one = side(("1", "right", "q"), ("2", "right", None), ("3", "error", "q"), ("4", "right", "q"))
    one.add("s/4#9", {"suite": "s", "item": "4", "outcome": "right", "question": "changed"})
    other = side(("1", "right", "other"), ("2", "wrong", None), ("3", "wrong", "q"), ("4", "wrong", "q"))
    found = paired(one, other)
    assert (found.other_question, found.unanswered, found.changed, found.p_value) == (3, 1, [], 1.0)
