"""Builds the network that a recipe describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import nn

from stages.experiment.data import Facts
from stages.experiment.recipe import Recipe

ACTIVATIONS: Final[Mapping[str, Callable[[], nn.Module]]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
WIDTH_MAX: Final = 4096
DEPTH_MAX: Final = 32


class Block(nn.Module):
    """One hidden layer, with a bypass where the recipe asks for one and the shapes allow it."""

    def __init__(self, inputs: int, recipe: Recipe) -> None:
        super().__init__()
        norms: Mapping[str, Callable[[int], nn.Module]] = {
            "none": lambda _: nn.Identity(),
            "batch": nn.BatchNorm1d,
            "layer": nn.LayerNorm,
        }
        self.layers = nn.Sequential(
            nn.Linear(inputs, recipe.width),
            norms[recipe.normalisation](recipe.width),
            ACTIVATIONS[recipe.activation](),
            nn.Dropout(recipe.dropout),
        )
        self.bypass = recipe.residual and inputs == recipe.width

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.layers(rows)
        return rows + changed if self.bypass else changed


def build(recipe: Recipe, facts: Facts, features: int) -> nn.Module:
    """Return the untrained network. Raises `ValueError` for a recipe that describes none."""
    check(recipe, facts)
    stem = _convolutions(recipe, facts) if recipe.network == "cnn" else nn.Identity()
    inputs = _flat_features(recipe, facts) if recipe.network == "cnn" else features
    blocks = [Block(inputs if index == 0 else recipe.width, recipe) for index in range(recipe.depth)]
    last = recipe.width if blocks else inputs
    return nn.Sequential(stem, *blocks, nn.Linear(last, facts.outputs))


def check(recipe: Recipe, facts: Facts) -> None:
    """Raise `ValueError` that names the first choice that makes no sense."""
    known = {
        "network": ("mlp", "cnn"),
        "activation": tuple(ACTIVATIONS),
        "normalisation": ("none", "batch", "layer"),
    }
    params = recipe.params()
    for name, values in known.items():
        if params[name] not in values:
            raise ValueError(f"{name} {params[name]!r} is unknown; known: {', '.join(values)}")
    if not (1 <= recipe.width <= WIDTH_MAX and 0 <= recipe.depth <= DEPTH_MAX):
        raise ValueError(f"width {recipe.width} or depth {recipe.depth} is out of range")
    if not 0.0 <= recipe.dropout < 1.0:
        raise ValueError(f"dropout {recipe.dropout} is not in [0, 1)")
    if facts.image_side is None and (recipe.network == "cnn" or recipe.shift):
        raise ValueError(f"{facts.name} has no images to convolve or shift")


def _convolutions(recipe: Recipe, facts: Facts) -> nn.Module:
    side = facts.image_side
    assert side is not None
    channels = _channels(recipe)
    activation = ACTIVATIONS[recipe.activation]
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, channels, 3, padding=1),
        activation(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        activation(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )


def _channels(recipe: Recipe) -> int:
    return max(1, recipe.width // 4)


def _flat_features(recipe: Recipe, facts: Facts) -> int:
    assert facts.image_side is not None
    return 2 * _channels(recipe) * (facts.image_side // 4) ** 2
