"""What the measurements of a trial came to, pure: rows, headline numbers, and whether to trust them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from events.kinds.results import Value
from events.kinds.trial import LATENCIES, SCENARIOS, TrialSpec
from stages.engines.load.measurement import Measurement
from stages.kinds.trial.points import Point
from stages.kinds.trial.pressure import Pressure

SAYS_CHARS: Final = 500
_OF_ROWS: Final = frozenset(each.name for each in SCENARIOS.columns)


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
        values: dict[str, Value] = {
            **measured.measurement.values(),
            **measured.pressure.values,
            "scenario": str(point.scenario),
            "concurrency": point.concurrency,
            "rate_per_s": point.rate_per_s,
            "repeat": repeat,
            "try": measured.attempt,
            "is_disturbed": measured.is_disturbed,
            "tokens_from": measured.measurement.tokens_from,
            "says": _said(measured.measurement),
        }
        return {name: value for name, value in values.items() if name in _OF_ROWS}

    def spread(self, point: Point) -> float | None:
        """Return the standard deviation of a point's repeats over their mean; None of fewer than two.

        Of a closed loop it is that of the tokens a second, of an open one that of the time of a request.
        """
        name = "tokens_out_per_s" if point.rate_per_s is None else "e2e_mean_s"
        values = [each.measurement.values().get(name) for key, each in self.found.items() if key[0] == point]
        numbers = [each for each in values if each is not None]
        mean = statistics.fmean(numbers) if numbers else 0.0
        return statistics.stdev(numbers) / mean if len(numbers) > 1 and mean > 0 else None

    @property
    def points(self) -> Sequence[Point]:
        """The points of which there is a measurement."""
        return list(dict.fromkeys(point for point, _ in self.found))

    @property
    def wide(self) -> Sequence[Point]:
        """The points whose repeats lie too far apart."""
        return [each for each in self.points if (self.spread(each) or 0.0) > self.spec.spread_max]

    @property
    def is_noisy(self) -> bool:
        """Whether something disturbed a measurement that counts, or repeats lie too far apart."""
        return bool(self.wide) or any(each.is_disturbed for each in self.found.values())

    @property
    def together(self) -> Measurement:
        """All measurements as one; an empty one before there is any."""
        return Measurement.merged([each.measurement for each in self.found.values()] or [Measurement()])

    def headline(self) -> Mapping[str, Value]:
        """Return the numbers of all measurements together; none before there is one."""
        if not self.found:
            return {}
        together, values = self.together, self.together.values()
        others = [each.pressure.others_cores for each in self.found.values()]
        return {
            **{each.name: values.get(each.name) for each in LATENCIES},
            **{name: values[name] for name in ("tokens_out_per_s", "requests_per_s", "goodput_per_s")},
            "peak_tokens_out_per_s": max(
                each.measurement.values()["tokens_out_per_s"] for each in self.found.values()
            ),
            "error_rate": values["error_rate"],
            "success_rate": 1.0 - values["error_rate"],
            "requests": together.requests,
            "errors": together.errors,
            "tokens_in": together.tokens_in,
            "tokens_out": together.tokens_out,
            "spread": max((each for point in self.points if (each := self.spread(point))), default=None),
            "others_cores": max((each for each in others if each is not None), default=None),
        }


def failures_in_words(measurement: Measurement) -> str:
    """Return which requests failed, the most frequent first, with what the server said of each."""
    return "; ".join(
        f"{count:,} x {name}{f': {said}' if (said := measurement.said.get(name)) else ''}"
        for name, count in Counter(measurement.failures).most_common()
    )[:SAYS_CHARS]


def _said(measurement: Measurement) -> str | None:
    return failures_in_words(measurement) or None
