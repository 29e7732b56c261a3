"""`python -m testing.simulation --seeds N`: plays histories, counts, and shows the first that breaks a law.

`--seed N` plays one history again, exactly, and shows its last steps. `--bug NAME` plants a known bug.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from events.runtime.clock import SystemClock
from testing.simulation.bugs import BUGS
from testing.simulation.history import Outcome, play
from testing.simulation.kernel import TRACE_MAX
from testing.simulation.themes import THEMES

SHOWN_MAX: Final = 60
EXAMPLES_MAX: Final = 5
CHUNK: Final = 10


def main() -> int:
    """Run the command line; return 1 where a law was broken."""
    parser = argparse.ArgumentParser(prog="testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one, and show its last steps")
    parser.add_argument("--steps", type=int, default=SHOWN_MAX, help="how many steps to show")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a known bug")
    parser.add_argument("--theme", choices=THEMES, help="what every history is about besides")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _show(
            _play(arguments.bug, arguments.theme, arguments.seed, trace_max=TRACE_MAX), arguments.steps
        )
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    begun_s = SystemClock().monotonic_s()
    report = Report()
    for outcome in _played(seeds, arguments.bug, arguments.theme, arguments.processes):
        report.add(outcome)
    report.show(SystemClock().monotonic_s() - begun_s)
    return 1 if report.broken else 0


def _play(bug: str | None, theme: str | None, seed: int, *, trace_max: int = 0) -> Outcome:
    themes: tuple[str, ...] = () if theme is None else (theme,)
    if bug is None:
        return play(seed, themes=themes, trace_max=trace_max)
    planted = BUGS[bug]
    themes += tuple(planted.themes)
    return play(seed, planted.product, strikes=planted.strikes, themes=themes, trace_max=trace_max)


def _played(seeds: range, bug: str | None, theme: str | None, processes: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(_play, bug, theme), seeds, chunksize=CHUNK)


class Report:
    """What many histories add up to."""

    def __init__(self) -> None:
        self.seeds = 0
        self.virtual_s = 0.0
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Count one history; the first ones that break a law are told at once."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.steps += outcome.steps
        self.counts += outcome.counts
        self.faults += outcome.faults
        if outcome.violations:
            self.broken.append(outcome)
            if len(self.broken) <= EXAMPLES_MAX:
                _blame(outcome)

    def show(self, seconds: float) -> None:
        """Print the figures."""
        hours, faster = self.virtual_s / 3600, self.virtual_s / max(seconds, 1e-3)
        print(f"{self.seeds:,} seeds, {hours:,.1f} virtual hours in {seconds:,.0f} s ({faster:,.0f} x)")
        print(f"{self.steps:,} steps")
        for name, count in sorted(self.counts.items()):
            print(f"  {count:>12,}  {name}")
        print("faults")
        for name, count in sorted(self.faults.items()):
            print(f"  {count:>12,}  {name}")
        print(f"{len(self.broken):,} seeds break a law")


def _blame(outcome: Outcome) -> None:
    print(f"seed {outcome.seed}: python -m testing.simulation --seed {outcome.seed}")
    for violation in outcome.violations:
        print(f"  {violation}")


def _show(outcome: Outcome, steps: int) -> int:
    for moment_s, who, what in outcome.trace[-steps:]:
        print(f"{moment_s:12.6f}  {who:32}  {what}")
    print(f"{outcome.steps:,} steps, {outcome.virtual_s:.1f} virtual seconds, digest {outcome.digest:08x}")
    if outcome.violations:
        _blame(outcome)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
