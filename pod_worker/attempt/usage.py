"""The cost of an attempt to its pod, pure.

Law: a pod costs the same whether its pipeline works, waits for storage or is paused. The time of an attempt
counts from its claim to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from events.catalog import Price, RunUsage

PURPOSE: Final = "pod"
EVERY_S: Final = 60.0
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Rate:
    """The cost factors of a pod: its GPUs, and the price per hour if it is set."""

    gpus: int = 0
    usd_per_hour: float | None = None

    @property
    def is_told(self) -> bool:
        """Return whether there is anything to report."""
        return self.gpus > 0 or self.usd_per_hour is not None


def usage_of(rate: Rate, seconds: float) -> RunUsage:
    """Return the cost of `seconds` of the pod, with the price that was applied."""
    price = None if rate.usd_per_hour is None else Price(pod_usd_per_hour=rate.usd_per_hour)
    return RunUsage(
        purpose=PURPOSE,
        seconds=round(seconds, 3),
        gpu_s=round(seconds * rate.gpus, 3),
        cost_usd=None if rate.usd_per_hour is None else rate.usd_per_hour * seconds / HOUR_S,
        price=price,
    )
