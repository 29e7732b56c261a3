"""Changes to a training batch: random shifts, noise, and mixtures of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from stages.experiment.data import Facts
from stages.experiment.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Alters batches by the recipe's choices; its own source of chance makes it repeatable."""

    recipe: Recipe
    facts: Facts
    chance: np.random.Generator

    def __call__(self, rows: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the altered batch; targets are soft labels or values."""
        if self.recipe.shift:
            rows = self._shifted(rows)
        if self.recipe.noise > 0:
            noise = self.chance.standard_normal(tuple(rows.shape), dtype=np.float32)
            rows = rows + self.recipe.noise * torch.from_numpy(noise).to(rows.device)
        if self.recipe.mix_up > 0:
            rows, targets = self._mixed(rows, targets)
        return rows, targets

    def _shifted(self, rows: torch.Tensor) -> torch.Tensor:
        """Move each image by whole pixels; what comes into view is empty."""
        side, reach = self.facts.image_side, self.recipe.shift
        assert side is not None
        images = rows.view(-1, side, side)
        padded = functional.pad(images, (reach, reach, reach, reach), value=self.facts.blank)
        moves = torch.from_numpy(self.chance.integers(0, 2 * reach + 1, size=(2, len(rows)))).to(rows.device)
        window = torch.arange(side, device=rows.device)
        down = (moves[0][:, None] + window)[:, :, None]
        across = (moves[1][:, None] + window)[:, None, :]
        number = torch.arange(len(rows), device=rows.device)[:, None, None]
        return padded[number, down, across].reshape(len(rows), -1)

    def _mixed(self, rows: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Blend every row with another one of the batch, and their targets alike."""
        share = float(self.chance.beta(self.recipe.mix_up, self.recipe.mix_up))
        partner = torch.from_numpy(self.chance.permutation(len(rows))).to(rows.device)
        blend = share * rows + (1.0 - share) * rows[partner]
        return blend, share * targets + (1.0 - share) * targets[partner]
