"""Runs beside each other: what differs, which differ in the seed alone, and means over those."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.server.web.side_by_side import (
    METRICS_MAX,
    Metric,
    lines,
    mean,
    metrics,
    seed_groups,
    written,
)


def measured(name: str, value: Any, step: int | None = None, stage: str = "train") -> dict[str, Any]:
    return {"data": {"stage": stage, "name": name, "value": value, "step": step}}


def test_parameters_are_shown_as_they_would_be_written() -> None:
    values = ["x", 1, 0.1, True, [1, "ä"], {}, None]
    assert [written(value) for value in values] == ["x", "1", "0.1", "true", '[1, "ä"]', "{}", "–"]


def test_runs_that_differ_in_the_seed_alone_belong_together() -> None:
    runs: list[tuple[str, dict[str, Any]]] = [
        ("experiment", {"lr": 0.1, "seed": 1}),
        ("experiment", {"lr": 0.2, "seed": 1}),
        ("experiment", {"lr": 0.1, "seed": 2}),
        ("probe", {"lr": 0.1, "seed": 3}),
        ("experiment", {"lr": 0.1}),
        ("experiment", {"lr": 0.3, "seed": 1}),
        ("experiment", {"lr": 0.3, "seed": 1}),
    ]
    assert seed_groups(runs) == [[0, 2, 4]], "the same seed twice is no other seed"


def test_the_latest_value_of_a_step_counts() -> None:
    first = [measured("loss", 3.0, 1), measured("loss", 2.0, 2), measured("loss", 2.5, 1)]
    second = [measured("loss", 1.0, 1), measured("accuracy", 0.5), measured("accuracy", 0.7)]
    broken = [measured("loss", math.nan, 1), measured("loss", "many", 2), measured("loss", None)]
    loss, accuracy = metrics([first, second, broken])
    assert (loss.name, loss.points) == ("train: loss", [[(1, 2.5), (2, 2.0)], [(1, 1.0)], []])
    assert loss.last == [2.0, 1.0, None]
    assert accuracy.points == [[], [(0, 0.5), (1, 0.7)], []]
    assert loss.is_curve
    assert not metrics([[measured("score", 1.0)]])[0].is_curve


def test_of_many_metrics_those_that_most_runs_have_are_kept() -> None:
    own = [[measured(f"of {run}, {n}", 1.0) for n in range(METRICS_MAX)] for run in range(2)]
    found = metrics([[*each, measured("loss", 2.0)] for each in own])
    assert (len(found), found[0].name, found[0].last) == (METRICS_MAX, "train: loss", [2.0, 2.0])


def test_a_mean_is_of_the_values_that_are_there_with_its_interval() -> None:
    found = mean([1.0, 2.0, None, 3.0])
    assert found is not None
    assert (found.mean, found.count) == (2.0, 3)
    assert found.high == pytest.approx(2 + 4.302652729911275 / math.sqrt(3))
    alone = mean([4.0, None])
    assert alone is not None
    assert (alone.mean, alone.low, alone.count) == (4.0, None, 1)
    assert mean([None]) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_any_numbers_have_a_mean(values: list[float]) -> None:
    found = mean(values)
    assert found is not None
    assert abs(found.mean) < math.inf
    assert found.low is None or found.high is None or found.low <= found.mean <= found.high


def test_a_group_is_drawn_as_its_mean_with_a_band_and_the_others_alone() -> None:
    metric = Metric("loss", [[(0, 1.0), (1, 3.0)], [(0, 9.0)], [(0, 3.0), (1, 5.0), (2, 7.0)], []])
    group, alone, empty = lines(metric, ["a", "b", "c", "d"], ["A", "B", "C", "D"], [[0, 2]], 0.0)
    assert (group.name, group.letter, group.points) == ("mean of 2 seeds", "A+C", [(0, 2.0), (1, 4.0)])
    reach = pytest.approx(12.706204736432095)
    assert [
        (at, middle - low) for (at, low, _), (_, middle) in zip(group.band, group.points, strict=True)
    ] == [
        (0, reach),
        (1, reach),
    ]
    assert (alone.letter, alone.points, alone.band) == ("B", [(0, 9.0)], ())
    assert empty.points == []
    assert [line.letter for line in lines(metric, list("abcd"), list("ABCD"), [], 0.5)] == list("ABCD")


def test_numbers_of_single_seeds_are_no_curve() -> None:
    def said(*steps: int) -> list[dict[str, object]]:
        return [{"data": {"stage": "s", "name": "n", "value": 0.5, "step": step}} for step in steps]

    assert [each.is_curve for each in metrics([said(911_245_001, 20_117, 1_734_000_111)])] == [False]
    assert [each.is_curve for each in metrics([said(0, 50_000, 100_000)])] == [True]


def test_along_time_a_point_stands_where_it_was_measured_and_else_where_it_was_received() -> None:
    received = "2026-01-01T00:00:05Z"
    times = ("2026-01-01T00:00:00Z", "2016-12-31T23:59:60Z", None, 5)
    events = [{"data": {"stage": "S", "name": "loss", "value": float(number), "step": 1}, "time": each,
               "receivedAt": received} for number, each in enumerate(times)]  # fmt: skip
    (loss,) = metrics([events], "time")
    (first, _), (later, value) = loss.points[0]
    assert (later - first, value) == (5, 3), "a leap second is no moment; the last of one moment stays"
    (along_steps,) = metrics([events])
    assert along_steps.points == [[(1.0, 3.0)]]
