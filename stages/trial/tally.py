"""What the measurements of a trial came to, pure: rows, headline numbers, and whether to trust them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from events.kinds.results import Value
from events.kinds.trial import LATENCIES, TrialSpec
from stages.load.measurement import Measurement
from stages.trial.points import Point
from stages.trial.pressure import Pressure

SAYS_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measurement: the number of the try that it is, and what disturbed it."""

    measurement: Measurement
    pressure: Pressure
    attempt: int
    is_disturbed: bool


@dataclass(slots=True)
class Tally:
    """The measurements that count, by point and repeat."""

    spec: TrialSpec
    found: dict[tuple[Point, int], Measured] = field(default_factory=dict)

    def add(self, point: Point, repeat: int, measured: Measured) -> None:
        """Keep a measurement; one of the same point and repeat is replaced."""
        self.found[point, repeat] = measured

    def row(self, point: Point, repeat: int) -> dict[str, Value]:
        """Return the row of a measurement."""
        measured = self.found[point, repeat]
        values = measured.measurement.values()
        return {
            **values,
            **measured.pressure.values,
            "scenario": str(point.scenario),
            "concurrency": point.concurrency,
            "rate_per_s": point.rate_per_s,
            "repeat": repeat,
            "try": measured.attempt,
            "is_disturbed": measured.is_disturbed,
        }

    def spread(self, point: Point) -> float | None:
        """Return the standard deviation of a point's repeats over their mean; None of fewer than two.

        Of a closed loop it is that of the tokens a second, of an open one that of the time of a request.
        """
        name = "tokens_out_per_s" if point.rate_per_s is None else "e2e_mean_s"
        values = [self.found[each].measurement.values().get(name) for each in self.found if each[0] == point]
        numbers = [float(each) for each in values if isinstance(each, int | float)]
        mean = statistics.fmean(numbers) if numbers else 0.0
        return statistics.stdev(numbers) / mean if len(numbers) > 1 and mean > 0 else None

    @property
    def wide(self) -> Sequence[Point]:
        """The points whose repeats lie too far apart."""
        points = dict.fromkeys(point for point, _ in self.found)
        return [each for each in points if (self.spread(each) or 0.0) > self.spec.spread_max]

    @property
    def is_noisy(self) -> bool:
        """Whether something disturbed a measurement that counts, or repeats lie too far apart."""
        return bool(self.wide) or any(each.is_disturbed for each in self.found.values())

    @property
    def answered(self) -> int:
        """How many requests were answered."""
        return sum(each.measurement.requests - each.measurement.failed for each in self.found.values())

    def headline(self) -> Mapping[str, Value]:
        """Return the numbers of all measurements together; none before there is one."""
        if not self.found:
            return {}
        measured = [*self.found.values()]
        together = Measurement.merged([each.measurement for each in measured])
        values = together.values()
        seconds = sum(each.measurement.seconds for each in measured)
        spreads = [each for point in {point for point, _ in self.found} if (each := self.spread(point))]
        others = [each.pressure.others_cores for each in measured if each.pressure.others_cores is not None]
        speeds = [each.measurement.values().get("tokens_out_per_s") for each in measured]
        requests = together.requests
        return {
            **{each.name: values.get(each.name) for each in LATENCIES},
            "tokens_out_per_s": together.tokens_out / seconds,
            "peak_tokens_out_per_s": max(float(each) for each in speeds if isinstance(each, int | float)),
            "requests_per_s": (requests - together.failed) / seconds,
            "goodput_per_s": together.good / seconds,
            "error_rate": together.failed / requests if requests else None,
            "success_rate": 1 - together.failed / requests if requests else None,
            "requests": requests,
            "errors": together.failed,
            "tokens_in": together.tokens_in,
            "tokens_out": together.tokens_out,
            "spread": max(spreads, default=None),
            "others_cores": max(others, default=None),
        }
