"""The trials of a study, and what they came to, pure.

A trial is a set of values that runs in one slot or more, and is known when so many of them have ended as it
repeats. One that was pruned in any of these has measured nothing whole; one that breaks a constraint in any slot
is infeasible. What runs again later adds to what was measured, or changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.model.groups.constraints import Constraint
from control_plane.model.groups.members import COUNTED_AS, Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.pruning import VALUE_MAX, Stop, stop_of
from events.kinds.results import is_measured
from events.lifecycle import FINAL, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to, of all its slots together; `objective` is their mean."""

    values: Values
    has_ended: bool
    objective: float | None = None
    excess: Sequence[float] = ()
    stop: Stop | None = None

    @property
    def best(self) -> float | None:
        """Its objective, if it may be the best: None of an infeasible one."""
        return None if any(each > 0 for each in self.excess) else self.objective

    @property
    def is_known(self) -> bool:
        """Say whether it was tried, and did not merely fail."""
        return self.objective is not None or self.stop is not None


def trial_of(run: Mapping[str, Any], values: Values, metric: str, constraints: Sequence[Constraint]) -> Trial:
    """Return the trial that the newest run of a slot is."""
    status = Status(run["status"])
    measured: tuple[float, ...] = ()
    if COUNTED_AS[status] == "succeeded":
        measured = tuple(each.excess(run.get("summary") or {}) for each in constraints)
    stop = stop_of(run) if status is Status.CANCELED else None
    return Trial(run["slot"], values, status in FINAL, objective(run, metric), measured, stop)


def objective(run: Mapping[str, Any], metric: str) -> float | None:
    """Return the headline number of a run that has succeeded, None where it has none.

    Beyond `VALUE_MAX` it is told as that: the mean of repeats is a number, too.
    """
    value: Any = (run.get("summary") or {}).get(metric)
    has_succeeded = COUNTED_AS[Status(run["status"])] == "succeeded"
    if not (has_succeeded and is_measured(value)):
        return None
    return max(-VALUE_MAX, min(VALUE_MAX, float(value)))


def outcome_of(slots: Sequence[Trial], repeats: int) -> Outcome:
    """Return what the slots of a trial came to so far."""
    values = slots[0].values
    ended = [each for each in slots if each.has_ended]
    if len(ended) < repeats:
        return Outcome(values=values, has_ended=False)
    stops = [each.stop for each in ended[:repeats] if each.stop is not None]
    measured = [each.objective for each in ended if each.objective is not None]
    if stops:
        return Outcome(values=values, has_ended=True, stop=min(stops, key=lambda each: each.step))
    if not measured:
        return Outcome(values=values, has_ended=True)
    excess = [max(each) for each in zip(*(slot.excess for slot in ended if slot.excess), strict=True)]
    mean = sum(measured) / len(measured)
    return Outcome(values=values, has_ended=True, objective=mean, excess=excess)
