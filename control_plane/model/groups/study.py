"""The plan `study`: slots whose values are proposed from what was measured so far; pure.

A trial is a set of values that runs `repeats` times: the slots with equal values, wherever they stand. What
it measured is the mean of those that have ended. The first trial is the baseline, where one is given. A trial
that is infeasible or was pruned is never the best, and counts for the patience.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.constraints import Constraint, read_constraint
from control_plane.model.groups.goals import Goal, goals_of
from control_plane.model.groups.members import Members, Trial
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.pruning import Pruning, pruning_of
from control_plane.model.groups.ranking import Front, front, ranked
from control_plane.model.groups.reruns import Reruns
from control_plane.model.groups.space import Dimension, examples, others, space_of
from control_plane.model.groups.trials import Outcome, outcome_of
from events.kinds.kind import Kind
from events.runtime.errors import Rejected

RUNS_MAX: Final = 2_000
DRAWS_MAX: Final = 100  # of a trial, until one is new
UNMEASURED_MAX: Final = 10  # members that succeed without the number of the goal, before any has it
COST: Final = "cost_usd"  # the headline number by which a budget counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Tries values of `space` for the best headline numbers of its `goals`, at most `slots` runs."""

    sampler: str  # grid, random or tpe
    space: Mapping[str, Dimension]
    goals: Sequence[Goal]
    parallel: int
    slots: int
    repeats: int
    seed: int
    points: int
    baseline: Values | None
    target: float | None
    patience: int | None
    stop_after_failures: int | None
    reruns: Reruns
    max_seconds: float | None = None
    max_cost_usd: float | None = None
    budget_usd: float | None = None
    constraints: Sequence[Constraint] = ()
    pruning: Pruning | None = None

    @property
    def goal(self) -> Goal:
        """The first goal, which is the only one of most studies."""
        return self.goals[0]

    @property
    def metrics(self) -> Sequence[str]:
        """The headline numbers of its goals."""
        return [each.name for each in self.goals]

    @property
    def measures(self) -> Sequence[str]:
        """The headline numbers that it asks of its members: those of the goals first."""
        cost = [COST] if self.max_cost_usd is not None else []
        return list(dict.fromkeys([*self.metrics, *(each.name for each in self.constraints), *cost]))

    @property
    def names(self) -> Sequence[str]:
        """The parameters that vary, in their order."""
        return list(self.space)

    @property
    def search_slots(self) -> int:
        """How many slots there are before the confirmation."""
        return self.slots - self.reruns.kept

    def examples(self) -> Sequence[Values]:
        """Return values by which the plan is checked."""
        return [*([self.baseline] if self.baseline else []), *examples(self.space)]

    def others(self, example: Values) -> Iterator[Values]:
        """Yield values of which one has to be possible where an example is not; none for the baseline."""
        if not self.reruns.is_baseline(example):
            yield from others(self.space, example)

    def stopped(self, members: Members) -> str | None:
        """Return why nothing more is to be submitted, though slots are left; None where it is."""
        if self.stop_after_failures is not None and members.failed >= self.stop_after_failures:
            return f"{members.failed} members failed; it stops after {self.stop_after_failures}"
        if (spent := self._spent(members)) is not None:
            return spent
        trials = members.trials
        if members.succeeded >= UNMEASURED_MAX and all(each.objective is None for each in trials):
            return (
                f"{members.succeeded} members succeeded, and none has the number {' and '.join(self.metrics)}"
            )
        if not self.reruns.top:
            return self._reached(trials)
        if self.is_confirming(trials):
            more = f"the best trials ran {self.reruns.repeats} more times each"
            return None if self.confirmations(trials) else more
        why = self.over(trials)
        is_waited_for = self.rests(members) or (why is not None and bool(self.confirmations(trials)))
        return None if is_waited_for else why

    def rests(self, members: Members) -> bool:
        """Say whether the search is over, and the confirmation waits for members that have not ended."""
        trials = members.trials
        if not self.reruns.top or self.is_confirming(trials) or self.over(trials) is None:
            return False
        return not all(each.has_ended for each in trials)

    def over(self, trials: Sequence[Trial]) -> str | None:
        """Return why nothing new is tried any more; None while it is."""
        if self.is_confirming(trials):
            return "its best trials run again"
        if len(trials) >= self.search_slots:
            return f"the {self.search_slots} runs of the search are used up"
        return self._reached(trials)

    def is_confirming(self, trials: Sequence[Trial]) -> bool:
        """Say whether the confirmation of the best has begun."""
        return bool(self.reruns.top) and self.reruns.first(list(self.tried(trials))) is not None

    def confirmations(self, trials: Sequence[Trial]) -> list[Values]:
        """Return the values of the slots that the confirmation still needs; none without one."""
        if not self.reruns.top:
            return []
        tried = list(self.tried(trials))
        first = self.reruns.first(tried)
        before = [each for each in trials if first is None or each.slot < first]
        is_repeated = self.repeats > 1
        best = ranked(self.outcomes(before), self.goal, by_bound=is_repeated)
        return self.reruns.confirming(tried, [each.values for each in best])

    def best(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Return the trials that may be the best, the best first; of two goals the Pareto front."""
        outcomes = self.outcomes(trials)
        if len(self.goals) > 1:
            return front(outcomes, self.goals)
        return ranked(outcomes, self.goal, by_bound=self.repeats > 1 or self.is_confirming(trials))

    def _spent(self, members: Members) -> str | None:
        """Return which budget is used up."""
        if self.max_seconds is not None and members.elapsed_s >= self.max_seconds:
            return f"the {self.max_seconds:g} s of its round are over"
        if self.max_cost_usd is not None and members.cost_usd >= self.max_cost_usd:
            return f"its members cost {members.cost_usd:.2f} USD; {self.max_cost_usd:g} USD are its budget"
        return None

    def _reached(self, trials: Sequence[Trial]) -> str | None:
        """Return which end of the search its trials have reached: the target, or the end of the patience."""
        if self.target is None and self.patience is None:
            return None
        tried = [each for each in self.outcomes(trials) if each.is_known]
        if len(self.goals) > 1:
            return self._unchanged(tried)
        bests = [each.best for each in tried if each.best is not None]
        if not bests:
            return None
        best = self.goal.best(bests)
        if self.target is not None and not self.goal.is_better(self.target, than=best):
            return f"{self.goal.name} reached {best:g}, the target is {self.target:g}"
        since = len(tried) - 1 - [each.best for each in tried].index(best)
        if self.patience is not None and since >= self.patience:
            return f"the last {since} trials were no better than {best:g}"
        return None

    def _unchanged(self, tried: Sequence[Outcome]) -> str | None:
        """Return the end of the patience of a study with two goals: its front stays what it is."""
        found, since = Front(self.goals), 0
        for each in tried:
            since = 0 if found.add(each) else since + 1
        if self.patience is None or not found.outcomes or since < self.patience:
            return None
        return f"the last {since} trials did not change the Pareto front of {len(found.outcomes)}"

    def outcomes(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Return what each trial came to, in their order."""
        return [outcome_of(slots, self.repeats) for _, slots in self.tried(trials)]

    def tried(self, trials: Sequence[Trial]) -> Iterator[tuple[Values, list[Trial]]]:
        """Yield the values of each trial with its slots, in the order of the first of them."""
        found: dict[bytes, list[Trial]] = {}
        for each in sorted(trials, key=lambda each: each.slot):
            found.setdefault(each.key or identity(each.values), []).append(each)
        for slots in found.values():
            yield slots[0].values, slots

    def kept(self, values: Values, slots: Sequence[Trial]) -> Sequence[Trial]:
        """Return those slots of a trial that are never pruned: all of the baseline, and what runs again."""
        return slots if self.reruns.is_baseline(values) else slots[self.repeats :]

    def due(self, trials: Sequence[Trial]) -> list[Values]:
        """Return the values of the slots that come before anything new.

        These are the rest of the trials that have begun, and the baseline where it is to run again.
        """
        tried = list(self.tried(trials))
        begun = [values for values, slots in tried for _ in range(self.repeats - len(slots))]
        return begun + ([self.baseline] * self.reruns.due(tried) if self.baseline else [])

    def woven(self, trials: Sequence[Trial], new: Sequence[Values]) -> list[Values]:
        """Return the values of the slots of new trials, as often as they run, with the baseline between."""
        return list(self.reruns.woven(list(self.tried(trials)), new))

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


def require_measured(study: Study, kind: Kind) -> None:
    """Refuse a study by a number that the kind of its members does not declare. Raises `Rejected`.

    What programs of an open kind measure is known when they have ended.
    """
    if kind.records_freely:
        return
    declared = [each.name for each in kind.headline if each.type == "number"]
    for name in study.measures:
        if name not in declared:
            known = f"it declares {', '.join(declared)}" if declared else "it declares none"
            limited = [each.name for each in study.constraints]
            where = "goal" if name in study.metrics else "constraints" if name in limited else "max_cost_usd"
            message = f"plan.{where}: the kind has no headline number {name!r}; {known}"
            raise Rejected("unknown_number", message)


def study_of(plan: Mapping[str, Any]) -> Study:
    """Return the plan in a body or a document. Raises `Rejected` for one that cannot be carried out."""
    space = space_of(plan["space"])
    baseline = plan.get("baseline")
    if baseline is not None and set(baseline) != set(space):
        raise Rejected("bad_plan", f"plan.baseline: it has a value for each of {', '.join(space)}")
    repeats, reruns = plan.get("repeats", 1), _reruns_of(plan)
    runs_again = bool(reruns.every or reruns.top)
    slots = plan["max_runs"] if runs_again else plan["max_runs"] // repeats * repeats
    if slots - reruns.kept < repeats:
        kept = f", of which {reruns.kept} are for its confirmation" if reruns.kept else ""
        raise Rejected(
            "bad_plan", f"plan.max_runs: {plan['max_runs']} is no room for {repeats} repeats{kept}"
        )
    return Study(
        sampler=plan["sampler"],
        space=space,
        goals=_goals_of(plan),
        parallel=plan["parallel"],
        slots=slots,
        repeats=repeats,
        seed=plan.get("seed", 0),
        points=plan.get("points", 5),
        baseline=baseline,
        target=plan.get("target"),
        patience=plan.get("patience"),
        stop_after_failures=plan.get("stop_after_failures"),
        reruns=reruns,
        max_seconds=plan.get("max_seconds"),
        max_cost_usd=plan.get("max_cost_usd"),
        budget_usd=plan.get("budget_usd"),
        constraints=[read_constraint(each) for each in plan.get("constraints") or ()],
        pruning=pruning_of(plan),
    )


def _goals_of(plan: Mapping[str, Any]) -> tuple[Goal, ...]:
    goals = goals_of(plan["goal"])
    alone = [name for name in ("target", "confirm") if len(goals) > 1 and plan.get(name) is not None]
    if alone:
        raise Rejected("bad_plan", f"plan.{alone[0]}: it is for a study with one goal")
    return goals


def _reruns_of(plan: Mapping[str, Any]) -> Reruns:
    baseline, every, confirm = plan.get("baseline"), plan.get("baseline_every"), plan.get("confirm") or {}
    if every is not None and baseline is None:
        raise Rejected("bad_plan", "plan.baseline_every: the study has no baseline that could run again")
    return Reruns(
        baseline=baseline,
        usual=plan.get("repeats", 1),
        every=every,
        top=confirm.get("top", 0),
        repeats=confirm.get("repeats", 0),
    )
