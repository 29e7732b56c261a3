"""The plan `study`: slots whose values are proposed from what was measured so far; pure.

A trial is a set of values that runs `repeats` times: the slots with equal values, wherever they stand. What it
measured is the mean of those that have ended. The first trial is the baseline, where one is given. A trial that is
infeasible or was pruned is never the best, and counts for the patience.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.constraints import Constraint, read_constraint
from control_plane.model.groups.members import Members, Trial
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.pruning import Pruning, pruning_of
from control_plane.model.groups.space import Dimension, examples, space_of
from control_plane.model.groups.trials import Outcome, outcome_of
from events.kinds.results import Column
from events.runtime.errors import Rejected

RUNS_MAX: Final = 2_000
DRAWS_MAX: Final = 100  # of a trial, until one is new


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Tries values of `space` for the best headline number `metric`, at most `slots` runs."""

    sampler: str  # grid, random or tpe
    space: Mapping[str, Dimension]
    metric: str
    is_lower_better: bool
    parallel: int
    slots: int
    repeats: int
    seed: int
    points: int
    baseline: Values | None
    target: float | None
    patience: int | None
    stop_after_failures: int | None
    constraints: Sequence[Constraint] = ()
    pruning: Pruning | None = None

    @property
    def measures(self) -> Sequence[str]:
        """The headline numbers that it asks of its members: that of the goal first."""
        return list(dict.fromkeys([self.metric, *(each.name for each in self.constraints)]))

    @property
    def names(self) -> Sequence[str]:
        """The parameters that vary, in their order."""
        return list(self.space)

    def examples(self) -> Sequence[Values]:
        """Return values by which the plan is checked."""
        return [*([self.baseline] if self.baseline else []), *examples(self.space)]

    def stopped(self, members: Members) -> str | None:
        """Return why nothing more is to be submitted, though slots are left; None where it is."""
        if self.stop_after_failures is not None and members.failed >= self.stop_after_failures:
            return f"{members.failed} members failed; it stops after {self.stop_after_failures}"
        tried = [each for each in self.outcomes(members.trials) if each.is_known]
        bests = [each.best for each in tried if each.best is not None]
        if not bests:
            return None
        best = min(bests) if self.is_lower_better else max(bests)
        if self.target is not None and (best <= self.target if self.is_lower_better else best >= self.target):
            return f"{self.metric} reached {best:g}, the target is {self.target:g}"
        since = len(tried) - 1 - [each.best for each in tried].index(best)
        if self.patience is not None and since >= self.patience:
            return f"the last {since} trials were no better than {best:g}"
        return None

    def outcomes(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Return what each trial came to, in their order."""
        return [outcome_of(slots, self.repeats) for _, slots in self.tried(trials)]

    def tried(self, trials: Sequence[Trial]) -> Iterator[tuple[Values, list[Trial]]]:
        """Yield the values of each trial with its slots, in the order of the first of them."""
        found: dict[bytes, list[Trial]] = {}
        for each in sorted(trials, key=lambda each: each.slot):
            found.setdefault(identity(each.values), []).append(each)
        for slots in found.values():
            yield slots[0].values, slots

    def begun(self, trials: Sequence[Trial]) -> list[Values]:
        """Return the values of each trial once for each of its repeats that is still to come."""
        return [values for values, slots in self.tried(trials) for _ in range(self.repeats - len(slots))]

    def repeated(self, proposals: Sequence[Values]) -> list[Values]:
        """Return the values of slots: each proposal as often as it is to run."""
        return [values for values in proposals for _ in range(self.repeats)]

    def proposals(self, known: Sequence[Values], count: int) -> list[Values]:
        """Return new values of grid and random, fewer where nothing else is left.

        They follow from the seed and from `known` alone.
        """
        return [each for each in self.candidates(known, count) if each is not None]

    def candidates(self, known: Sequence[Values], count: int) -> Iterator[Values | None]:
        """Yield the values of `proposals`, and None for what is looked at and not new: it may be much."""
        seen = {identity(each) for each in known}
        left = count
        for values in self._grid() if self.sampler == "grid" else self._draws(len(known), count):
            if left == 0:
                return
            is_new = identity(values) not in seen
            seen.add(identity(values))
            left -= is_new
            yield values if is_new else None

    def _grid(self) -> Iterator[Values]:
        # each value once: equal ones would make rows without end of which none is new
        axes = [{in_json(at): at for at in each.points(self.points)} for each in self.space.values()]
        for row in itertools.product(*(each.values() for each in axes)):
            yield dict(zip(self.space, row, strict=True))

    def _draws(self, number: int, count: int) -> Iterator[Values]:
        chance = random.Random(f"{self.seed}/{number}")  # noqa: S311 - a search, no secret
        for _ in range(DRAWS_MAX * count):
            yield {name: each.draw(chance) for name, each in self.space.items()}


def identity(values: Values) -> bytes:
    """Return what equal values have in common."""
    return in_json(values)


def require_measured(study: Study, headline: Sequence[Column]) -> None:
    """Refuse a study by a number that the kind of its members does not declare. Raises `Rejected`."""
    declared = [each.name for each in headline if each.type == "number"]
    for name in study.measures:
        if name not in declared:
            known = f"it declares {', '.join(declared)}" if declared else "it declares none"
            where = "goal" if name == study.metric else "constraints"
            message = f"plan.{where}: the kind has no headline number {name!r}; {known}"
            raise Rejected("unknown_number", message)


def study_of(plan: Mapping[str, Any]) -> Study:
    """Return the plan in a body or a document. Raises `Rejected` for one that cannot be carried out."""
    direction, _, metric = plan["goal"].partition(":")
    space = space_of(plan["space"])
    baseline = plan.get("baseline")
    if baseline is not None and set(baseline) != set(space):
        raise Rejected("bad_plan", f"plan.baseline: it has a value for each of {', '.join(space)}")
    repeats = plan.get("repeats", 1)
    slots = plan["max_runs"] // repeats * repeats
    if not slots:
        raise Rejected("bad_plan", f"plan.max_runs: {plan['max_runs']} is no room for {repeats} repeats")
    return Study(
        sampler=plan["sampler"],
        space=space,
        metric=metric,
        is_lower_better=direction == "min",
        parallel=plan["parallel"],
        slots=slots,
        repeats=repeats,
        seed=plan.get("seed", 0),
        points=plan.get("points", 5),
        baseline=baseline,
        target=plan.get("target"),
        patience=plan.get("patience"),
        stop_after_failures=plan.get("stop_after_failures"),
        constraints=[read_constraint(each) for each in plan.get("constraints") or ()],
        pruning=pruning_of(plan),
    )
