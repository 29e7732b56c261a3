"""The times of a lease fit together, whatever the lease is."""

from __future__ import annotations

from events.queue.lease_times import LEASE_TTL_S, RENEW_EVERY_S
from pod_worker.attempt.lease import MARGIN_FRACTION, SILENCE_MAX_S


def test_trust_outlasts_several_lost_renewals() -> None:
    assert 3 * RENEW_EVERY_S < LEASE_TTL_S * (1 - MARGIN_FRACTION)


def test_a_worker_gives_up_long_after_its_lease() -> None:
    assert 2 * LEASE_TTL_S < SILENCE_MAX_S
