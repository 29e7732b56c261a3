"""How long a lease lasts, and how often it is renewed; pure.

Law: the other times follow from the first. To change the lease, change that one alone.
"""

from __future__ import annotations

from typing import Final

LEASE_TTL_S: Final = 60.0
# Of a pod that claims over HTTP: its control plane may be away for a while.
HTTP_LEASE_TTL_S: Final = 10 * LEASE_TTL_S
RENEW_EVERY_S: Final = LEASE_TTL_S / 6
