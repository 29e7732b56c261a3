"""Registers the uploads of an attempt in the outbox, so that ingest receives them in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from events.delivery.outbox import Outbox
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim


@dataclass(frozen=True, slots=True)
class OutboxRegistry:
    """Registers uploads as events in the outbox of this worker."""

    outbox: Outbox

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        """Store facts; return the last sequence. Raises `Transient`, `Conflict` after the attempt's end."""
        return self.outbox.append(claim.attempt_id, facts)

    def has_left(self, claim: Claim, sequence: int) -> bool:
        """Say whether ingest has everything up to `sequence`; each call also wakes the sender."""
        if self.outbox.has_left(claim.attempt_id, sequence):
            return True
        self.outbox.due.set()
        return False
