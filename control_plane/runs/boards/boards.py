"""Makes boards of the newest completed runs of a kind, and files of them."""

from __future__ import annotations

import asyncio
import csv
import io
from dataclasses import dataclass
from typing import Any

from control_plane.model.presentation import plain
from control_plane.model.views.boards.board import Board, Cell, Entry, board_of
from control_plane.runs.boards.query import METHODS, BoardQuery, CheckedQuery, checked
from control_plane.store.queue.run_fields import FoundRun, NewestRuns, RunFieldReads
from events.answers.kinds.boards import Board as BoardAnswer
from events.answers.kinds.boards import BoardCell, BoardRow
from events.text.escaping import spreadsheet_cell


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
    """Return a board as CSV: a line a row, of a mean its ends and its count besides; no cell is a formula."""
    parts = ("", " low", " high", " runs") if board.show == "mean" else ("", " runs")
    titles = [spreadsheet_cell(each) if board.columns_by else board.cell for each in board.columns]
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([spreadsheet_cell(board.rows_by), *(f"{each}{part}" for each in titles for part in parts)])
    for row in board.rows:
        lines.writerow(
            [
                spreadsheet_cell(row.value),
                *(each for cell in row.cells for each in _numbers(cell, len(parts))),
            ]
        )
    return text.getvalue().encode("utf-8", "replace")


def _numbers(cell: BoardCell | None, count: int) -> list[str]:
    if cell is None:
        return [""] * count
    ends = [cell.low, cell.high] if count > 2 else []
    return [spreadsheet_cell(each) for each in (cell.number, *ends, cell.count)]


def _answered(query: CheckedQuery, found: NewestRuns) -> BoardAnswer:
    entries = [_entry(each) for each in found.runs]
    show, declared = query.asked.show, query.declared
    board = board_of(entries, show, declared.direction, complete=query.asked.complete)
    return BoardAnswer(
        kind=query.asked.kind,
        rows_by=str(query.rows),
        columns_by=None if query.columns is None else str(query.columns),
        cell=declared.name,
        show=show,
        method=METHODS[show],
        direction=declared.direction,
        unit=declared.unit,
        format=declared.format,
        columns=[each.shown for each in board.columns],
        rows=_rows(board),
        looked_at=len(entries),
        unmeasured=board.unmeasured,
        incomplete=board.incomplete,
        rows_left_out=board.rows_left_out,
        columns_left_out=board.columns_left_out,
        is_partial=found.is_partial,
    )


def _entry(run: FoundRun) -> Entry:
    number, row, *column = run.values
    return Entry(run.id, row, column[0] if column else None, number, run.finished_at, run.title)


def _rows(board: Board) -> list[BoardRow]:
    return [BoardRow(value=row.value.shown, cells=[_told(each) for each in row.cells]) for row in board.rows]


def _told(cell: Cell | None) -> Any:
    if cell is None:
        return None
    return BoardCell(
        number=plain(cell.number),
        count=cell.count,
        run_id=cell.run_id,
        runs=[*cell.runs],
        titles=[*cell.titles],
        low=cell.low,
        high=cell.high,
    )
