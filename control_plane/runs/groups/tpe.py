"""`python -m control_plane.runs.groups.tpe`: proposes values by tree-structured Parzen estimators.

It also says by them which parameters decide (PED-ANOVA).

Reads requests and writes answers, each a line of JSON, until its input ends. Nothing is kept between them:
each request has all trials, and equal requests have equal answers. Choices are told by their places, those of
numbers in their order as `ordered`, and other numbers as they are.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from functools import partial
from typing import Any, Final

import optuna

STARTUP_TRIALS: Final = 6  # at random, before anything is estimated
CANDIDATES: Final = 100  # of which the best by the estimates is proposed
ASKS_MAX: Final = 20  # for one proposal, until it is new
LISTED_MAX: Final = 10_000  # combinations that are looked through for one that is new


def propose(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return new values of each parameter, at most `count`; fewer where nothing new was found."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: _distribution(*told) for name, told in request["space"].items()}
    seed = request["seed"] + len(request["trials"])
    sampler = optuna.samplers.TPESampler(
        seed=seed,
        n_startup_trials=STARTUP_TRIALS,
        n_ei_candidates=CANDIDATES,
        multivariate=True,
        constant_liar=True,
    )
    study = optuna.create_study(directions=request["directions"], sampler=sampler)
    for each in request["trials"]:
        study.add_trial(_trial(each, space))
    known = {_identity(each) for each in request["known"]}
    found: list[dict[str, Any]] = []
    for _ in range(ASKS_MAX * request["count"]):
        if len(found) == request["count"]:
            break
        params = study.ask(space).params
        if _identity(params) not in known:
            known.add(_identity(params))
            found.append(params)
    return found or _unseen(space, known, request["count"], random.Random(seed))  # noqa: S311 - a search


def _unseen(
    space: dict[str, Any], known: set[str], count: int, chance: random.Random
) -> list[dict[str, Any]]:
    """Return values at random where only known ones are proposed; none where no others are left.

    Of a space with more than `LISTED_MAX` combinations new ones are always found by asking.
    """
    axes = [places for each in space.values() if (places := _places(each)) is not None]
    if len(axes) < len(space) or math.prod(map(len, axes)) > LISTED_MAX:
        return []
    every = [dict(zip(space, row, strict=True)) for row in itertools.product(*axes)]
    left = [each for each in every if _identity(each) not in known]
    return chance.sample(left, min(count, len(left)))


def _places(distribution: Any) -> range | None:
    """Return the values of a parameter that has few; None of one that has not."""
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return range(len(distribution.choices))
    if isinstance(distribution, optuna.distributions.IntDistribution):
        return range(distribution.low, distribution.high + 1)
    return None


def importance(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the share of each parameter in what decides; none where the trials are too few, or all equal."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: _distribution(*told) for name, told in request["space"].items()}
    study = optuna.create_study(directions=request["directions"])
    for each in request["trials"]:
        study.add_trial(_trial(each, space))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    try:
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, ZeroDivisionError):
        return []
    return [{"name": name, "share": share} for name, share in found.items() if math.isfinite(share)]


def _trial(told: dict[str, Any], space: dict[str, Any]) -> Any:
    """Return a trial as Optuna keeps it: an excess above zero breaks a constraint."""
    excess = {str(place): each for place, each in enumerate(told.get("excess", ()))}
    made = partial(optuna.trial.create_trial, params=told["params"], distributions=space, constraints=excess)
    states = optuna.trial.TrialState
    match told["state"]:
        case "running":
            return made(state=states.RUNNING)
        case "failed":  # without a value it is ranked behind all that have one
            return made(state=states.PRUNED)
        case "pruned":
            return made(state=states.PRUNED, intermediate_values={told["step"]: told["value"]})
    return made(state=states.COMPLETE, values=told["values"])


def _distribution(form: str, low: float, high: float) -> Any:
    match form:
        case "int" | "ordered":
            return optuna.distributions.IntDistribution(int(low), int(high))
        case "values":
            return optuna.distributions.CategoricalDistribution(range(int(high) + 1))
    return optuna.distributions.FloatDistribution(low, high, log=form == "log")


def _identity(params: dict[str, Any]) -> str:
    return json.dumps(params, sort_keys=True)


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = importance(request) if request.get("ask") == "importance" else propose(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
