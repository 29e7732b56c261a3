"""The measurements of a trial, in their order, pure: repeats are outermost, so that they are interleaved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from events.kinds.trial import TrialSpec
from events.text.traffic import Scenario, read_scenarios


@dataclass(frozen=True, slots=True)
class Point:
    """A scenario under a load: `concurrency` requests at once, or so many a second."""

    scenario: Scenario
    concurrency: int | None = None
    rate_per_s: float | None = None

    @property
    def says(self) -> str:
        """Its name for people."""
        if self.concurrency is not None:
            return f"{self.scenario}, {self.concurrency} at once"
        return f"{self.scenario}, {self.rate_per_s:g} a second"

    def key(self, repeat: int) -> str:
        """Return the key of its row."""
        load = f"c{self.concurrency}" if self.concurrency is not None else f"r{self.rate_per_s:g}"
        return f"{self.scenario}/{load}/{repeat}"


def points_of(spec: TrialSpec) -> Sequence[Point]:
    """Return what a trial measures, each once."""
    scenarios = read_scenarios(spec.scenarios)
    found = [Point(scenario, concurrency=each) for scenario in scenarios for each in spec.concurrency]
    found += [Point(scenario, rate_per_s=each) for scenario in scenarios for each in spec.rates]
    return list(dict.fromkeys(found))


def in_order(points: Sequence[Point], repeats: int) -> Iterator[tuple[int, Point]]:
    """Yield each point once for each repeat, with the number of the repeat from 1 on."""
    for repeat in range(1, repeats + 1):
        for point in points:
            yield repeat, point
