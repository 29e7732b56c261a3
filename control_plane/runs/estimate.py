"""Estimates what a run costs and how long it takes, before it is submitted.

A kind may say it itself (`control_plane/reads/kinds/estimators.py`); else the runs of the kind before it do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Final

from msgspec import structs

from control_plane.model.views.runs import usage
from control_plane.reads.kinds.estimators import Estimators, estimators_of_kinds, expected_of
from control_plane.reads.reading import Reading, RunFilters
from control_plane.runs.submission import Submission, order_of
from control_plane.store.reads import USAGE_EVENTS_MAX
from events.answers.kinds.estimates import GUESS_MAX, EstimatedPart, RunEstimate
from events.answers.runs import RunRow, Usage
from events.formatting import dollars, seconds
from events.lifecycle import Status

LOOKED_AT_MAX: Final = 50  # the newest runs of the kind
COUNTED_MAX: Final = 20  # of these, the newest that came to their end
WHOLE: Final = frozenset(
    {Status.COMPLETED, Status.AWAITING_HUMAN, Status.HUMAN_VALIDATED, Status.HUMAN_REJECTED}
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What `runs` earlier runs cost on average, in US dollars, and how long half of them took at most."""

    runs: int = 0
    cost_usd: float = 0.0
    duration_s: float | None = None
    is_least: bool = False

    @property
    def words(self) -> str:
        """It in a sentence."""
        if not self.runs:
            return "not known: no run of this kind came to its end lately"
        past = "the last run" if self.runs == 1 else f"the last {self.runs} runs"
        least = "at least " if self.is_least else ""
        cost = f"{least}{dollars(self.cost_usd)}" if self.cost_usd else f"{least}no money that is known"
        time = "" if self.duration_s is None else f", about {seconds(self.duration_s)}"
        return f"{cost}{time}, as {past} of this kind"


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of runs that are not submitted yet. Raises `Rejected`, and `Transient`."""

    reading: Reading
    estimators: Estimators = field(default_factory=estimators_of_kinds)

    async def of(self, wanted: Submission) -> RunEstimate:
        """Return what a submission would take, beside the budget in its specification."""
        order = await order_of(wanted)
        budget = getattr(order.spec, "max_cost_usd", None)
        reads, loop = self.reading.run_reads, self.reading.kind_loops.of(wanted.kind)
        parts = await expected_of(wanted.kind, self.estimators.get(wanted.kind), reads, order.spec, loop)
        found = _summed(wanted.kind, parts) if parts else await self.of_kind(wanted.kind)
        return within(found, float(budget) if isinstance(budget, int | float) else None)

    async def of_kind(self, kind: str) -> RunEstimate:
        """Return what a run of a kind probably takes, by those before it."""
        rows = await self.reading.runs(RunFilters(kind=kind), LOOKED_AT_MAX)
        past = [each for each in rows.items if each.status in WHOLE][:COUNTED_MAX]
        if not past:
            return _of_past(kind, Estimate())
        spent = await self.reading.run_reads.usage([each.id for each in past])
        return _of_past(kind, estimated(past, usage(spent, USAGE_EVENTS_MAX)))


def within(found: RunEstimate, budget: float | None) -> RunEstimate:
    """Return an estimate that says whether it is above a budget."""
    is_above = budget is not None and found.cost_usd is not None and found.cost_usd > budget
    words = (
        f"{found.words}; this is above max_cost_usd, {dollars(budget or 0.0)}" if is_above else found.words
    )
    return structs.replace(found, max_cost_usd=budget, exceeds_budget=is_above, words=words)


def _of_past(kind: str, found: Estimate) -> RunEstimate:
    runs = f"{found.runs} runs" if found.runs > 1 else "run"
    return RunEstimate(
        kind=kind,
        items=None,
        seconds=found.duration_s,
        tokens=None,
        cost_usd=found.cost_usd if found.runs else None,
        is_least=found.is_least,
        basis=f"the last {runs} of this kind" if found.runs else "nothing: no run came to its end lately",
        parts=[],
        max_cost_usd=None,
        exceeds_budget=False,
        words=found.words,
    )


def _summed(kind: str, parts: Sequence[EstimatedPart]) -> RunEstimate:
    items, tokens = _sum([each.items for each in parts]), _sum([each.tokens for each in parts])
    time, cost = _sum([each.seconds for each in parts]), _sum([each.cost_usd for each in parts])
    is_least = any(
        None in (each.items, each.seconds) or (cost is not None and each.cost_usd is None) for each in parts
    )
    by = dict.fromkeys(each.basis for each in parts if each.basis)
    basis = "; ".join(by if len(by) < 2 else (f"{each.name}: {each.basis}" for each in parts if each.basis))
    said = [
        None if items is None else f"{items:,.0f} items",
        None if tokens is None else f"{tokens:,.0f} tokens",
        "a time that is not known" if time is None else f"about {seconds(time)}",
        "a cost that is not known" if cost is None else dollars(cost),
    ]
    words = ("at least " if is_least else "") + ", ".join(each for each in said if each)
    return RunEstimate(
        kind=kind,
        items=None if items is None else int(items),
        seconds=time,
        tokens=None if tokens is None else int(tokens),
        cost_usd=cost,
        is_least=is_least,
        basis=basis,
        parts=list(parts),
        max_cost_usd=None,
        exceeds_budget=False,
        words=f"{words} ({basis})" if basis else words,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum of what is known, within what an answer may say; None where nothing is."""
    known = [each for each in values if each is not None]
    return min(GUESS_MAX, sum(known)) if known else None


def estimated(past: Sequence[RunRow], spent: Usage) -> Estimate:
    """Return what one run costs, of runs that cost this together."""
    durations = [
        (datetime.fromisoformat(each.finished_at) - datetime.fromisoformat(each.started_at)).total_seconds()
        for each in past
        if each.started_at is not None and each.finished_at is not None
    ]
    return Estimate(
        runs=len(past),
        cost_usd=(spent.cost_usd or 0.0) / len(past),
        duration_s=median(durations) if durations else None,
        is_least=spent.is_partial or bool(spent.unpriced_calls),
    )
