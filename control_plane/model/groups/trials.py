"""The trials of a study, and what they came to, pure.

A trial is a set of values that runs in one slot or more, and is known when so many of them have ended as it
repeats. One that was pruned in any of these has measured nothing whole; one that breaks a constraint in any
slot is infeasible. What runs again later adds to what was measured, or changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.model.groups.constraints import Constraint
from control_plane.model.groups.members import COUNTED_AS, Trial
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.pruning import VALUE_MAX, Stop, stop_of
from events.kinds.results import is_measured
from events.lifecycle import FINAL, Fault, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to, of all its slots together.

    `numbers` are what its runs measured, of each goal, `means` their means. With `has_failed` nothing was
    measured, and a run failed by its own fault.
    """

    values: Values
    slots: Sequence[int]
    has_ended: bool
    numbers: Sequence[Sequence[float]] = ()
    excess: Sequence[float] = ()
    stop: Stop | None = None
    has_failed: bool = False

    @property
    def means(self) -> Sequence[float]:
        """The mean of its runs, of each goal; empty where nothing is measured."""
        return [sum(each) / len(each) for each in self.numbers]

    @property
    def objective(self) -> float | None:
        """The mean of the first goal."""
        return sum(self.numbers[0]) / len(self.numbers[0]) if self.numbers else None

    @property
    def best(self) -> float | None:
        """Its objective, if it may be the best: None of an infeasible one."""
        return None if any(each > 0 for each in self.excess) else self.objective

    @property
    def is_known(self) -> bool:
        """Say whether it was tried, and did not merely fail."""
        return bool(self.numbers) or self.stop is not None


def trial_of(
    run: Mapping[str, Any], values: Values, metrics: Sequence[str], constraints: Sequence[Constraint]
) -> Trial:
    """Return the trial that the newest run of a slot is; `metrics` are one headline number, or two.

    It has measured nothing where it lacks one of them.
    """
    status = Status(run["status"])
    measured: tuple[float, ...] = ()
    if COUNTED_AS[status] == "succeeded":
        measured = tuple(each.excess(run.get("summary") or {}) for each in constraints)
    numbers = [objective(run, each) for each in metrics]
    is_whole = None not in numbers
    fault = (run.get("error") or {}).get("fault") if status is Status.FAILED else None
    return Trial(
        run["slot"],
        values,
        status in FINAL,
        numbers[0] if is_whole else None,
        measured,
        stop_of(run) if status is Status.CANCELED else None,
        second=numbers[1] if is_whole and len(numbers) > 1 else None,
        is_own_fault=fault == Fault.RUN,
        key=in_json(values),
    )


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
    values, places = slots[0].values, [each.slot for each in slots]
    ended = [each for each in slots if each.has_ended]
    if len(ended) < repeats:
        return Outcome(values=values, slots=places, has_ended=False)
    stops = [each.stop for each in ended[:repeats] if each.stop is not None]
    if stops:
        stop = min(stops, key=lambda each: each.step)
        return Outcome(values=values, slots=places, has_ended=True, stop=stop)
    measured = [(each.objective, each.second) for each in ended if each.objective is not None]
    if not measured:
        failed = any(each.is_own_fault for each in ended)
        return Outcome(values=values, slots=places, has_ended=True, has_failed=failed)
    excess = [max(each) for each in zip(*(slot.excess for slot in ended if slot.excess), strict=True)]
    numbers = [[one for one, _ in measured]]
    if seconds := [second for _, second in measured if second is not None]:
        numbers.append(seconds)
    return Outcome(values=values, slots=places, has_ended=True, numbers=numbers, excess=excess)
