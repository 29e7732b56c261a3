"""The recipe of one training run: network, optimiser and regularisers as one flat value, pure.

Law: a recipe is complete. Together with a data set and a seed it decides every number of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Every choice of a training run; the defaults are the plain network of a draft."""

    network: str = "mlp"
    width: int = 64
    depth: int = 2
    activation: str = "relu"
    normalisation: str = "none"
    residual: bool = False
    dropout: float = 0.0
    optimiser: str = "adam"
    lr: float = 0.003
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 32
    epochs: int = 20
    schedule: str = "constant"
    warm_up: float = 0.0
    gradient_clip: float = 0.0
    label_smoothing: float = 0.0
    mix_up: float = 0.0
    shift: int = 0
    noise: float = 0.0
    weight_average: float = 0.0
    members: int = 1
    temperature: bool = False
    early_stop: bool = False
    training_length: float = 1.0

    def changed(self, changes: Mapping[str, Value]) -> Recipe:
        """Return this recipe with `changes` applied."""
        return replace(self, **changes)  # type: ignore[arg-type]  # the declared space names fields only

    def params(self) -> dict[str, Value]:
        """Return every choice by its name."""
        return asdict(self)

    def against(self, other: Recipe) -> dict[str, Value]:
        """Return the choices in which this recipe differs from `other`."""
        theirs = other.params()
        return {name: value for name, value in self.params().items() if value != theirs[name]}


_WORDS: Final[Mapping[str, str]] = {
    "lr": "learning rate",
    "members": "ensemble members",
    "shift": "random shifts (pixels)",
    "noise": "input noise",
    "early_stop": "early stopping",
    "temperature": "temperature scaling",
    "weight_average": "weight averaging",
    "warm_up": "warm-up share",
    "mix_up": "mix-up",
    "training_length": "training length ×",
}


def shown(value: Value) -> str:
    """Return `value` as people write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def described(changes: Mapping[str, Value]) -> str:
    """Return choices as a phrase, such as `width 128, learning rate 0.003`."""
    if not changes:
        return "unchanged"
    return ", ".join(
        f"{_WORDS.get(name, name.replace('_', ' '))} {shown(value)}" for name, value in changes.items()
    )
