"""Advances groups: any number of replicas may do so at once, and each slot has one run.

Law: a slot is decided by one compare-and-set on the group, which only an OPEN group takes, before its run is
submitted under an id that follows from the slot alone. A replica that dies in between, or comes second,
leaves slots that are decided and not filled: whoever looks next fills them, before anything else is decided.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Final

from control_plane.concurrency.loops import serve_all
from control_plane.model.groups.matrix import Matrix
from control_plane.model.groups.members import Members, member_id
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.plan import Close, Group, Submit, group_of, is_open, next_slots
from control_plane.model.groups.races.race import Race
from control_plane.model.groups.status import Action, GroupStatus
from control_plane.model.groups.study import COST, Study
from control_plane.runs.decisions import Decider
from control_plane.runs.groups.coordinator import Coordinator
from control_plane.runs.groups.members import submission
from control_plane.runs.groups.proposals import Proposals
from control_plane.runs.groups.proposer import Proposer
from control_plane.runs.groups.refusals import Refusals
from control_plane.runs.groups.spending import Spending
from control_plane.runs.groups.starter import Starter
from control_plane.runs.submission import Submission, Submitter, order_of
from control_plane.store.database import Document
from control_plane.store.queue.groups import Entry, Groups
from control_plane.store.queue.races import Races
from events.runtime.errors import Conflict, Rejected

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
BATCH_MAX: Final = 100
PAGES_MAX: Final = 20
AT_ONCE: Final = 5
FILL_MAX: Final = 100  # runs of one write: each costs the event loop a tenth of a millisecond
STEPS_MAX: Final = 250  # of one group in one turn
PROPOSALS_MAX: Final = 50  # of one decision
CANCELS_MAX: Final = 200  # of one group in one turn
COORDINATED: Final = frozenset({GroupStatus.OPEN, GroupStatus.PAUSED})
BY: Final = "advancer"


@dataclass(frozen=True, slots=True)
class Advancer:
    """Submits the slots of groups, cancels the members of those that are canceled, and closes groups."""

    groups: Groups
    submitter: Submitter
    decider: Decider
    proposer: Proposer = field(default_factory=Proposer)
    proposals: Proposals = field(default_factory=Proposals)
    refusals: Refusals = field(default_factory=Refusals)
    spending: Spending | None = None  # without one a group with a budget submits nothing

    async def run_once(self) -> int:
        """Serve every group that is not closed; return how many runs are new, or raise the first failure."""
        fresh, after = 0, ""
        failure: Exception | None = None
        for _ in range(PAGES_MAX):
            page = await self.groups.active(after, BATCH_MAX)
            try:
                fresh += sum(await serve_all(page, self.advance, at_once=AT_ONCE))
            except Exception as error:  # noqa: BLE001 - raised below; no later page waits for it
                failure = failure or error
            if len(page) < BATCH_MAX:
                break
            after = page[-1]["_id"]
        if failure is not None:
            raise failure
        return fresh

    async def close(self) -> None:
        """End the proposals that are under way, and their processes."""
        await self.proposals.close()
        await self.proposer.close()

    async def advance(self, stored: Document) -> int:
        """Carry on with one group as far as a turn goes; return how many runs are new."""
        fresh = 0
        for _ in range(STEPS_MAX):
            group = group_of(stored)
            if group.filled < group.next and group.status is not GroupStatus.PAUSED:
                count, changed = await self._fill(stored, group)
                fresh += count
            else:
                changed = await self._decide(stored, group)
            if changed is None:
                break
            stored = changed
        return fresh

    async def _fill(self, stored: Document, group: Group) -> tuple[int, Document | None]:
        """Submit the next slots that are decided."""
        until = min(group.next, group.filled + FILL_MAX)
        try:
            wanted = {
                member_id(group.id, group.since, slot): _submission(stored, group, slot)
                for slot in range(group.filled, until)
            }
            orders = {run_id: await order_of(each) for run_id, each in wanted.items()}
            fresh = await self.submitter.enqueue_all(orders)
        # Its kind takes the specification no more, a secret is gone, or what it waits for has failed.
        except (Rejected, Conflict) as error:
            return 0, await self._refused(stored, group, error)
        return fresh, await self.groups.fill(stored, until)

    async def _refused(self, stored: Document, group: Group, error: Rejected | Conflict) -> Document | None:
        """Let an open group rest until a person has looked; of one that ends, take the slots back."""
        log.warning("group.refused", extra={"group": group.id, "why": error.message})
        if group.status is not GroupStatus.OPEN:
            return await self.groups.abandon(stored)
        entry = Entry(Action.PAUSE, GroupStatus.PAUSED, BY, error.message)
        await self.groups.decide(stored, entry, {})
        return None

    async def _decide(self, stored: Document, group: Group) -> Document | None:
        members = await self._members(group)
        match next_slots(group, members):
            case Submit(count, usd) if isinstance(group.plan, Study):
                return await self._propose(stored, group.plan, members, min(count, PROPOSALS_MAX), usd)
            case Submit(count, usd):
                return await self.groups.reserve(stored, count, members, _pending(stored, usd))
            case Close(GroupStatus.CLOSING, reason):
                entry = Entry(Action.STOP, GroupStatus.CLOSING, BY, reason)
                return await self.groups.decide(stored, entry, {"counts": members.counts()})
            case Close(status, reason):
                closed = await self.groups.close(stored, Entry(Action.CLOSE, status, BY, reason), members)
                if closed is not None:
                    log.info("group.closed", extra={"group": group.id, "status": status})
                return None
        await self.groups.note(stored, members)
        is_given_up = group.status is GroupStatus.CANCELING
        if isinstance(group.plan, Race) and group.status in (GroupStatus.OPEN, GroupStatus.CLOSING):
            is_given_up = await self._race(stored, group, group.plan)
        elif isinstance(group.plan, Matrix) and group.plan.nodes and group.status in COORDINATED:
            coordinator = Coordinator(self.groups, Races(self.groups.db), self.decider)
            is_given_up = await coordinator.step(stored, group, group.plan)
        if is_given_up:
            await self._cancel(group, members)
        return None

    async def _race(self, stored: Document, group: Group, race: Race) -> bool:
        """Start a race, and say whether the lanes that still run are given up."""
        return await Starter(self.groups, Races(self.groups.db), self.decider).step(stored, group, race)

    async def _members(self, group: Group) -> Members:
        members = await self.groups.members(group.id, group.first)
        if group.plan.budget_usd is not None and is_open(group):
            found = None if self.spending is None else self.spending.used(group.id, group.first, group.since)
            members = replace(members, used_usd=inf if found is None else await found)
        if not isinstance(group.plan, Study):
            return members
        trials = await self.groups.trials(group.id, group.first, group.plan)
        elapsed_s = (self.decider.clock.now() - group.since).total_seconds()
        is_counted = group.plan.max_cost_usd is not None
        cost_usd = await self.groups.spent(group.id, group.first, COST) if is_counted else 0.0
        return replace(members, trials=trials, elapsed_s=elapsed_s, cost_usd=cost_usd)

    async def _propose(
        self, stored: Document, study: Study, members: Members, count: int, usd: float | None
    ) -> Document | None:
        """Decide on slots of a study with their values, which stand in the group until it has runs."""
        try:
            place = f"{stored['revision']}/{stored['next']}"
            propose = self.proposer.slots
            make = partial(self.refusals.proposal, stored, study, members.trials, count, propose)
            is_long = study.sampler == "tpe"
            proposal = await (self.proposals.of(stored["_id"], place, make) if is_long else make())
        except Rejected as error:
            entry = Entry(Action.PAUSE, GroupStatus.PAUSED, BY, error.message)
            await self.groups.decide(stored, entry, {})
            return None
        if proposal is None:  # it takes longer: a later turn asks again
            return None
        values = proposal.values[:count]
        if not values and study.reruns.top and members.live:
            await self.groups.note(stored, members)
            return None  # the confirmation waits for those that have not ended
        if not values:
            entry = Entry(Action.STOP, GroupStatus.CLOSING, BY, proposal.why)
            return await self.groups.decide(stored, entry, {"counts": members.counts()})
        pending = {**(_pending(stored, usd) or {}), "first": stored["next"]}
        pending |= {"values": [dict(each) for each in values]}
        return await self.groups.reserve(stored, len(values), members, pending)

    async def _cancel(self, group: Group, members: Members) -> None:
        """Cancel members that have not ended; those that a pod holds end when it hears of it."""
        for run_id in await self.groups.live(group.id, group.first, CANCELS_MAX):
            try:
                await self.decider.cancel(run_id, by=f"group:{group.id}")
            except Conflict:
                log.info("group.ended_by_itself", extra={"group": group.id, "run": run_id})


def _submission(stored: Document, group: Group, slot: int) -> Submission:
    values = _values(stored, group, slot)
    pod = group.plan.lanes[slot - group.first].pod if isinstance(group.plan, Race) else None
    waits = isinstance(group.plan, Matrix) and group.plan.nodes > 0
    return submission(stored, slot, values, pod=pod, barrier=waits, usd=_part(stored, slot))


def _pending(stored: Document, usd: float | None) -> Document | None:
    return None if usd is None else {"first": stored["next"], "usd": usd}


def _part(stored: Document, slot: int) -> float | None:
    """Return the part of the budget that was decided for a slot; None where there was no budget then."""
    pending = stored["pending"] or {}
    return pending.get("usd") if pending.get("first", slot + 1) <= slot else None


def _values(stored: Document, group: Group, slot: int) -> Values:
    """Return the values of a slot that is decided: those of its row, or those that were proposed with it."""
    if isinstance(group.plan, Study):
        values: Values = stored["pending"]["values"][slot - stored["pending"]["first"]]
        return values
    return group.plan.values(slot - group.first)
