"""Where an attempt's uploads are written down: the outbox, in whose order ingest hears of them."""

from __future__ import annotations

from dataclasses import dataclass

from events.catalog import Fact
from events.claims import Claim
from events.outbox import Outbox


@dataclass(frozen=True, slots=True)
class OutboxRegistry:
    """Registers through the outbox of this worker."""

    outbox: Outbox

    def register(self, claim: Claim, fact: Fact) -> int:
        """Keep a fact and return its sequence. Raises `Transient`, or `Conflict` after the attempt's end."""
        return self.outbox.append(claim.run_id, claim.attempt, [fact])

    def has_left(self, claim: Claim, sequence: int) -> bool:
        """Say whether ingest has everything up to `sequence`; asking makes the sender hurry."""
        if self.outbox.has_left(claim.run_id, claim.attempt, sequence):
            return True
        self.outbox.due.set()
        return False
