"""When a stage will be done: by its last steps, and honestly unknown where they do not tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from control_plane.reads.eta import STEPS_MAX, pace

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def steps(*moves: tuple[float, float]) -> list[dict[str, object]]:
    return [{"at": at(when), "progress": progress} for when, progress in moves]


def test_a_steady_stage_is_done_when_its_pace_says() -> None:
    found = pace(steps((10, 0.1), (20, 0.2), (30, 0.3)), BEGIN, at(30))
    assert found.left_s == pytest.approx(70)
    assert pace(steps((10, 0.1), (20, 0.2), (30, 0.3)), BEGIN, at(35)).left_s == pytest.approx(65)


def test_a_stage_whose_steps_are_done_and_that_goes_on_is_not_said_to_end_now() -> None:
    found = pace(steps((10, 0.5), (20, 1.0)), BEGIN, at(25))
    assert found.left_s is None
    assert "its steps are done" in found.why


def test_only_the_last_steps_count() -> None:
    slow = [(1000.0 * n, 0.01 * n) for n in range(1, 11)]
    fast = [(10_000 + 10.0 * n, 0.1 + 0.05 * n) for n in range(1, STEPS_MAX + 1)]
    found = pace(steps(*slow, *fast), BEGIN, at(10_000 + 10 * STEPS_MAX))
    assert found.left_s == pytest.approx((1 - 0.6) / 0.05 * 10)


def test_the_least_of_steps_promises_no_end() -> None:
    for least in (5e-324, 1e-320, 1e-9):
        found = pace(steps((10, least)), BEGIN, at(10))
        assert (found.left_s, found.why) == (None, "at its pace it would take more than a year")


def test_a_stage_without_a_step_says_since_when() -> None:
    found = pace(steps((5, 0.0)), BEGIN, at(40))
    assert found.left_s is None
    assert "in 40 s" in found.why


def test_a_stage_that_stands_still_is_not_promised_an_end() -> None:
    found = pace(steps((10, 0.1), (20, 0.2)), BEGIN, at(220))
    assert found.left_s is None
    assert found.why == "no step forward for 200 s; until then one came every 10 s"
    assert pace(steps((10, 0.1), (20, 0.2)), BEGIN, at(70)).left_s is not None, "a minute is no standstill"


def test_steps_back_and_steps_at_one_moment_promise_nothing() -> None:
    assert pace(steps((0, 0.5)), BEGIN, at(0)).left_s is None
    assert pace(steps((10, 0.5), (20, 0.2)), BEGIN, at(20)).left_s == pytest.approx(0)
