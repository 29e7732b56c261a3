"""How the learning rate goes over a training run: a pure function of the share that is done."""

from __future__ import annotations

import math
from typing import Final

SCHEDULES: Final = ("constant", "cosine", "linear", "step", "one_cycle")
STEPS: Final = ((0.85, 0.01), (0.6, 0.1))  # from this share of the training on, this factor
PEAK: Final = 0.3  # the share at which one cycle stands highest


def factor(schedule: str, warm_up: float, done: float) -> float:
    """Return the factor on the learning rate after the share `done` (0 to 1) of all steps."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule {schedule!r} is unknown; known: {', '.join(SCHEDULES)}")
    if done < warm_up:
        return max(done, 1e-3) / warm_up
    left = (done - warm_up) / (1.0 - warm_up) if warm_up < 1.0 else 1.0
    match schedule:
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * left))
        case "linear":
            return 1.0 - left
        case "step":
            return next((value for start, value in STEPS if left >= start), 1.0)
        case "one_cycle":
            return (
                left / PEAK if left < PEAK else 0.5 * (1.0 + math.cos(math.pi * (left - PEAK) / (1.0 - PEAK)))
            )
        case _:
            return 1.0
