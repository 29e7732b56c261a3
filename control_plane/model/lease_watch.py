"""Which leases are over, in served time: the time in which a replica looked after the leases; pure.

Law: a run is taken back one whole lease of served time after its lease was found over. While no replica
looks, served time stands still, so that no outage takes a run from a living pod; the watch is kept in the
store, so that no restart begins it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from control_plane.model.run import HeldLease


@dataclass(frozen=True, slots=True)
class Overdue:
    """A lease that is over: which renewal was its last, and the served seconds when that was found."""

    attempt: int
    renewals: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Watch:
    """What the replicas have seen of one queue, by run; `looked_at` is a moment of the store's clock."""

    looked_at: datetime
    served_s: float = 0.0
    overdue: Mapping[str, Overdue] = field(default_factory=dict)


def look(before: Watch | None, over: Sequence[HeldLease], *, now: datetime, gap_max_s: float) -> Watch:
    """Return the watch after a look at the leases that are over.

    A longer pause since the last look, and a clock that was put back, are no served time.
    """
    if before is None:
        before = Watch(now)
    passed_s = (now - before.looked_at).total_seconds()
    served_s = before.served_s + (passed_s if 0 < passed_s <= gap_max_s else 0.0)
    overdue = {}
    for lease in over:
        known = before.overdue.get(lease.run_id)
        is_same = known is not None and (known.attempt, known.renewals) == (lease.attempt, lease.renewals)
        overdue[lease.run_id] = (
            known if known is not None and is_same else Overdue(lease.attempt, lease.renewals, served_s)
        )
    return Watch(now, served_s, overdue)


def gone(watch: Watch, over: Sequence[HeldLease], *, ttl_s: float | None = None) -> list[str]:
    """Return the runs whose lease has been over for a whole one; `ttl_s` stands in for the length of each."""
    return [
        lease.run_id
        for lease in over
        if watch.served_s - watch.overdue[lease.run_id].since_s >= (lease.ttl_s if ttl_s is None else ttl_s)
    ]
