"""What the measurements of a trial come to."""

from __future__ import annotations

from typing import Any

import pytest

from events.kinds import KINDS, read_spec
from events.kinds.results import unlike
from events.kinds.trial import HEADLINE, METRICS, SCENARIOS, TrialSpec
from events.text.traffic import Fixed
from stages.engines.load.measurement import Answered, Measurement
from stages.engines.load.plan import Limits
from stages.kinds.trial.points import Point
from stages.kinds.trial.pressure import Pressure
from stages.kinds.trial.tally import Measured, Tally

ONE = Point(Fixed(100, 20), concurrency=1)
FOUR = Point(Fixed(100, 20), concurrency=4)
OPEN = Point(Fixed(100, 20), rate_per_s=2.0)


def spec_of(**more: Any) -> TrialSpec:
    spec = read_spec("trial", {"model": "smollm2", **more})
    assert isinstance(spec, TrialSpec)
    return spec


def measurement(seconds: float, tokens: int, failures: int = 0, ttft_s: float = 0.1) -> Measurement:
    """Return one of ten answers that share `tokens`, and of so many failures."""
    found = Measurement(limits=Limits(ttft_s=0.5))
    for number in range(10):
        answered = Answered(
            due_s=number, sent_s=number, timed_s=number, first_s=number + ttft_s,
            ended_s=number + 1.0, wanted_in=100,
            tokens_in=100, tokens_out=tokens // 10, is_counted=True,
        )  # fmt: skip
        found.add(answered)
    for _ in range(failures):
        found.add(
            Answered(
                due_s=0,
                sent_s=0,
                timed_s=0,
                ended_s=1,
                wanted_in=100,
                tokens_in=0,
                failure="500",
                said="boom",
            )
        )
    found.seconds = seconds
    return found


def measured(seconds: float, tokens: int, *, is_disturbed: bool = False, **more: Any) -> Measured:
    pressure = Pressure(
        cores=2, others_cores=0.5, stalled=None, clock_mhz=None, temperature_c=None, gpu_processes=None
    )
    return Measured(
        measurement=measurement(seconds, tokens, **more),
        pressure=pressure, attempt=1, is_disturbed=is_disturbed,
    )  # fmt: skip


def test_speeds_are_those_of_all_time_together_and_the_peak_is_of_one() -> None:
    tally = Tally(spec_of())
    tally.add(ONE, 1, measured(10.0, 100))
    tally.add(FOUR, 1, measured(5.0, 200, failures=5))

    found = tally.headline()

    assert found["tokens_out_per_s"] == pytest.approx(300 / 15)
    assert found["peak_tokens_out_per_s"] == pytest.approx(40)
    assert found["requests_per_s"] == pytest.approx(20 / 15)
    assert found["error_rate"] == pytest.approx(5 / 25)
    assert found["errors"] == 5
    assert found["ttft_p50_s"] == pytest.approx(0.1, rel=0.01)
    assert found["others_cores"] == 0.5


def test_rows_and_headline_are_what_the_kind_declares() -> None:
    tally = Tally(spec_of())
    tally.add(OPEN, 1, measured(5.0, 200, failures=5))

    row = tally.row(OPEN, 1)

    assert unlike(SCENARIOS.columns, row) is None
    assert unlike(HEADLINE, tally.headline()) is None
    assert row["says"] == "5 x 500: boom"
    assert (row["rate_per_s"], row["concurrency"]) == (2.0, None)


def test_repeats_that_lie_apart_make_a_trial_noisy() -> None:
    tally = Tally(spec_of(repeats=2, spread_max=0.1))
    tally.add(ONE, 1, measured(10.0, 100))
    tally.add(ONE, 2, measured(10.0, 110))
    tally.add(FOUR, 1, measured(10.0, 100))
    tally.add(FOUR, 2, measured(10.0, 200))

    assert list(tally.wide) == [FOUR]
    assert tally.is_noisy
    assert tally.headline()["spread"] == pytest.approx(0.4714, abs=0.001)

    tally.add(FOUR, 1, measured(10.0, 200))

    assert not tally.is_noisy


def test_a_measurement_that_was_disturbed_makes_it_noisy_until_it_is_made_again() -> None:
    tally = Tally(spec_of())
    tally.add(ONE, 1, measured(10.0, 100, is_disturbed=True))

    assert tally.is_noisy

    tally.add(ONE, 1, measured(10.0, 100))

    assert not tally.is_noisy


def test_an_open_loop_is_compared_by_the_time_of_its_requests() -> None:
    tally = Tally(spec_of(repeats=2))
    tally.add(OPEN, 1, measured(10.0, 100))
    tally.add(OPEN, 2, measured(10.0, 1_000))

    assert tally.spread(OPEN) == 0.0


def test_a_trial_without_a_measurement_has_no_numbers() -> None:
    tally = Tally(spec_of())

    assert tally.headline() == {}
    assert not tally.is_noisy
    assert tally.together.requests == 0


def test_the_example_can_be_run() -> None:
    assert spec_of(**{**KINDS["trial"].example}).parameters == {"n_parallel": 4}


def test_what_a_study_may_end_a_trial_by_is_what_its_measurements_tell() -> None:
    tally = Tally(spec_of())
    tally.add(ONE, 1, measured(1.0, 100))
    counts = {"requests", "errors", "tokens_in", "tokens_out"}
    assert {*METRICS} == {*tally.headline()} - counts - {"spread", "others_cores"}
