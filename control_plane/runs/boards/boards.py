"""Makes boards of the newest completed runs of a kind, and files of them."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.presentation import plain
from control_plane.model.views.boards.board import Cell, Entry, board_of
from control_plane.reads.results.rows import answered
from control_plane.runs.boards.query import METHODS, BoardQuery, CheckedQuery, checked
from control_plane.store.queue.run_fields import FoundRun, NewestRuns, RunFieldReads
from events.answers.kinds.boards import Board as BoardAnswer
from events.answers.kinds.boards import BoardCell, BoardRow
from events.kinds.results import Column, is_measured, wilson
from events.text.escaping import spreadsheet_cell

SHARES: Final = ", with its 95 % interval by Wilson over its items"


@dataclass(frozen=True, slots=True)
class Boards:
    """Boards over runs. Raises `Rejected`."""

    reads: RunFieldReads

    async def board(self, asked: BoardQuery) -> BoardAnswer:
        """Return the board that is asked for, of the newest runs that its filters let through."""
        query = checked(asked)
        found = await self.reads.newest(query.conditions(), query.filters.search(), query.fields)
        # beside the event loop: thousands of runs may stand behind a board
        return await asyncio.to_thread(_answered, query, found)


def in_csv(board: BoardAnswer) -> bytes:
    """Return a board as CSV: a line a row; beside each number its ends, its count, and more of its run.

    No cell is a formula. The ends are there where a cell has any.
    """
    has_ends = any(cell and cell.low is not None for row in board.rows for cell in row.cells)
    has_ends = has_ends or board.show == "mean"
    parts = [
        "",
        *([" low", " high"] if has_ends else []),
        " runs",
        *(f" {each.name}" for each in board.beside),
    ]
    titles = [
        spreadsheet_cell(each) if board.columns_by else board.numbers[place].name
        for place, each in enumerate(board.columns)
    ]
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([spreadsheet_cell(board.rows_by), *(f"{each}{part}" for each in titles for part in parts)])
    for row in board.rows:
        cells = [each for cell in row.cells for each in _numbers(cell, len(parts), has_ends=has_ends)]
        lines.writerow([spreadsheet_cell(row.value), *cells])
    return text.getvalue().encode("utf-8", "replace")


def _numbers(cell: BoardCell | None, count: int, *, has_ends: bool) -> list[str]:
    if cell is None:
        return [""] * count
    found = [cell.number, *([cell.low, cell.high] if has_ends else []), cell.count, *cell.beside]
    return [spreadsheet_cell(each) for each in [*found, *[None] * count][:count]]


def _answered(query: CheckedQuery, found: NewestRuns) -> BoardAnswer:
    show, declared = query.asked.show, query.declared
    measured = {each.id: _measured(query, each) for each in found.runs}
    many = len(declared) > 1
    entries = [entry for each in found.runs for entry in _entries(query, each, measured[each.id])]
    board = board_of(entries, show, declared[0].direction, complete=query.asked.complete)
    columns = [each.shown for each in board.columns]
    numbers = [declared[int(str(each))] for each in columns] if many else list(declared)
    per_column = numbers if many else numbers * len(columns)
    return BoardAnswer(
        kind=query.asked.kind,
        rows_by=str(query.rows),
        columns_by=None if query.columns is None else str(query.columns),
        cell=",".join(each.name for each in declared),
        show=show,
        method=METHODS[show] + (SHARES if show != "mean" and any(each.share_of for each in declared) else ""),
        direction=declared[0].direction,
        unit=declared[0].unit,
        format=declared[0].format,
        columns=[each.name for each in numbers] if many else columns,
        rows=[
            BoardRow(
                value=row.value.shown,
                cells=[_told(query, *each, measured) for each in zip(row.cells, per_column, strict=True)],
            )
            for row in board.rows
        ],
        looked_at=len(found.runs),
        unmeasured=sum(not _has_any(run, declared) for run in measured.values()),
        incomplete=board.incomplete,
        rows_left_out=board.rows_left_out,
        columns_left_out=board.columns_left_out,
        is_partial=found.is_partial,
        numbers=answered(numbers),
        beside=answered(query.beside),
    )


def _measured(query: CheckedQuery, run: FoundRun) -> Mapping[str, Any]:
    """Return the numbers of a run by name."""
    values = run.values[len(query.fields) - len(query.read) :]
    return {each.name: value for each, value in zip(query.read, values, strict=True)}


def _has_any(run: Mapping[str, Any], declared: Sequence[Column]) -> bool:
    return any(is_measured(run.get(each.name)) for each in declared)


def _entries(query: CheckedQuery, run: FoundRun, measured: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield what a run has in the board; of several numbers each is a column, in their order."""
    row, column = run.values[0], run.values[1] if query.columns else None
    if len(query.declared) == 1:
        number = measured[query.declared[0].name]
        yield Entry(run.id, row, column, number, run.finished_at, run.title)
        return
    for place, each in enumerate(query.declared):
        if is_measured(measured[each.name]):
            yield Entry(run.id, row, place, measured[each.name], run.finished_at, run.title)


def _told(
    query: CheckedQuery, cell: Cell | None, number: Column, measured: Mapping[str, Mapping[str, Any]]
) -> BoardCell | None:
    if cell is None:
        return None
    own = measured.get(cell.run_id or "", {})
    low, high = cell.low, cell.high
    if low is None and own:
        low, high = interval_of(number, own)
    return BoardCell(
        number=plain(cell.number),
        count=cell.count,
        run_id=cell.run_id,
        runs=[*cell.runs],
        titles=[*cell.titles],
        low=low,
        high=high,
        beside=[_number(own.get(each.name)) for each in query.beside],
    )


def _number(value: Any) -> Any:
    return plain(value) if is_measured(value) else None


def interval_of(number: Column, measured: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a share of counted things; two times None for any other number."""
    share, count = measured.get(number.name), measured.get(number.share_of)
    if not is_measured(share) or not is_measured(count) or count < 1 or not 0 <= share <= 1:
        return None, None
    return wilson(share * count, count)
