"""The secret of a run, which disguises its data, and which no program and no model is given."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

import numpy as np

from stages.kinds.experiment.seeds import SEED_BITS


@dataclass(frozen=True, slots=True)
class Secret:
    """A key of which every hidden choice of a run follows; what is printed of it is nothing."""

    key: str = field(repr=False)

    @classmethod
    def of_fleet(cls, fleet: str, run_seed: int) -> Secret:
        """Return the secret of a run where a fleet has one of its own: equal seeds give equal data."""
        return cls(hmac.new(fleet.encode(), f"run\0{run_seed}".encode(), hashlib.sha256).hexdigest())

    @property
    def mark(self) -> str:
        """Return a mark that distinguishes two secrets and reveals none."""
        return self._digest("mark").hex()[:16]

    def seed(self, seed: int) -> int:
        """Return the seed that a program is given in place of ours, from which its stage could be derived."""
        return int.from_bytes(self._digest("seed", str(seed))[:4], "big") % (1 << SEED_BITS)

    def chance(self, *purpose: str) -> np.random.Generator:
        """Return the random numbers for one purpose."""
        return np.random.default_rng(int.from_bytes(self._digest("chance", *purpose), "big"))

    def _digest(self, *purpose: str) -> bytes:
        return hmac.new(self.key.encode(), "\0".join(purpose).encode(), hashlib.sha256).digest()
