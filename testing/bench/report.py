"""What a run of the benches came to: on the terminal, and in the blocks of docs/performance.md.

The page's prose is written by hand; the block of a bench, from its `<!-- bench: NAME -->` to the next
`<!-- end -->`, is written by the program and by nobody else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from testing.bench.comparison import OURS, Goal, Metric, Row

WIDTH: Final = 118  # of the lines of the documents
NO_GOAL: Final = ("", "")


class Report(msgspec.Struct, frozen=True):
    """What one bench came to, and on which machine."""

    bench: str
    machine: dict[str, str]
    rows: list[Row]


def table(report: Report, before: Report | None = None) -> str:
    """Return the figures as a table, and what was not measured; with what they were `before`, where known."""
    known = {} if before is None else {(row.contest, row.metric.name): row for row in before.rows}
    head = ["what", "by", "figure", "spread", "ratio", "goal", "met"]
    if before is not None:
        head.append("before")
    lines = [head, ["---"] * len(head)]
    for row in report.rows:
        first, *others = _lines(row)
        if before is not None:
            old = known.get((row.contest, row.metric.name))
            first.append("" if old is None or OURS not in old.rounds else _number(old.median(OURS)))
        lines += [first, *(line + [""] * (len(head) - len(line)) for line in others)]
    absent = {f"Not measured: {way}: {why}." for row in report.rows for way, why in row.absent.items()}
    return "\n".join(
        ["| " + " | ".join(line) + " |" for line in lines]
        + [f"\n{_wrapped(each)}" for each in sorted(absent)]
    )


def into(page: str, report: Report) -> str:
    """Return the page with the block of this bench written anew."""
    begin, end = f"<!-- bench: {report.bench} -->", "<!-- end -->"
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    rounds = max(len(each) for row in report.rows for each in row.rounds.values())
    note = f"Medians of {rounds} rounds; {machine}. Again: `python -m testing.bench {report.bench}`."
    block = f"{begin}\n{table(report)}\n\n{_wrapped(note)}\n{end}"
    before, found, rest = page.partition(begin)
    if not found:
        return f"{page.rstrip()}\n\n## {report.bench}\n\n{block}\n"
    return before + block + rest.partition(end)[2]


def _lines(row: Row) -> list[list[str]]:
    """Return a line for our figure, then one for each way beside it."""
    metric = row.metric
    goals = {goal.beside: [_goal(metric, goal), _met(row.is_met(goal))] for goal in metric.goals}
    figure = f"{_number(row.median(OURS))} {metric.unit}".strip() if OURS in row.rounds else ""
    spread = _spread(row.rounds.get(OURS, ()))
    ours = [f"{row.contest}: {metric.name}", OURS, figure, spread, "", *goals.get(None, NO_GOAL)]
    ways = [way for way in dict.fromkeys((*row.rounds, *goals)) if way not in (OURS, None)]
    return [ours, *(["", *_beside(row, way), *goals.get(way, NO_GOAL)] for way in ways if way is not None)]


def _beside(row: Row, way: str) -> list[str]:
    if way not in row.rounds:
        return [way, "", "", ""]
    return [way, _number(row.median(way)), "", _ratio(row.ratio(way)) if OURS in row.rounds else ""]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _goal(metric: Metric, goal: Goal) -> str:
    sign = "≥" if metric.more_is_better else "≤"
    beside = metric.unit if goal.beside is None else "× it"
    return f"{sign} {goal.limit:g} {beside}"


def _met(is_met: bool | None) -> str:
    names: Mapping[bool | None, str] = {None: "–", True: "yes", False: "**no**"}
    return names[is_met]


def _spread(values: Sequence[float]) -> str:
    return f"{_number(min(values))} – {_number(max(values))}" if len(values) > 1 else ""


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
