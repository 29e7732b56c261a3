"""A module's mutation score: its verdicts counted, as a row of the table and as what can be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from testing.mutation.related_tests import RelatedTests
from testing.mutation.trial import Baseline, Verdict

HEADER = ("module", "mutants", "killed", "survived", "timed out", "score %", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the tests of one module saw."""

    module: str
    related: RelatedTests
    baseline: Baseline
    verdicts: Sequence[Verdict]
    seconds: float

    @property
    def counts(self) -> Counter[str]:
        """How many mutants came to each end."""
        return Counter(each.outcome for each in self.verdicts)

    @property
    def percent(self) -> float:
        """The share of mutants that a test saw; one that never ends is seen."""
        return 100 * (1 - self.counts["survived"] / len(self.verdicts)) if self.verdicts else 0.0

    def row(self) -> tuple[str, ...]:
        """Return the module's row of the table."""
        counts = self.counts
        numbers = (len(self.verdicts), *(counts[each] for each in ("killed", "survived", "timed out")))
        name = self.module + (" *" if self.baseline.left_out else "")
        return (name, *map(str, numbers), f"{self.percent:.1f}", f"{self.seconds:.0f}")

    def about_judges(self) -> Iterator[str]:
        """Yield who judged."""
        yield f"{self.module}: judged by"
        if self.related.through:
            yield f"  (no test imports it; these import {', '.join(self.related.through)})"
        yield from (f"  {file} {seconds:.1f} s" for file, seconds in self.baseline.seconds.items())
        yield from (f"  left out: {file}" for file in self.baseline.left_out)

    def survivors(self) -> Iterator[str]:
        """Yield the mutants that no test saw."""
        alive = (each.mutant for each in self.verdicts if each.outcome == "survived")
        for mutant in sorted(alive, key=lambda mutant: mutant.line):
            yield f"{self.module}:{mutant.line}"
            yield from (f"  - {line}" for line in mutant.before.splitlines())
            yield from (f"  + {line}" for line in mutant.after.splitlines())

    def kept(self) -> dict[str, Any]:
        """Return all of it but the mutants' whole sources."""
        return {
            "module": self.module,
            "percent": self.percent,
            "counts": dict(self.counts),
            "seconds": self.seconds,
            "tests": dict(self.baseline.seconds),
            "left_out": list(self.baseline.left_out),
            "through": list(self.related.through),
            "mutants": [
                {
                    "line": each.mutant.line,
                    "before": each.mutant.before,
                    "after": each.mutant.after,
                    "outcome": each.outcome,
                    "by": each.by,
                    "seconds": each.seconds,
                }
                for each in self.verdicts
            ],
        }


def table(scores: Iterable[Score]) -> str:
    """Return the table of some modules."""
    rows = [HEADER, *(score.row() for score in scores)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
