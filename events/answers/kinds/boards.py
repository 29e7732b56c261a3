"""Boards as the HTTP interface shows them: their cells, and the names under which they are saved."""

from __future__ import annotations

from events.answers.answer import Amount, Answer, Count, Moment

Told = Amount | str | bool | None


class BoardCell(Answer, frozen=True, kw_only=True):
    """A headline number: `run_id` is the run that it is of, null for a mean; `low` to `high` is its interval.

    `count` runs stand behind it; `runs` are the newest of them, `titles` what they are called.
    """

    number: Amount
    count: Count
    run_id: str | None
    runs: list[str]
    titles: list[str]
    low: Amount | None
    high: Amount | None


class BoardRow(Answer, frozen=True, kw_only=True):
    """The value of the row's field, and a cell for each column; null where no run has both values."""

    value: Told
    cells: list[BoardCell | None]


class Board(Answer, frozen=True, kw_only=True):
    """A headline number by the values of one field, and of another where `columns_by` is not null.

    `looked_at` runs were looked at, `unmeasured` of them lack the number. `is_partial` says that older runs
    were not looked at; `incomplete`, `rows_left_out` and `columns_left_out` count what is not shown. A value
    that is a list or an object is JSON, cut short.
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
