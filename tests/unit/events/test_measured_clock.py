"""The clock of another machine: bounds, jumps of either clock, and what is said of an offset."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.runtime.measured_clock import (
    DRIFT,
    SECOND_S,
    THE_STORES,
    Measured,
    MeasuredClock,
    ahead_words,
    joined,
    measured,
)
from events.testing import EPOCH, ManualClock

HOUR_S = 3600.0


@dataclass(slots=True)
class WrongClock:
    """A machine whose wall clock is off, and may be set."""

    ahead_s: float = 0.0
    true: ManualClock = field(default_factory=ManualClock)

    def now(self) -> datetime:
        return self.true.now() + timedelta(seconds=self.ahead_s)

    def monotonic_s(self) -> float:
        return self.true.monotonic_s()

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return self.true.wait(flag, seconds)


def ask(clock: MeasuredClock, true: ManualClock, *, there_s: float, back_s: float) -> None:
    """Measure: the question is under way for `there_s`, the answer for `back_s`."""
    asked_s = clock.monotonic_s()
    true.advance(there_s)
    told = true.now()
    true.advance(back_s)
    clock.note(told.replace(microsecond=told.microsecond // 1000 * 1000), asked_s=asked_s)


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_an_hour_off_shows_the_others_moment(ahead_s: float) -> None:
    machine = WrongClock(ahead_s)
    clock = MeasuredClock(machine)
    assert clock.now() == machine.now(), "before the first measurement it knows no better"
    assert clock.machine_ahead_s is None
    ask(clock, machine.true, there_s=0.01, back_s=0.01)
    assert abs((clock.now() - machine.true.now()).total_seconds()) < 0.002
    assert clock.machine_ahead_s == pytest.approx(ahead_s, abs=0.002)


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
def test_a_jump_of_the_machines_clock_changes_nothing(jump_s: float) -> None:
    machine = WrongClock()
    clock = MeasuredClock(machine)
    ask(clock, machine.true, there_s=0.0, back_s=0.0)
    machine.ahead_s = jump_s
    machine.true.advance(5.0)
    assert abs((clock.now() - machine.true.now()).total_seconds()) < 0.002
    assert clock.machine_ahead_s == pytest.approx(jump_s, abs=0.002), "it is told at once all the same"


def test_the_best_of_recent_measurements_is_kept() -> None:
    machine = WrongClock()
    clock = MeasuredClock(machine)
    ask(clock, machine.true, there_s=0.001, back_s=0.001)
    ask(clock, machine.true, there_s=3.0, back_s=0.0)  # alone it would be 1.5 s wrong
    assert abs((clock.now() - machine.true.now()).total_seconds()) < 0.01


@pytest.mark.parametrize("jump_s", [90.0, -90.0, HOUR_S, -HOUR_S])
def test_a_jump_of_the_other_clock_counts_from_the_next_measurement(jump_s: float) -> None:
    machine = WrongClock()
    clock = MeasuredClock(machine)
    for _ in range(3):
        ask(clock, machine.true, there_s=0.001, back_s=0.001)
    other = machine.true.now() + timedelta(seconds=jump_s)
    clock.note(other, asked_s=clock.monotonic_s())
    assert abs((clock.now() - other).total_seconds()) < 0.002


def test_whole_seconds_are_told_apart_by_several_answers() -> None:
    machine = WrongClock()
    clock = MeasuredClock(machine)
    for _ in range(7):
        machine.true.advance(0.85)
        now = machine.true.now()
        clock.note(now.replace(microsecond=0), asked_s=clock.monotonic_s(), unit_s=SECOND_S)
        assert abs((clock.now() - now).total_seconds()) <= 0.5
    assert clock.known is not None
    assert clock.known.bound_s < 0.2


def moments(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


@given(
    offset_s=moments(-1e5, 1e5),
    asks=st.lists(st.tuples(moments(0, 30), moments(0, 5), moments(0, 5)), min_size=1, max_size=8),
)
def test_the_truth_lies_within_the_bounds(offset_s: float, asks: list[tuple[float, float, float]]) -> None:
    known: Measured | None = None
    at_s, widest_s = 0.0, float("inf")
    for pause_s, there_s, back_s in asks:
        asked_s = at_s + pause_s
        at_s = asked_s + there_s + back_s
        true_s = asked_s + there_s + offset_s
        told = EPOCH + timedelta(seconds=true_s // 0.001 * 0.001)
        new = measured(told, asked_s=asked_s, answered_s=at_s, unit_s=0.001)
        known = joined(known, new)
        widest_s = new.bound_s
        true = EPOCH + timedelta(seconds=at_s + offset_s)
        assert abs((known.after(at_s) - true).total_seconds()) <= known.bound_after(at_s) + 1e-4
        assert known.bound_s <= widest_s, "no measurement makes it worse than that one alone"


def test_an_old_measurement_is_trusted_less() -> None:
    known = measured(EPOCH, asked_s=0.0, answered_s=0.0, unit_s=0.0)
    assert known.bound_after(100.0) == pytest.approx(100.0 * DRIFT)


def test_an_offset_is_said_in_words() -> None:
    assert ahead_words(3600.2, THE_STORES) == "3,600 s ahead of the store's"
    assert ahead_words(-3600.2, THE_STORES) == "3,600 s behind the store's"
    assert ahead_words(-0.4, THE_STORES) == "within 2 s of the store's"
