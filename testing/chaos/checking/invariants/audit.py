"""What the product's own audit has to say of what is left: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from control_plane.verify.verifier import REBUILD
from testing.chaos.checking.evidence import Evidence, Violation

REPLAYED: Final = "the replay of the log is equal to what is stored"
VERIFIED: Final = "the product's own audit finds nothing"


def replayed(evidence: Evidence) -> Iterator[Violation]:
    """Every stored field is what the log tells."""
    for finding in evidence.findings:
        if finding.invariant == REBUILD:
            yield Violation(REPLAYED, finding.run_id, finding.message)


def verified(evidence: Evidence) -> Iterator[Violation]:
    """`podfleet verify` is green."""
    for finding in evidence.findings:
        if finding.invariant != REBUILD:
            yield Violation(VERIFIED, finding.run_id, f"{finding.invariant}: {finding.message}")
