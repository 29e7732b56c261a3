"""Recorded surfaces: what an engine measured with each of 200 configurations, and their formula, pure.

The file beside this module was written once by `python -m testing.bench.search.surfaces`. A configuration has
`slots` (parallel requests), `batch` (tokens), `threads` and the type of the `cache`. The formula gives tokens
per second as engines have them:

    speed = 40 · share of threads · slots^0.7 / (1 + crowd) · fit of the batch · cache cost · noise

The share grows up to the cores and falls behind them; more slots than fit the cores crowd; the batch fits
best at a size that grows with the slots; a cache of 8 bits costs a little and needs half of the memory. What
needs more memory than there is cannot be started: null. The noise is lognormal, of two percent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, log2
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("surfaces.json")
AXES: Final[Mapping[str, Sequence[Any]]] = {
    "slots": (1, 2, 4, 8, 16),
    "batch": (128, 256, 512, 1024, 2048),
    "threads": (2, 4, 8, 16),
    "cache": ("f16", "q8_0"),
}
NOISE: Final = 0.02
BEST_WITHIN: Final = 0.05  # a search has found the best when it is so near


@dataclass(frozen=True, slots=True)
class Machine:
    """What a surface was measured on: its cores, slots that fit them, the best batch of one slot, memory."""

    cores: float
    room: float
    batch: float
    growth: float
    memory: float
    cache_cost: float
    width: float


MACHINES: Final[Mapping[str, Machine]] = {
    "small processor": Machine(4.5, 4.5, 250.0, 0.25, 99.0, 0.10, 0.9),
    "large processor": Machine(15.0, 14.0, 500.0, 0.5, 99.0, 0.12, 0.8),
    "little memory": Machine(9.0, 15.0, 300.0, 0.2, 9.0, 0.08, 0.9),
    "wide batches": Machine(8.5, 8.0, 1000.0, 0.4, 13.0, 0.15, 0.9),
}


def speed(machine: Machine, values: Mapping[str, Any], noise: float) -> float | None:
    """Return the tokens per second of a configuration; None where it cannot be started."""
    slots, threads = values["slots"], values["threads"]
    memory = slots * (0.5 if values["cache"] == "q8_0" else 1.0) + values["batch"] / 1024
    if memory > machine.memory:
        return None
    over = log2(threads / machine.cores)
    share = exp(-1.1 * over**2)
    crowd = (slots / machine.room) ** 3
    best = machine.batch * slots**machine.growth
    fit = exp(-((log2(values["batch"] / best) / machine.width) ** 2) / 2)
    cost = 1 - machine.cache_cost if values["cache"] == "q8_0" else 1.0
    return float(40 * share * slots**0.7 / (1 + crowd) * fit * cost * exp(NOISE * noise))


def configurations() -> list[dict[str, Any]]:
    """Return every configuration, the cache changing fastest."""
    return [dict(zip(AXES, row, strict=True)) for row in product(*AXES.values())]


def recorded() -> dict[str, list[float | None]]:
    """Return of each surface what was recorded, in the order of the configurations."""
    found: dict[str, list[float | None]] = json.loads(FILE.read_text())
    return found


def main() -> None:
    """Write the file anew."""
    chance = random.Random(24)
    made = {
        name: [speed(machine, each, chance.gauss(0, 1)) for each in configurations()]
        for name, machine in MACHINES.items()
    }
    rounded = {name: [None if each is None else round(each, 2) for each in row] for name, row in made.items()}
    FILE.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    main()
