"""Boards as the HTTP interface shows them: their cells, and the names under which they are saved."""

from __future__ import annotations

import msgspec

from events.answers.answer import Amount, Answer, Count, Moment
from events.answers.kinds.kind import ColumnAnswer

Told = Amount | str | bool | None


class BoardCell(Answer, frozen=True, kw_only=True):
    """A headline number: `run_id` is the run that it is of, null for a mean; `low` to `high` is its interval.

    `beside` are other numbers of that run, in the order of `beside` of the board.
    `count` runs stand behind it; `runs` are the newest of them, `titles` what they are called.
    """

    number: Amount
    count: Count
    run_id: str | None
    runs: list[str]
    titles: list[str]
    low: Amount | None
    high: Amount | None
    beside: list[Amount | None] = msgspec.field(default_factory=list)


class BoardRow(Answer, frozen=True, kw_only=True):
    """The value of the row's field, and a cell for each column; null where no run has both values."""

    value: Told
    cells: list[BoardCell | None]


class Board(Answer, frozen=True, kw_only=True):
    """A headline number by the values of one field, and of another where `columns_by` is not null.

    `looked_at` runs were looked at, `unmeasured` of them lack the number. `is_partial` says that older runs
    were not looked at; `incomplete`, `rows_left_out` and `columns_left_out` count what is not shown. A value
    that is a list or an object is JSON, cut short. Where several numbers are asked for, `numbers` declares
    that of each column; `beside` are those that stand beside each cell.
    """

    kind: str
    rows_by: str
    columns_by: str | None
    cell: str
    show: str
    method: str
    direction: str | None
    unit: str
    format: str
    columns: list[Told]
    rows: list[BoardRow]
    looked_at: Count
    unmeasured: Count
    incomplete: Count
    rows_left_out: Count
    columns_left_out: Count
    is_partial: bool
    numbers: list[ColumnAnswer] = msgspec.field(default_factory=list)
    beside: list[ColumnAnswer] = msgspec.field(default_factory=list)


class SavedBoard(Answer, frozen=True, kw_only=True):
    """A board, or a view of the list of runs, under a name: `page` says which, `query` is its address."""

    id: str
    page: str
    query: dict[str, str]
    address: str
    created_by: str
    created_at: Moment
    updated_at: Moment
    updated_by: str
    revision: int


class HistoryPoint(Answer, frozen=True, kw_only=True):
    """The number of a run; `low` to `high` is its interval, `schedule` what began it, null for a person."""

    run_id: str
    title: str
    finished_at: Moment
    number: Amount
    low: Amount | None
    high: Amount | None
    line: Told
    schedule: str | None


class History(Answer, frozen=True, kw_only=True):
    """A headline number of runs that succeeded over time, the oldest first; `line` divides them by a field.

    `looked_at` runs were looked at, `unmeasured` of them lack the number; `left_out` are older than
    those that are shown, and `is_partial` says that there are runs that were not looked at.
    """

    kind: str
    cell: str
    lines_by: str | None
    number: ColumnAnswer
    method: str
    points: list[HistoryPoint]
    looked_at: Count
    unmeasured: Count
    left_out: Count
    is_partial: bool
