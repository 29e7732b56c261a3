"""A lap of a computation: what it is given, how long it goes on, and what several come to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from events.kinds.compute import SECONDS, ComputeSpec
from events.kinds.results import Value
from events.runtime.clock import Clock


class Telling(Protocol):
    """Hears how far a lap is; returns at once."""

    def progress(self, fraction: float, what: str, number: float) -> None: ...


# Does a lap, and returns its figures by the names of their columns.
Lap = Callable[[Telling], Mapping[str, Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a work is given: `threads` are those that it uses, at most those that were asked for."""

    spec: ComputeSpec
    clock: Clock
    workspace: Path
    threads: int
    variables: Mapping[str, str]
    say: Callable[[str], None]


@dataclass(slots=True)
class Pace:
    """Says how many rounds a lap has: those of its specification, or what fits into its seconds."""

    job: Job
    telling: Telling
    done: int = 0
    begun_s: float = 0.0

    def rounds(self) -> Iterator[int]:
        """Yield the number of each round from 0 on: one at least."""
        self.begun_s = self.job.clock.monotonic_s()
        while not self.done or self._fraction(0.0) < 1.0:
            yield self.done
            self.done += 1
            self.within(0.0)

    def within(self, share: float) -> None:
        """Tell that this share of the present round is done."""
        self.telling.progress(self._fraction(share), "rounds", self.done)

    def _fraction(self, share: float) -> float:
        if self.job.spec.rounds is not None:
            return (self.done + share) / self.job.spec.rounds
        return (self.job.clock.monotonic_s() - self.begun_s) / (self.job.spec.seconds or SECONDS)


def timed(rounds: int, elapsed_s: float) -> dict[str, Value]:
    """Return the figures that every lap has."""
    return {"rounds": rounds, "elapsed_s": elapsed_s, "round_s": elapsed_s / rounds}


def per_s(amount: float, seconds: float) -> float | None:
    """Return a rate; None where no clock saw the time pass."""
    return amount / seconds if seconds > 0 else None


def means(laps: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Return the mean of each figure over the laps that have it; what is no number, or is equal, as it is."""
    found: dict[str, Value] = {}
    for name in dict.fromkeys(name for lap in laps for name in lap):
        values = [lap[name] for lap in laps if lap.get(name) is not None]
        numbers = [each for each in values if isinstance(each, int | float)]
        if not values:
            found[name] = None
        elif len(set(values)) == 1 or len(numbers) < len(values):
            found[name] = values[-1]
        else:
            found[name] = statistics.fmean(numbers)
    return found
