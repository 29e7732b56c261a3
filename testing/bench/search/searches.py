"""Searches: after how many trials a sampler has found what is within five percent of the best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from control_plane.model.groups.members import Trial
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.study import Study, study_of
from control_plane.runs.groups.proposer import request, values_of
from control_plane.runs.groups.tpe import propose
from testing.bench.comparison import OURS, Bench, Goal, Metric, Row, Setting
from testing.bench.search.surfaces import AXES, BEST_WITHIN, configurations, recorded

SEEDS: Final = 20
SMALL: Final = 2
RANDOM: Final = "at random"
TRIALS: Final = Metric("trials", "", more_is_better=False, goals=(Goal(0.5, beside=RANDOM),))
LEAST: Final = Metric("trials at random", "", goals=(Goal(40.0),))

Surface = Mapping[tuple[Any, ...], float | None]
Next = Callable[[Study, Sequence[Trial]], Values]


def surface_of(row: Sequence[float | None]) -> Surface:
    """Return what was recorded of each configuration."""
    return {tuple(each.values()): value for each, value in zip(configurations(), row, strict=True)}


def study_by(sampler: str, seed: int) -> Study:
    """Return the study of a surface."""
    space = {name: {"type": "values", "values": list(values)} for name, values in AXES.items()}
    plan = {"sampler": sampler, "space": space, "goal": "max:speed", "max_runs": 200, "parallel": 1}
    return study_of({**plan, "seed": seed})


def by_estimates(study: Study, trials: Sequence[Trial]) -> Values:
    """Return the next values as the process of proposals does."""
    (params,) = propose(request(study, trials, [each.values for each in trials], 1))
    return values_of(study, params)


def at_random(study: Study, trials: Sequence[Trial]) -> Values:
    """Return values at random that are new."""
    return study.proposals([each.values for each in trials], 1)[0]


def trials_until_best(surface: Surface, study: Study, following: Next) -> int:
    """Return how many trials a search needs; what cannot be started fails by its own fault."""
    enough = (1 - BEST_WITHIN) * max(each for each in surface.values() if each is not None)
    trials: list[Trial] = []
    while True:
        values = following(study, trials)
        found = surface[tuple(values[name] for name in AXES)]
        trials.append(Trial(len(trials), values, True, found, is_own_fault=found is None))
        if found is not None and found >= enough:
            return len(trials)


def run(setting: Setting) -> Iterator[Row]:
    """Search each surface from several seeds both ways."""
    seeds = [1_000 * seed for seed in range(SMALL if setting.small else SEEDS)]
    for name, row in recorded().items():
        surface = surface_of(row)
        ours = [trials_until_best(surface, study_by("tpe", seed), by_estimates) for seed in seeds]
        theirs = [trials_until_best(surface, study_by("random", seed), at_random) for seed in seeds]
        setting.say(f"{name}: tpe {sorted(ours)}, at random {sorted(theirs)}")
        medians = {OURS: [statistics.median(ours)], RANDOM: [statistics.median(theirs)]}
        yield Row(name, TRIALS, medians)
        yield Row(name, LEAST, {OURS: medians[RANDOM]})


BENCH: Final = Bench("search", "how many trials a study by tpe needs, beside one at random", run)
