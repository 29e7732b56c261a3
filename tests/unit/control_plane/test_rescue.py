"""An owner is gone when its lease is over by the store's clock and stood still for a whole lease of ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.run import HeldLease
from control_plane.upkeep.rescue import Watch, gone, observe

TTL_S = 60.0
GAP_MAX_S = 15.0


def lease(renewals: int = 0, *, attempt: int = 1, is_expired: bool = True) -> HeldLease:
    return HeldLease("r", attempt, renewals, is_expired)


def watched(moments: list[tuple[float, HeldLease]]) -> list[str]:
    """Return whom a replica takes for gone at the last of its looks."""
    watch = Watch({}, moments[0][0])
    for now_s, seen in moments:
        watch = observe(watch, [seen], now_s=now_s, gap_max_s=GAP_MAX_S)
    now_s, seen = moments[-1]
    return gone(watch, [seen], now_s=now_s, ttl_s=TTL_S)


def looks(until_s: int) -> list[tuple[float, HeldLease]]:
    return [(float(now_s), lease()) for now_s in range(0, until_s + 1, 5)]


def test_a_lease_that_stood_still_for_a_whole_one_is_gone() -> None:
    assert watched(looks(60)) == ["r"]
    assert watched(looks(55)) == []


def test_a_renewal_in_between_starts_all_patience_anew() -> None:
    moments = looks(60)
    moments[6:] = [(now_s, lease(1)) for now_s, _ in moments[6:]]
    assert watched(moments) == []


def test_another_attempt_is_another_owner() -> None:
    moments = looks(60)
    moments[6:] = [(now_s, lease(attempt=2)) for now_s, _ in moments[6:]]
    assert watched(moments) == []


def test_a_lease_that_runs_by_the_stores_clock_is_never_gone() -> None:
    moments = looks(600)
    moments[-1] = (moments[-1][0], lease(is_expired=False))
    assert watched(moments) == []


def test_a_replica_that_looked_away_has_seen_nothing() -> None:
    moments = [look for look in looks(60) if not 20 < look[0] < 40]
    assert watched(moments) == []


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 30), st.booleans()), min_size=1, max_size=60),
)
def test_nobody_is_gone_who_renewed_within_a_lease_of_what_we_saw(steps: list[tuple[float, bool]]) -> None:
    now_s, renewals, moments, last_change_s = 0.0, 0, [], 0.0
    for pause_s, renews in steps:
        now_s += pause_s
        if renews:
            renewals, last_change_s = renewals + 1, now_s
        moments.append((now_s, lease(renewals)))
    if watched(moments):
        assert now_s - max(last_change_s, moments[0][0]) >= TTL_S
