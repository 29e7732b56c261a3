"""Tells how much of the budget of a group its members have used up, or may still use.

Law: a member that has not ended counts with its whole budget, one that has with its cost. So where what is
counted is never above the budget of the group at a decision, all members cost at most what one of a run may
pass its own by, as a share of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, Protocol

from control_plane.store.queue.groups import Groups
from events.kinds.results import is_measured
from events.lifecycle import FINAL, Status

KEPT_MAX: Final = 200  # groups
AT_ONCE: Final = 20  # runs whose cost is looked up
LOOKED_AT_ONCE: Final = 1_000  # of one turn: the others count with their budgets until a later one


class Costs(Protocol):
    """What attempts have cost."""

    async def spent(self, run_id: str, before: int) -> float | None:
        """Return the cost of the attempts of a run before this one, None where it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """Dollars of the members of a group: the cost of those that have ended, and what the others may cost."""

    ended: float
    reserved: float
    is_partial: bool  # of some that have ended the cost is not known yet: their budgets are reserved


@dataclass(slots=True)
class Spending:
    """Counts what members cost; what those cost that have ended is kept in memory."""

    groups: Groups
    costs: Costs
    known: OrderedDict[tuple[str, datetime], dict[str, float]] = field(default_factory=OrderedDict)

    async def used(self, group_id: str, first: int, since: datetime) -> float:
        """Return how many dollars the members from slot `first` on have cost, and may still cost.

        It is infinite where a member has no budget and has not ended, or its cost is not known.
        """
        found = await self.spent(group_id, first, since)
        return found.ended + found.reserved

    async def spent(self, group_id: str, first: int, since: datetime, most: int | None = None) -> Spent:
        """Return what the members from slot `first` on have cost, and may still cost.

        Of at most `most` members more than before the cost is looked up.
        """
        known = self._of(group_id, since)
        statuses = await self.groups.statuses(group_id, first)
        ended = [run_id for run_id, status in statuses.items() if Status(status) in FINAL]
        missing = [run_id for run_id in ended if run_id not in known][:most]
        for at in range(0, len(missing), LOOKED_AT_ONCE):  # one that is not looked up counts with its budget
            known |= await self._costs(missing[at : at + LOOKED_AT_ONCE])
        open_ones = [run_id for run_id in statuses if run_id not in known]
        budgets = await self.groups.budgets(open_ones)
        return Spent(
            ended=sum(known[run_id] for run_id in statuses if run_id in known),
            reserved=sum(_bound(budgets.get(run_id)) for run_id in open_ones),
            is_partial=any(run_id not in known for run_id in ended),
        )

    async def _costs(self, run_ids: list[str]) -> Mapping[str, float]:
        """Return what these runs, which have ended, have cost, without those of which it is not known."""
        attempts = await self.groups.attempts(run_ids)
        turn = asyncio.Semaphore(AT_ONCE)

        async def cost(run_id: str) -> float | None:
            async with turn:
                return await self.costs.spent(run_id, attempts[run_id] + 1)

        found = await asyncio.gather(*(cost(run_id) for run_id in attempts))
        return {run_id: usd for run_id, usd in zip(attempts, found, strict=True) if usd is not None}

    def _of(self, group_id: str, since: datetime) -> dict[str, float]:
        known = self.known.pop((group_id, since), {})
        self.known[group_id, since] = known
        while len(self.known) > KEPT_MAX:
            self.known.popitem(last=False)
        return known


def _bound(budget: object) -> float:
    return float(budget) if isinstance(budget, int | float) and is_measured(budget) else inf
