"""Keeps in each hypothesis how its search for ideas stands, for those who read the collections themselves.

Law: what it writes follows from the request and its ideas alone. Of two replicas either may write, and both
write the same once the request is over and its log whole; then nobody looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.concurrency.loops import Loop
from control_plane.kinds.ideation.ideas import standing
from control_plane.kinds.ideation.store import Hypotheses
from control_plane.store.database import Database

TICK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class HypothesisUpkeep:
    """Brings hypotheses up to date whose search for ideas is not over."""

    store: Hypotheses

    async def run_once(self) -> int:
        """Return how many hypotheses were changed."""
        after, changed = "", 0
        while page := await self.store.under_way(after):
            told = {each["_id"]: standing(each) for each in page}
            changed += await self.store.tell({each["_id"]: (each, told[each["_id"]]) for each in page})
            after = page[-1]["_id"]
        return changed


def loops(db: Database) -> Sequence[Loop]:
    """Return the background loops of the kind."""
    return [(TICK_S, "hypotheses", HypothesisUpkeep(Hypotheses(db)).run_once)]
