"""The register of an attempt's uploads: the outbox, in whose order ingest receives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from events.delivery.outbox import Outbox
from events.kinds.fact import Fact
from events.queue.claims import Claim


@dataclass(frozen=True, slots=True)
class OutboxRegistry:
    """Registers through the outbox of this worker."""

    outbox: Outbox

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        """Keep facts and return the last sequence. Raises `Transient`, or `Conflict` after the end."""
        return self.outbox.append(claim.attempt_id, facts)

    def has_left(self, claim: Claim, sequence: int) -> bool:
        """Say whether ingest has everything up to `sequence`; asking makes the sender hurry."""
        if self.outbox.has_left(claim.attempt_id, sequence):
            return True
        self.outbox.due.set()
        return False
