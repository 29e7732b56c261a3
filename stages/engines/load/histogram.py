"""A histogram of seconds whose percentiles are right within a thousandth, and which can be merged; pure."""

from __future__ import annotations

import math
from typing import Final, Self

from ddsketch import DDSketch

ACCURACY: Final = 0.001
PERCENTILES: Final = (50, 90, 95, 99)


class Histogram:
    """Seconds that were measured; mean and maximum are exact."""

    __slots__ = ("_max", "_sketch")

    def __init__(self) -> None:
        self._sketch = DDSketch(relative_accuracy=ACCURACY)
        self._max = 0.0

    def __len__(self) -> int:
        return int(self._sketch.count)

    def add(self, seconds: float) -> None:
        """Take one more in."""
        self._sketch.add(max(0.0, seconds))
        self._max = max(self._max, seconds)

    def merge(self, other: Self) -> None:
        """Take all of another one in."""
        self._sketch.merge(other._sketch)
        self._max = max(self._max, other._max)

    def percentile(self, percent: float) -> float:
        """Return the seconds that so many percent do not exceed, by the nearest rank; of one at least."""
        size = len(self)
        rank = max(0, math.ceil(percent / 100 * size - 1e-9) - 1)
        found = self._sketch.get_quantile_value(rank / (size - 1) if size > 1 else 0.0)
        assert found is not None, "an empty histogram has no percentiles"
        return min(self._max, float(found))

    def values(self, name: str) -> dict[str, float]:
        """Return mean, percentiles and maximum as `ttft_p99_s`; nothing where it is empty."""
        if not len(self):
            return {}
        ranks = {f"{name}_p{each}_s": self.percentile(each) for each in PERCENTILES}
        return {f"{name}_mean_s": float(self._sketch.avg), **ranks, f"{name}_max_s": self._max}
