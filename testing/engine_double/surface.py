"""How fast the double of an engine is by its parameters, and which ones it refuses; pure.

All requests that run share its speed, so that its best parameters are the same under any load.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from events.models.parameter import Value

FASTEST: Final = 400.0  # tokens a second
BEST: Final[Mapping[str, Value]] = {"slots": 8, "batch": 512, "threads": 4, "cache": "q8", "flash": True}
CACHES: Final[Mapping[str, float]] = {"f16": 0.9, "q8": 1.0, "q4": 0.95}
ROOM: Final[Mapping[str, int]] = {"f16": 16_384, "q8": 32_768, "q4": 65_536}  # of slots x batch
PROMPT_SPEED: Final = 20.0  # how much faster prompts are read than answers are written


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the double does not start, in the words of a real engine, and with which status it ends."""

    words: str
    status: int


def tokens_per_s(given: Mapping[str, Value]) -> float:
    """Return its speed, without noise: a hill in all parameters, whose top is `BEST`."""
    at = {**BEST, "cache": "f16", "flash": False, **given}
    slots, batch = (math.log2(float(at[name]) / float(BEST[name])) for name in ("slots", "batch"))
    threads = float(at["threads"]) - float(BEST["threads"])
    away = (slots / 3) ** 2 + (batch / 3) ** 2 + (threads / 4) ** 2
    return FASTEST * 2**-away * CACHES[str(at["cache"])] * (1.0 if at["flash"] else 0.8)


def noisy(speed: float, noise: float, seed: str) -> float:
    """Return a speed as one start of the double has it: `noise` is the deviation of its logarithm."""
    return speed * math.exp(random.Random(seed).gauss(0.0, noise))


def refusal(given: Mapping[str, Value]) -> Refusal | None:
    """Return why it does not start with these parameters, None where it does."""
    cache, slots, batch = str(given["cache"]), int(given["slots"]), int(given["batch"])
    if cache != "f16" and not given["flash"]:
        return Refusal("V cache quantization requires flash_attn", 1)
    if slots * batch > ROOM[cache]:
        return Refusal(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
            f"{slots * batch / 1024:.2f} GiB. GPU 0 has a total capacity of 79.11 GiB.",
            1,
        )
    return None
