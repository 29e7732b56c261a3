"""Which leases are over: by the store's clock, and by this replica's own observation, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from control_plane.model.run import HeldLease


@dataclass(frozen=True, slots=True)
class Seen:
    """Since when (monotonic seconds) a lease stands at this renewal."""

    attempt: int
    renewals: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Watch:
    """The observations of this replica without an interruption."""

    seen: Mapping[str, Seen]
    last_tick_s: float


def observe(watch: Watch, leases: Sequence[HeldLease], *, now_s: float, gap_max_s: float) -> Watch:
    """Return the watch after a look at every lease; a pause of this process restarts all its timers."""
    known = watch.seen if now_s - watch.last_tick_s <= gap_max_s else {}
    seen = {}
    for lease in leases:
        before = known.get(lease.run_id)
        same = before is not None and (before.attempt, before.renewals) == (
            lease.attempt,
            lease.renewals,
        )
        seen[lease.run_id] = (
            before if before is not None and same else Seen(lease.attempt, lease.renewals, now_s)
        )
    return Watch(seen, now_s)


def gone(watch: Watch, leases: Sequence[HeldLease], *, now_s: float, ttl_s: float | None = None) -> list[str]:
    """Return the runs whose lease is over by the store's clock and stood still for a whole one of ours.

    `ttl_s` stands in for the length of every lease.
    """
    return [
        lease.run_id
        for lease in leases
        if lease.is_expired
        and now_s - watch.seen[lease.run_id].since_s >= (lease.ttl_s if ttl_s is None else ttl_s)
    ]
