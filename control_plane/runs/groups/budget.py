"""Reads how a group stands to its budget: what its members have spent of it, and what is reserved."""

from __future__ import annotations

from math import isfinite
from typing import Final

import msgspec

from control_plane.model.groups.plan import BUDGET
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads.reading import required
from control_plane.runs.groups.spending import Spending
from control_plane.store.queue.groups import Groups
from events.answers.groups import Group, GroupBudget
from events.kinds.results import is_measured

LOOKED_UP_MAX: Final = 500  # costs of members that one answer waits for; the next one knows more


async def with_budget(groups: Groups, spending: Spending | None, group: Group) -> Group:
    """Return a group with what was spent of its budget; one without a budget as it is.

    Raises `NotFound`, `UnreadableDocument`.
    """
    usd = group.plan.get(BUDGET)
    if spending is None or not isinstance(usd, int | float) or not is_measured(usd):
        return group
    stored = required(await groups.find(group.id), "group", group.id)
    with reading_of("group", group.id):
        spent = await spending.spent(group.id, stored["first"], stored["since"], LOOKED_UP_MAX)
        budget = GroupBudget(
            usd=float(usd),
            spent_usd=spent.ended,
            reserved_usd=spent.reserved if isfinite(spent.reserved) else None,
            is_partial=spent.is_partial,
        )
        return typed(msgspec.structs.replace(group, budget=budget))
