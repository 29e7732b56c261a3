"""How long a lease lasts, and how often it is renewed; pure.

Law: the other times follow from the first. To change the lease, change that one alone.
"""

from __future__ import annotations

from typing import Final

LEASE_TTL_S: Final = 60.0
RENEWALS_PER_LEASE: Final = 6
RENEW_EVERY_S: Final = LEASE_TTL_S / RENEWALS_PER_LEASE


def held_s(renewals: int, ttl_s: float) -> float:
    """Return for how many seconds a lease of `ttl_s` was held, by how often it was renewed."""
    return renewals * ttl_s / RENEWALS_PER_LEASE
