"""Estimates what a run of a kind costs and how long it takes, from the runs of the kind before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

from control_plane.model.views.runs import usage
from control_plane.reads.reading import Reading, RunFilters
from control_plane.store.reads import USAGE_EVENTS_MAX
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


async def estimate(reading: Reading, kind: str) -> Estimate:
    """Return what a run of a kind probably costs."""
    rows = await reading.runs(RunFilters(kind=kind), LOOKED_AT_MAX)
    past = [each for each in rows.items if each.status in WHOLE][:COUNTED_MAX]
    if not past:
        return Estimate()
    spent = await reading.run_reads.usage([each.id for each in past])
    return estimated(past, usage(spent, USAGE_EVENTS_MAX))


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
