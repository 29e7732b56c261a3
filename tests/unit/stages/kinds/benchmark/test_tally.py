"""What the items of a suite come to: scores, intervals, and what stands beside them."""

from __future__ import annotations

import json
from math import comb
from typing import Any

import pytest

from events.kinds.benchmark import HEADLINE, ITEMS, OF_SUITES
from events.kinds.results import unlike, wilson
from stages.kinds.benchmark.engine import Asking, Evaluated
from stages.kinds.benchmark.rows import cut, key_of, row_of, text_of
from stages.kinds.benchmark.suites.item import Item, Score
from stages.kinds.benchmark.tally import Tally, headline
from stages.models.model import Answer, Usage


def tally(*outcomes: str, **values: Any) -> Tally:
    found = Tally(wanted=len(outcomes))
    for outcome in outcomes:
        score = None if outcome == "error" else float(outcome == "right")
        found.add({"outcome": outcome, "score": score, "seconds": 2.0, "tokens": 10, **values})
    return found


def test_what_failed_stands_beside_the_score_and_not_in_it() -> None:
    found = tally("right", "right", "wrong", "unparsed", "error").row("succeeded")
    assert found["score"] == 0.5
    assert (found["items"], found["failures"], found["unparsed"], found["error"]) == (5, 2, 1, 1)
    assert (found["seconds"], found["tokens"], found["cost_usd"]) == (10.0, 50, None)
    assert unlike(OF_SUITES.columns, found) is None
    assert tally("right", cost_usd=0.25).row("succeeded")["cost_usd"] == 0.25


def test_a_suite_without_a_score_has_none_and_no_interval() -> None:
    for found in (tally(), tally("error", "error")):
        row = found.row("failed", "nobody answered")
        assert (row["score"], row["low"], row["high"], row["says"]) == (None, None, None, "nobody answered")


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 164, 0.4184, 0.5697)],
)
def test_the_interval_is_the_one_of_wilson(right: int, count: int, low: float, high: float) -> None:
    assert wilson(right, count) == pytest.approx((low, high), abs=5e-5)


def test_nineteen_of_twenty_intervals_hold_the_share_that_there_is() -> None:
    count, share = 100, 0.3
    weights = [
        comb(count, right) * share**right * (1 - share) ** (count - right) for right in range(count + 1)
    ]
    within = [low <= share <= high for low, high in (wilson(right, count) for right in range(count + 1))]
    assert sum(each for each, holds in zip(weights, within, strict=True) if holds) == pytest.approx(
        0.95, abs=0.015
    )


def test_a_run_has_the_mean_over_its_suites_and_those_that_ship_by_name() -> None:
    found = headline(
        {"gsm8k": tally("right", "wrong"), "mine": tally("right"), "gpqa": tally()}, ("gsm8k", "gpqa")
    )
    assert (found["score"], found["score_gsm8k"], found["items"]) == (0.75, 0.5, 3)
    assert {"score_mine", "score_gpqa"} & found.keys() == set()
    assert unlike(HEADLINE, found) is None


def test_a_key_is_short_and_another_one_for_each_item() -> None:
    assert key_of("gsm8k", "7", None) == "gsm8k/7"
    assert key_of("gsm8k", "7", 2) == "gsm8k/7#2"
    long = [key_of("a-suite-of-a-user-with-a-long-na", "x" * 199 + end, 32) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(each.encode()) <= 200 for each in long)


def test_a_text_that_is_cut_says_so_and_stays_text() -> None:
    assert cut("short") == "short"
    found = cut("é" * 2_000)
    assert len(found.encode()) <= 1_024
    assert found.endswith("é […]")
    assert cut("a\ud800b") == "a?b"
    assert ITEMS.column("answer") is not None


def test_a_row_tells_its_question_and_its_file_keeps_hostile_texts_apart() -> None:
    def asked(prompt: str, system: str = "") -> Asking:
        item = Item(id="1", prompt=prompt, payload={}, expected="## Answer", system=system)
        return Asking(key="s/1", item=item)

    answer = "right\n\n## Why\n\n\ud800 <b>"
    told = Answer(text=answer, usage=Usage(prompt_tokens=1, completion_tokens=1, seconds=1.0))
    found = Evaluated(key="s/1", score=Score(outcome="wrong", parsed="p", why="w"), answer=told, seconds=1.0)
    texts = json.loads(text_of(asked("## Answer"), found).encode("utf-8", "replace"))
    assert (texts["Prompt"], texts["Expected"]) == ("## Answer", "## Answer")
    assert texts["Answer"].startswith("right\n\n## Why")
    rows = [row_of(each, found, "s", None, 0) for each in (asked("a"), asked("b"), asked("a", "be brief"))]
    assert len({each["question"] for each in rows}) == 3
    assert unlike(ITEMS.columns, rows[0]) is None
