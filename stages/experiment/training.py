"""Trains one network by one recipe, epoch by epoch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from stages.experiment.augmentation import Augmentation
from stages.experiment.data import Facts, Part
from stages.experiment.recipe import Recipe
from stages.experiment.schedule import factor

EPOCHS_MAX: Final = 2000
LOSS_MAX: Final = 1e6  # far above any loss of a network that still learns


class Diverged(ValueError):
    """The training left the finite numbers."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The training rows on the device, targets as soft labels or standardised values."""

    features: torch.Tensor
    targets: torch.Tensor


def rows_of(part: Part, facts: Facts, device: torch.device) -> Rows:
    """Return `part` as a training run wants it."""
    features = torch.from_numpy(part.features).to(device)
    if facts.task == "classification":
        labels = torch.from_numpy(np.eye(facts.outputs, dtype=np.float32)[part.targets])
        return Rows(features, labels.to(device))
    values = (part.targets - facts.target_mean) / facts.target_scale
    return Rows(features, torch.from_numpy(values.astype(np.float32))[:, None].to(device))


class Training:
    """One network on its way: `epoch` after `epoch`."""

    def __init__(self, network: nn.Module, recipe: Recipe, rows: Rows, facts: Facts, *, seed: int) -> None:
        self.network = network
        self.recipe = recipe
        self.rows = rows
        self.facts = facts
        self.chance = np.random.default_rng(seed)
        self.augment = Augmentation(recipe, facts, self.chance)
        self.epochs = min(EPOCHS_MAX, max(1, round(recipe.epochs * recipe.training_length)))
        self.optimiser = make_optimiser(network, recipe)
        self.batches = max(1, len(rows.features) // recipe.batch_size)  # a short last batch is left out
        self.step = 0

    def epoch(self, after_step: Callable[[], None]) -> float:
        """Go once over the rows in a new order; return the mean loss. Raises `Diverged`."""
        self.network.train()
        order = torch.from_numpy(self.chance.permutation(len(self.rows.features))).to(
            self.rows.features.device
        )
        total = torch.zeros((), device=order.device)
        for batch in torch.split(order[: self.batches * self.recipe.batch_size], self.recipe.batch_size):
            total += self._learn(batch)
            after_step()
        mean = float(total) / self.batches
        if not math.isfinite(mean) or mean > LOSS_MAX:
            raise Diverged(f"the training loss is {mean:.3g}")
        return mean

    def _learn(self, batch: torch.Tensor) -> torch.Tensor:
        rate = factor(self.recipe.schedule, self.recipe.warm_up, self.step / (self.epochs * self.batches))
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.lr * rate
        rows, targets = self.augment(self.rows.features[batch], self.rows.targets[batch])
        loss = self._loss(self.network(rows), targets)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.gradient_clip)
        self.optimiser.step()
        self.step += 1
        return loss.detach()

    def _loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.facts.task == "regression":
            return functional.mse_loss(outputs, targets)
        return functional.cross_entropy(outputs, targets, label_smoothing=self.recipe.label_smoothing)


def make_optimiser(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimiser. Raises `ValueError` that names the known ones."""
    weights, rate, decay = network.parameters(), recipe.lr, recipe.weight_decay
    match recipe.optimiser:
        case "sgd":
            return torch.optim.SGD(weights, lr=rate, weight_decay=decay)
        case "momentum":
            return torch.optim.SGD(weights, lr=rate, weight_decay=decay, momentum=recipe.momentum)
        case "nesterov":
            return torch.optim.SGD(
                weights, lr=rate, weight_decay=decay, momentum=recipe.momentum, nesterov=True
            )
        case "adam":
            return torch.optim.Adam(weights, lr=rate, weight_decay=decay)
        case "adamw":
            return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)
        case "rmsprop":
            return torch.optim.RMSprop(weights, lr=rate, weight_decay=decay)
        case unknown:
            raise ValueError(
                f"optimiser {unknown!r} is unknown; known: sgd, momentum, nesterov, adam, adamw, rmsprop"
            )


class WeightAverage:
    """Follows a network by an exponential mean of its weights; without effect at decay 0."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network = network
        self.decay = decay
        self.steps = 0
        self.mean = copy.deepcopy(network.state_dict()) if decay > 0 else None

    def follow(self) -> None:
        """Take the newest weights into the mean; early on it forgets faster, as it knows little."""
        if self.mean is None:
            return
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9.0))
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                self.mean[name].lerp_(value, 1.0 - decay)
            else:
                self.mean[name].copy_(value)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the mean in the place of the weights for a while."""
        if self.mean is None:
            yield
            return
        newest = copy.deepcopy(self.network.state_dict())
        self.network.load_state_dict(self.mean)
        yield
        self.network.load_state_dict(newest)


class BestWeights:
    """Remembers the weights with the lowest loss on the watched rows."""

    def __init__(self) -> None:
        self.loss = math.inf
        self.weights: dict[str, torch.Tensor] | None = None

    def see(self, network: nn.Module, loss: float) -> None:
        """Keep the weights of `network` if its loss is the lowest so far."""
        if loss < self.loss:
            self.loss, self.weights = loss, copy.deepcopy(network.state_dict())

    def restore(self, network: nn.Module) -> None:
        """Put the kept weights back."""
        if self.weights is not None:
            network.load_state_dict(self.weights)
