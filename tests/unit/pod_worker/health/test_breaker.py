"""When a check is made, and what opens and closes it."""

from __future__ import annotations

from datetime import UTC, datetime

from pod_worker.health.breaker import (
    BACK_OFF_MAX_S,
    Breaker,
    failed,
    known_to_pass,
    looked,
    succeeded,
    suspected,
)
from pod_worker.health.check import Finding

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GOOD, BAD, NOTHING = Finding(True), Finding(False, "CODE", "why"), Finding(None, "away", "nobody answers")
PASSING = known_to_pass("", NOW)


def after(*found: Finding, before: Breaker | None = None, again_s: float | None = None) -> Breaker:
    """Return the state after looks that are made as soon as each is due."""
    state = before or Breaker()
    for each in found:
        now_s = state.due_s or 0.0
        state = looked(state, each, now=NOW, now_s=now_s, again_s=again_s)
    return state


def test_nothing_is_claimed_before_the_first_look_which_is_due_at_once() -> None:
    assert (Breaker().passes, Breaker().due_s) == (False, 0.0)
    assert (after(GOOD).passes, after(GOOD).due_s) == (True, None)
    assert after(NOTHING).passes, "what cannot be told keeps nobody from work"


def test_a_failing_check_is_made_again_with_a_wait_that_doubles_to_a_minute() -> None:
    dues = [after(*[BAD] * count).due_s or 0.0 for count in range(1, 9)]
    waits = [later - sooner for sooner, later in zip([0.0, *dues], dues, strict=False)]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert BACK_OFF_MAX_S == 60
    closed = after(BAD, BAD, GOOD)
    assert (closed.passes, closed.failures, closed.due_s) == (True, 0, None)


def test_what_can_tell_nothing_closes_nothing() -> None:
    state = after(BAD, NOTHING)
    assert (state.passes, state.code, state.message) == (False, "CODE", "why")
    assert state.due_s is not None


def test_a_check_that_passes_is_made_again_where_it_has_a_period() -> None:
    assert after(GOOD, again_s=10.0).due_s == 10.0


def test_an_attempt_that_failed_by_it_opens_a_check_until_a_look_after_a_wait() -> None:
    state = failed(PASSING, "MODEL_QUOTA", "no money left", now=NOW, now_s=100.0)
    assert (state.passes, state.code, state.message, state.due_s) == (
        False, "MODEL_QUOTA", "no money left", 102.0,
    )  # fmt: skip
    assert after(GOOD, before=state).passes


def test_attempts_that_go_on_failing_wait_longer_though_each_look_passes() -> None:
    state, waits = PASSING, []
    for _ in range(7):
        state = failed(state, "MODEL_QUOTA", "no money left", now=NOW, now_s=100.0)
        waits.append((state.due_s or 0.0) - 100.0)
        state = looked(state, GOOD, now=NOW, now_s=200.0)
        assert state.passes
    assert waits == [2, 8, 32, 60, 60, 60, 60], "three failures cost half a minute"
    state = failed(succeeded(state), "MODEL_QUOTA", "no money left", now=NOW, now_s=100.0)
    assert state.due_s == 102.0, "an attempt that came through begins anew"


def test_what_others_report_makes_a_pod_look_and_neither_opens_nor_closes() -> None:
    state = suspected(PASSING, now_s=50.0)
    assert (state.ok, state.passes, state.due_s) == (True, False, 50.0)
    assert after(GOOD, before=state).passes
    assert not after(BAD, before=state).passes
    assert after(NOTHING, before=state).passes
    failing = after(BAD)
    assert suspected(failing, now_s=0.5) == failing, "it has its own wait"
