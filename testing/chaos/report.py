"""What a campaign, or several together, came to: for people, and as one JSON line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from testing.chaos.campaign import Settings, Trouble
from testing.chaos.checking.evidence import Violation
from testing.chaos.checking.figures import Figures

SHOWN_MAX: Final = 60
COUNTED: Final = ("runs", "attempts", "events", "decisions", "artifacts", "groups", "rows", "changes")


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign: what was done to the fleet, what it did, and what is wrong with what is left."""

    seed: int
    seconds: float
    bug: str
    faults: dict[str, int]
    requests: int
    mishaps: dict[str, int]
    figures: Figures
    peace_s: float | None
    violations: dict[str, int]
    troubles: list[str]
    """What makes a campaign fail beside a violation: kinds that never struck, ends nobody planned."""

    @property
    def is_red(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.violations or self.troubles)


def result(settings: Settings, trouble: Trouble, figures: Figures, violations: Sequence[Violation]) -> Result:
    """Put a campaign's result together."""
    wanted = {card.kind for lane in settings.lanes for card in lane.cards} - set(trouble.impossible)
    never = [f"no fault of the kind '{kind}' struck" for kind in sorted(wanted) if not trouble.faults[kind]]
    silent = [f"no {kind}" for kind, count in trouble.mishaps.items() if not count]
    restless = [] if trouble.peace_s is not None else ["the fleet did not come to rest"]
    return Result(
        seed=settings.seed,
        seconds=settings.seconds,
        bug=settings.bug,
        faults=dict(trouble.faults),
        requests=trouble.requests,
        mishaps=dict(trouble.mishaps),
        figures=figures,
        peace_s=trouble.peace_s,
        violations=dict(Counter(each.invariant for each in violations)),
        troubles=[*never, *silent, *restless, *trouble.unplanned],
    )


@dataclass(slots=True)
class Sum:
    """Several results together."""

    campaigns: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    mishaps: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=dict)
    violations: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)

    def add(self, one: Result) -> None:
        """Add a result."""
        self.campaigns += 1
        self.seconds += one.seconds
        self.faults.update(one.faults)
        self.mishaps.update(one.mishaps)
        self.requests += one.requests
        figures = one.figures
        for name in COUNTED:
            self.counts[name] += getattr(figures, name)
        self.statuses.update(figures.statuses)
        for name, seconds in figures.times.items():
            self.times.setdefault(name, []).extend(seconds)
        if one.peace_s is not None:
            self.times.setdefault("end of the faults to rest", []).append(one.peace_s)
        self.violations.update(one.violations)
        self.troubles.update(one.troubles)


def lines(total: Sum) -> Iterator[str]:
    """Yield the report, a line at a time."""
    yield f"{total.campaigns} campaign(s), {total.seconds:g} s of faults"
    yield from _table("faults injected", total.faults)
    yield from _table(f"of {total.requests} requests", total.mishaps)
    part = 100 * sum(total.mishaps.values()) / max(1, total.requests)
    yield f"  {part:.1f} % of the requests were faulty"
    yield from _table("what the fleet did", total.counts)
    yield from _table("runs ended", total.statuses)
    yield "times"
    for name, seconds in sorted(total.times.items()):
        yield f"  {name:<45} {_spread(seconds)}"
    yield f"violations: {sum(total.violations.values())}"
    yield from (f"  {count:>6}  {name}" for name, count in total.violations.most_common())
    yield from (f"  trouble: {name} ({count})" for name, count in total.troubles.most_common())


def violations_shown(violations: Sequence[Violation]) -> Iterator[str]:
    """Yield the violations, the first of many."""
    for each in violations[:SHOWN_MAX]:
        yield f"  {each.invariant} | run {each.run_id} | {each.message}"
    if len(violations) > SHOWN_MAX:
        yield f"  … and {len(violations) - SHOWN_MAX} more"


def append(path: Path, one: Result) -> None:
    """Add a result to a file of results."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(one) + b"\n")


def read(path: Path) -> list[Result]:
    """Return the results of a file."""
    return [msgspec.json.decode(line, type=Result) for line in path.read_bytes().splitlines()]


def summed(results: Iterable[Result]) -> Sum:
    """Return the sum of results."""
    total = Sum()
    for one in results:
        total.add(one)
    return total


def _table(title: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield title
    for name, count in sorted(counts.items()):
        yield f"  {name:<45} {count:>9}"


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return f"median {median(seconds):.1f} s, worst {max(seconds):.1f} s, of {len(seconds)}"
