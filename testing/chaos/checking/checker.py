"""Holds what a campaign left behind against every invariant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from testing.chaos.checking.evidence import Evidence, Violation
from testing.chaos.checking.invariants import artifacts, audit, groups, log, options, owners, results, runs

INVARIANTS: Final[tuple[Callable[[Evidence], Iterator[Violation]], ...]] = (
    runs.final_status,
    runs.submissions,
    runs.cancels,
    runs.leases,
    runs.journals,
    runs.numbers,
    runs.budgets,
    log.stored,
    log.applied,
    log.delivered,
    log.refused,
    log.complete,
    log.timed,
    audit.replayed,
    audit.verified,
    owners.live_owners,
    owners.suspended,
    owners.claims,
    owners.settlements,
    owners.fenced,
    owners.alive,
    groups.made,
    groups.slots,
    groups.counters,
    groups.nothing_new,
    groups.cancels,
    options.changes,
    options.claimed,
    results.rows,
    artifacts.present,
    artifacts.own_place,
)


def check(evidence: Evidence) -> list[Violation]:
    """Return everything that is not as it has to be."""
    return [violation for invariant in INVARIANTS for violation in invariant(evidence)]
