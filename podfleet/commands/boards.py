"""`podfleet boards`: a headline number of runs by the values of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final

import typer

from events.answers.kinds.boards import Board, BoardRow, History, HistoryPoint, Told
from events.formatting import result
from podfleet.client.synchronous import Client
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import NOTHING, AsJson, Column, IdsOnly, ago, field, print_items, print_json, say, tell

app = noun("boards")

RUNS: Final = "runs"  # what is saved is a view of the list of runs

Name = Annotated[str, typer.Argument(metavar="BOARD", help="Its name.")]
Kind = Annotated[str, typer.Option(help="Kind of the runs.")]
Rows = Annotated[str, typer.Option(help="Field of the rows: spec.PATH or label.NAME.")]
Columns = Annotated[str | None, typer.Option(help="Field of the columns; without it there is one.")]
Number = Annotated[str, typer.Option("--cell", help="Number of the summary of a run; several, with commas.")]
OneNumber = Annotated[
    str, typer.Option("--cell", help="Number of the summary of a run; without it the kind's first.")
]
Beside = Annotated[
    str | None, typer.Option("--beside", help="More numbers of the run of each cell, with commas.")
]
Show = Annotated[str, typer.Option(help="newest, best, or mean with its 95 % interval.")]
Complete = Annotated[bool, typer.Option("--complete", help="Only rows that have every cell.")]
Label = Annotated[
    str | None, typer.Option("--label", "-l", metavar="NAME=VALUE", help="Only with this label.")
]
Group = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only runs of this group.")]

SAVED: Final = (
    Column("NAME", field("id"), is_whole=True),
    Column("PAGE", field("page"), is_whole=True),
    Column("ADDRESS", field("address")),
    Column("SAVED_BY", field("updated_by"), is_spare=True),
    Column("SAVED", field("updated_at"), ago, is_whole=True),
)


@app.command("list")
def list_boards(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List the saved boards and views of runs, by name."""
    found = list(islice(client().boards(limit=min(limit, 200)), limit))
    print_items(found, SAVED, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet boards save`")


@app.command()
def show(
    board: Annotated[str | None, typer.Argument(metavar="[BOARD]", help="Name of a saved board.")] = None,
    kind: Kind = "",
    rows: Rows = "",
    columns: Columns = None,
    cell: Number = "",
    beside: Beside = None,
    show: Show = "newest",
    complete: Complete = False,
    label: Label = None,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Show a board: a saved one by its name, one by its fields, or the one that a kind proposes."""
    control_plane = client()
    query = _query(
        kind, rows, columns, cell, show, complete=complete, beside=beside, label=label, group=group
    )
    found = control_plane.board(**_arguments(query if board is None else _saved(control_plane, board)))
    if as_json:
        print_json(found)
        return
    cells = [
        Column(_title(found, number), partial(_cell, found, number)) for number in range(len(found.columns))
    ]
    titles = [Column(found.rows_by, lambda row: row.value, is_whole=True), *cells]
    print_items(found.rows, titles, none="no run that succeeded has this number yet")
    for line in _left_out(found):
        tell(line)


@app.command()
def history(
    kind: Kind,
    cell: OneNumber = "",
    rows: Annotated[str | None, typer.Option(help="A field that divides the runs.")] = None,
    label: Label = None,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Show a number of runs over time, each with its interval and its schedule; the newest first."""
    found = client().history(kind, cell, rows=rows, label=label, group=group)
    if as_json:
        print_json(found)
        return
    shown = [
        Column("ENDED", field("finished_at"), ago, is_whole=True),
        *([Column(found.lines_by, lambda each: each.line)] if found.lines_by else []),
        Column(found.cell, lambda each: _numbered(found, each)),
        Column("SCHEDULE", field("schedule")),
        Column("RUN", field("run_id"), is_whole=True, is_id=True),
    ]
    print_items(found.points[::-1], shown, none="no run that succeeded has this number yet")


def _numbered(found: History, point: HistoryPoint) -> str:
    shown = result(point.number, found.number.format)
    if point.low is None:
        return shown
    return f"{shown} ({result(point.low, found.number.format)} to {result(point.high, found.number.format)})"


@app.command()
def save(
    board: Name,
    kind: Kind,
    rows: Rows,
    cell: Number,
    columns: Columns = None,
    beside: Beside = None,
    show: Show = "newest",
    complete: Complete = False,
    label: Label = None,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Save a board under a name, in the place of the one that has it."""
    query = _query(
        kind, rows, columns, cell, show, complete=complete, beside=beside, label=label, group=group
    )
    made = client().save_board(board, query)
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} is saved: {made.address}")


@app.command()
def remove(board: Name) -> None:
    """Remove a saved board or view; its runs are kept."""
    client().remove_board(board)
    say(f"{board} is removed")


def _query(
    kind: str, rows: str, columns: str | None, cell: str, show: str, *, complete: bool, **sieve: str | None
) -> dict[str, str]:
    given = {"kind": kind, "rows": rows, "columns": columns, "cell": cell, "show": show, **sieve}
    said = {name: value for name, value in given.items() if value}
    return {**said, "complete": "true"} if complete else said


def _saved(control_plane: Client, board: str) -> Mapping[str, str]:
    saved = control_plane.saved_board(board)
    if saved.page == RUNS:
        fail(f"{board} is a view of the list of runs: open {saved.address} in a browser", EXIT_WRONG_USE)
    return saved.query


def _arguments(query: Mapping[str, str]) -> dict[str, Any]:
    needed = ("kind", "rows", "cell") if query.get("rows") or query.get("cell") else ("kind",)
    if missing := [name for name in needed if not query.get(name)]:
        fail(f"name a saved board, or give --{missing[0]}", EXIT_WRONG_USE)
    return {**query, "complete": query.get("complete") == "true"}


def _title(board: Board, number: int) -> str:
    if board.columns_by is None:
        return board.numbers[number].name if board.numbers else board.cell
    return f"{board.columns_by}={_text(board.columns[number])}"


def _text(value: Told) -> str:
    return NOTHING if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _cell(board: Board, number: int, row: BoardRow) -> Any:
    cell = row.cells[number]
    if cell is None:
        return None
    if board.show == "mean" and cell.low is not None:
        return f"{cell.number:.6g} ({cell.low:.6g} to {cell.high:.6g}, {cell.count} runs)"
    declared = board.numbers[number if board.columns_by is None else 0] if board.numbers else None
    more = [
        f"{each.name} {result(value, each.format)}"
        for each, value in zip(board.beside, cell.beside, strict=False)
        if value is not None
    ]
    if cell.low is not None and declared is not None:
        more.insert(0, f"{result(cell.low, declared.format)} to {result(cell.high, declared.format)}")
    if not more or declared is None:
        return cell.number
    return f"{result(cell.number, declared.format)} ({'; '.join(more)})"


def _left_out(board: Board) -> list[str]:
    counts = {
        "older runs were not looked at; a label brings them in": board.is_partial,
        "runs lack the number": board.unmeasured,
        "incomplete rows are not shown": board.incomplete,
        "more rows are not shown": board.rows_left_out,
        "more columns are not shown": board.columns_left_out,
    }
    return [words if count is True else f"{count} {words}" for words, count in counts.items() if count]
