"""How long a lease lasts, and how often it is renewed; pure.

Law: the other times follow from the first. To change the lease, change that one alone.
"""

from __future__ import annotations

from typing import Final

LEASE_TTL_S: Final = 60.0
RENEW_EVERY_S: Final = LEASE_TTL_S / 6
