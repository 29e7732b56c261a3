"""A run is taken back when its lease has been over for a whole one of served time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.lease_watch import Watch, gone, look
from control_plane.model.run import HeldLease

TTL_S = 60.0
GAP_MAX_S = 10.0
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

Look = tuple[float, HeldLease | None]  # seconds after noon, and the lease if it is over then


def lease(renewals: int = 0, *, attempt: int = 1) -> HeldLease:
    return HeldLease("r", attempt, renewals, TTL_S)


def watched(looks: list[Look]) -> list[str]:
    """Return the runs that are taken back at the last of these looks."""
    watch: Watch | None = None
    over: list[HeldLease] = []
    for at_s, seen in looks:
        over = [] if seen is None else [seen]
        watch = look(watch, over, now=NOON + timedelta(seconds=at_s), gap_max_s=GAP_MAX_S)
    assert watch is not None
    return gone(watch, over)


def looks(until_s: int, *, since_s: int = 0) -> list[Look]:
    return [(float(at_s), lease()) for at_s in range(since_s, until_s + 1, 5)]


def test_a_lease_that_has_been_over_for_a_whole_one_is_gone() -> None:
    assert watched(looks(60)) == ["r"]
    assert watched(looks(55)) == []


def test_a_renewal_ends_the_watch_over_a_lease() -> None:
    assert watched([*looks(30), (35, None), *looks(90, since_s=40)]) == []
    assert watched([*looks(30), *((at_s, lease(1)) for at_s, _ in looks(90, since_s=35))]) == []


def test_another_attempt_is_another_owner() -> None:
    assert watched([*looks(30), *((at_s, lease(attempt=2)) for at_s, _ in looks(90, since_s=35))]) == []


def test_no_outage_however_long_takes_a_run() -> None:
    assert watched([*looks(10), *looks(10_045, since_s=10_000)]) == []
    assert watched([*looks(10), *looks(10_050, since_s=10_000)]) == ["r"], "what was served before counts"


def test_no_restart_however_often_keeps_one() -> None:
    restarted = [each for start in range(0, 200, 20) for each in looks(start + 10, since_s=start)]
    assert watched([each for each in restarted if each[0] <= 110]) == ["r"]


def test_a_clock_that_was_put_back_or_forward_counts_as_nothing() -> None:
    for jump_s in (-3600, 3600):
        moved = [(at_s + jump_s, seen) for at_s, seen in looks(80, since_s=35)]
        assert watched([*looks(30), *moved[:-4]]) == []
        assert watched([*looks(30), *moved]) == ["r"]


def test_a_lease_may_have_a_length_of_its_own() -> None:
    watch = look(None, [lease()], now=NOON, gap_max_s=GAP_MAX_S)
    later = look(watch, [lease()], now=NOON + timedelta(seconds=5), gap_max_s=GAP_MAX_S)
    assert gone(later, [lease()], ttl_s=5) == ["r"]
    assert gone(later, [HeldLease("r", 1, 0, 5.0)]) == ["r"]
    assert gone(later, [lease()], ttl_s=6) == []


@given(steps=st.lists(st.tuples(st.floats(0.1, 30), st.booleans()), min_size=1, max_size=60))
def test_nobody_is_gone_whose_lease_was_not_over_for_a_whole_one(steps: list[tuple[float, bool]]) -> None:
    at_s, served_s, renewals, made = 0.0, 0.0, 0, list[Look]()
    since_s: float | None = None
    for pause_s, renews in steps:
        at_s += pause_s
        served_s += pause_s if made and pause_s <= GAP_MAX_S else 0.0
        renewals += renews
        since_s = served_s if renews or since_s is None else since_s
        made.append((at_s, lease(renewals)))
    assert since_s is not None
    if watched(made):
        assert served_s - since_s >= TTL_S - 0.01
