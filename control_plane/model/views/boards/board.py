"""A board: a headline number of runs by the value of one field, and of another; pure.

Law: every number on it is one of a run's summary, or the mean of those of the runs in its cell, which are
counted and named. What is left out is counted as well. The order of the runs changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from control_plane.model.views.boards.interval import mean_of
from control_plane.model.views.boards.values import NONE, Value, value_of
from events.kinds.results import Direction, is_measured

ROWS_MAX: Final = 200
COLUMNS_MAX: Final = 40
RUNS_NAMED_MAX: Final = 20  # of a cell, the newest first

Show = Literal["newest", "best", "mean"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A run as a board takes it; `finished_at` sorts (a moment of the store, or text of one form)."""

    run_id: str
    row: Any
    column: Any
    number: Any
    finished_at: Any = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A number, how many runs stand behind it, and the newest of them, with their titles.

    `run_id` is the one it is of.

    `low` and `high` are the interval of a mean.
    """

    number: float
    count: int
    runs: Sequence[str]
    titles: Sequence[str]
    run_id: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the value of its field, and a cell for each column, None where no run has both values."""

    value: Value
    cells: Sequence[Cell | None]


@dataclass(frozen=True, slots=True)
class Board:
    """Rows and columns in the order of their values, and what is not on them."""

    columns: Sequence[Value]
    rows: Sequence[Row]
    unmeasured: int  # runs without the number
    incomplete: int  # rows that lack a cell, where only complete ones are wanted
    rows_left_out: int
    columns_left_out: int


def board_of(
    entries: Iterable[Entry], show: Show, direction: Direction | None = None, *, complete: bool = False
) -> Board:
    """Return the board of some runs; to show the best one needs a direction."""
    measured: dict[tuple[Value, Value], list[Entry]] = defaultdict(list)
    unmeasured = 0
    for each in entries:
        if is_measured(each.number):
            measured[value_of(each.row), value_of(each.column)].append(each)
        else:
            unmeasured += 1
    all_columns = sorted({column for _, column in measured})
    columns = all_columns[:COLUMNS_MAX]
    by_row: dict[Value, dict[Value, list[Entry]]] = defaultdict(dict)
    for (row, column), found in measured.items():
        by_row[row][column] = found
    whole = [row for row in sorted(by_row) if not complete or all(each in by_row[row] for each in columns)]
    rows = whole[:ROWS_MAX]
    return Board(
        columns=columns,
        rows=[Row(row, _cells(by_row[row], columns, show, direction)) for row in rows],
        unmeasured=unmeasured,
        incomplete=len(by_row) - len(whole),
        rows_left_out=len(whole) - len(rows),
        columns_left_out=len(all_columns) - len(columns),
    )


def _cells(
    found: Mapping[Value, Sequence[Entry]],
    columns: Sequence[Value],
    show: Show,
    direction: Direction | None,
) -> list[Cell | None]:
    return [_cell(found[each], show, direction) if each in found else None for each in columns]


def _cell(entries: Sequence[Entry], show: Show, direction: Direction | None) -> Cell:
    newest_first = sorted(entries, key=_age, reverse=True)
    named = newest_first[:RUNS_NAMED_MAX]
    runs, titles = [each.run_id for each in named], [each.title for each in named]
    if show == "mean":
        mean = mean_of([float(each.number) for each in sorted(entries, key=lambda each: each.run_id)])
        return Cell(mean.mean, len(entries), runs, titles, low=mean.low, high=mean.high)
    shown = newest_first[0]
    if show == "best":
        assert direction is not None, "there is a best one in a direction only"
        # of equals the newest
        best = max if direction == "higher" else min
        shown = best(newest_first, key=lambda each: each.number)
    return Cell(shown.number, len(entries), runs, titles, run_id=shown.run_id)


def _age(entry: Entry) -> tuple[Value, str]:
    return (NONE if entry.finished_at is None else value_of(entry.finished_at)), entry.run_id
