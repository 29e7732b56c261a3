"""One trial: the networks of a recipe are trained, and what they answer is scored.

Law: the same recipe, data and seed give the same numbers on the same machine; only the
seconds differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn

from events.clock import Clock
from stages.experiment.data import Facts, Part
from stages.experiment.metrics import PROBABILITY_MIN, Floats, class_scores, value_scores
from stages.experiment.network import build
from stages.experiment.recipe import Recipe
from stages.experiment.seeds import seed_for
from stages.experiment.training import BestWeights, Diverged, Training, WeightAverage, rows_of

MEMBERS_MAX: Final = 50
TEMPERATURES: Final = np.exp(np.linspace(-2.0, 2.0, 161))


@dataclass(frozen=True, slots=True)
class Bench:
    """What a trial works with: the rows it learns from, those it watches, and the device."""

    facts: Facts
    train: Part
    watch: Part
    device: torch.device
    clock: Clock


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch of a learning curve."""

    epoch: int
    train_loss: float
    watch_loss: float


@dataclass(frozen=True, slots=True)
class Trial:
    """What one training run measured on the rows it was judged by."""

    scores: Mapping[str, float]
    curve: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    """One trained network: its loss and its answers per epoch, and its last answers."""

    train_losses: tuple[float, ...]
    watched: tuple[Floats, ...]
    judged: Floats
    seconds: float
    parameters: int


def run_trial(bench: Bench, recipe: Recipe, *, judge: Part, seed: int) -> Trial:
    """Train by `recipe` from `seed`, and score the result on `judge`.

    Raises `Diverged`, or `ValueError` for a recipe that makes no sense.
    """
    if not 1 <= recipe.members <= MEMBERS_MAX:
        raise ValueError(f"an ensemble of {recipe.members} networks is out of range")
    seeds = [seed, *(seed_for(seed, "member", number) for number in range(1, recipe.members))]
    members = [_train_member(bench, recipe, judge=judge, seed=each) for each in seeds]
    scores = _scores(bench.facts, _mean([member.judged for member in members]), judge)
    scores["training_seconds"] = sum(member.seconds for member in members)
    scores["parameters"] = float(sum(member.parameters for member in members))
    if not all(math.isfinite(score) for score in scores.values()):
        raise Diverged("a score is not a finite number")
    return Trial(scores, _curve(bench, members))


def _train_member(bench: Bench, recipe: Recipe, *, judge: Part, seed: int) -> _Member:
    torch.manual_seed(seed)  # initial weights and dropout
    network = build(recipe, bench.facts, bench.train.features.shape[1]).to(bench.device)
    training = Training(
        network, recipe, rows_of(bench.train, bench.facts, bench.device), bench.facts, seed=seed
    )
    average, best = WeightAverage(network, recipe.weight_average), BestWeights()
    losses: list[float] = []
    watched: list[Floats] = []
    seconds = 0.0
    for _ in range(training.epochs):
        begun_s = bench.clock.monotonic_s()
        losses.append(training.epoch(average.follow))
        seconds += bench.clock.monotonic_s() - begun_s
        with average.applied():
            watched.append(_answers(bench.facts, _outputs(network, bench.watch, bench.device)))
            if recipe.early_stop:
                best.see(network, _loss(bench.facts, watched[-1], bench.watch))
    with average.applied():
        best.restore(network)
        temperature = _temperature(network, bench) if recipe.temperature else 1.0
        judged = _answers(bench.facts, _outputs(network, judge, bench.device) / temperature)
    count = sum(weights.numel() for weights in network.parameters())
    return _Member(tuple(losses), tuple(watched), judged, seconds, count)


def _outputs(network: nn.Module, part: Part, device: torch.device) -> Floats:
    """Return the raw outputs of `network` for every row of `part`."""
    network.eval()
    with torch.no_grad():
        outputs: torch.Tensor = network(torch.from_numpy(part.features).to(device))
    return outputs.double().cpu().numpy()


def _answers(facts: Facts, outputs: Floats) -> Floats:
    """Return class probabilities, or values in the target's own unit."""
    if facts.task == "regression":
        values: Floats = outputs[:, 0] * facts.target_scale + facts.target_mean
        return values
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _temperature(network: nn.Module, bench: Bench) -> float:
    """Return the temperature with the lowest loss on the watched rows."""
    if bench.facts.task != "classification":
        raise ValueError("temperature scaling needs class probabilities")
    outputs = _outputs(network, bench.watch, bench.device)
    losses = [_loss(bench.facts, _answers(bench.facts, outputs / each), bench.watch) for each in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmin(losses))])


def _loss(facts: Facts, answers: Floats, part: Part) -> float:
    """Return the mean loss: negative log-likelihood, or squared error in standardised units."""
    if facts.task == "regression":
        return float((((answers - part.targets) / facts.target_scale) ** 2).mean())
    picked = answers[np.arange(len(part)), part.targets]
    return float(-np.log(np.clip(picked, PROBABILITY_MIN, 1.0)).mean())


def _scores(facts: Facts, answers: Floats, part: Part) -> dict[str, float]:
    if not np.isfinite(answers).all():
        raise Diverged("the network answers with numbers that are not finite")
    if facts.task == "regression":
        return value_scores(answers, part.targets)
    return class_scores(answers, part.targets)


def _curve(bench: Bench, members: Sequence[_Member]) -> tuple[Point, ...]:
    """Return the learning curve; of an ensemble, that of its mean answer."""
    epochs = range(len(members[0].train_losses))
    return tuple(
        Point(
            epoch + 1,
            float(np.mean([member.train_losses[epoch] for member in members])),
            _loss(bench.facts, _mean([member.watched[epoch] for member in members]), bench.watch),
        )
        for epoch in epochs
    )


def _mean(answers: Sequence[Floats]) -> Floats:
    mean: Floats = np.mean(np.stack(answers), axis=0)
    return mean
