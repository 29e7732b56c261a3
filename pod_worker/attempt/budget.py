"""How long an attempt may last by the budget of its run and the price of its pod, pure.

Law: at that moment the process has ended, whatever it does, and `OVER` later its files are given up. So all
attempts of a run cost at most 1 + `OVER` times its budget, and one that has less than `LEAST_S` left does not
begin. Where a pod is known that is cheap enough, the run is left to that, and charged nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Final

from events.catalog import RunFailed
from pod_worker.attempt.usage import HOUR_S, Rate

LEAST_S: Final = 60.0
OVER: Final = 0.04  # of the time that is left: for files, and the settle; promised are 0.05
GRACE_MAX_S: Final = 30.0
GRACE_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Allowance:
    """How long an attempt may last, counted from its claim; without a budget for ever."""

    total_s: float = inf
    usd: float = inf

    @property
    def warned_s(self) -> float:
        """When the process is told to end."""
        return self.total_s - min(GRACE_MAX_S, GRACE_SHARE * self.total_s) if self.total_s < inf else inf

    @property
    def files_s(self) -> float:
        """Until when files of the attempt are uploaded."""
        return self.total_s * (1 + OVER)


UNBOUNDED: Final = Allowance()


def budget_of(spec: Mapping[str, Any]) -> float | None:
    """Return the budget of a run in dollars, None if it has none."""
    told = spec.get("budget_usd")
    if not isinstance(told, int | float) or isinstance(told, bool):
        return None
    return float(told) if isfinite(told) else None


def allowance(
    spec: Mapping[str, Any], rate: Rate, spent_usd: float | None, cheapest: float | None = None
) -> Allowance | RunFailed:
    """Return how long an attempt may last, or why it does not begin; None is spent where nobody knows it.

    `cheapest` is the price an hour of the cheapest pod that could take the run, None where none is known.
    """
    budget = budget_of(spec)
    if budget is None:
        return UNBOUNDED
    if spent_usd is None:
        message = f"the run may cost {budget:g} USD, and nobody can say what its earlier attempts have cost"
        return RunFailed(code="BUDGET_UNKNOWN", message=message, retryable=True)
    left = budget - spent_usd
    suits_other = cheapest is not None and left > 0 and left * HOUR_S >= cheapest * LEAST_S
    if rate.usd_per_hour is None and suits_other:
        return _left_to_others("this pod knows no price", cheapest or 0.0)
    if rate.usd_per_hour is None:
        message = f"the run may cost {budget:g} USD, and this pod knows no price (PODFLEET_GPU_USD_PER_HOUR)"
        return RunFailed(code="NO_PRICE", message=message, retryable=False)
    total_s = inf if rate.usd_per_hour <= 0 else left / rate.usd_per_hour * HOUR_S
    if left <= 0 or total_s < LEAST_S:
        if suits_other:
            rest = f"what is left of {budget:g} USD pays for {total_s:.0f} s of this pod"
            return _left_to_others(rest, cheapest or 0.0)
        lasts_s = max(0.0, total_s) if left > 0 else 0.0
        message = (
            f"the run may cost {budget:g} USD, of which {spent_usd:.4f} are spent: the rest lasts "
            f"{lasts_s:.0f} s on this pod ({rate.usd_per_hour:g} USD/h), and an attempt needs {LEAST_S:g} s"
        )
        return RunFailed(code="BUDGET_SPENT", message=message, retryable=False)
    return Allowance(total_s, budget)


def _left_to_others(why: str, cheapest: float) -> RunFailed:
    message = f"{why}; it is left to others, of which the cheapest costs {cheapest:g} USD/h"
    return RunFailed(code="POD_TOO_DEAR", message=message, retryable=True)


def overspent(allowed: Allowance, stage: str | None = None) -> RunFailed:
    """Return the end of an attempt that had its whole time."""
    message = f"the budget of {allowed.usd:g} USD is spent: this attempt had {allowed.total_s:.0f} s of it"
    return RunFailed(code="BUDGET_SPENT", message=message, stage=stage, retryable=False)
