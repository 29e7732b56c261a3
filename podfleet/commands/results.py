"""`podfleet results`: lists, exports and compares the rows that runs have recorded."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import to_builtins

from events.answers.kinds.kind import ColumnAnswer
from events.answers.kinds.results import ChangedItem, ComparedRow, ResultPage
from events.files.export_check import checked, read_public_key
from events.runtime.errors import Rejected
from events.text.escaping import for_terminal
from podfleet.client import endpoints
from podfleet.client.problems import NotFound, Refused
from podfleet.client.synchronous import Client
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import EXIT_FAILED, EXIT_WRONG_USE, client, fail
from podfleet.id_lookup import RUN, RunName, RunNames, find
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, field, is_terminal, print_items, print_json, say, tell

app = noun("results")

PAIR: Final = 2
NO_OUTCOME: Final = "no_outcome"
PAGES_MAX: Final = 100_000  # a run has no more rows
FORMATS: Final = ("csv", "ndjson", "parquet", "zip")

Set = Annotated[str | None, typer.Option("--set", help="The result set; default: the first of the kind.")]
Sort = Annotated[str | None, typer.Option("--sort", help="A column to sort by; -COLUMN: against it.")]
Filters = Annotated[
    list[str] | None,
    typer.Option("--filter", "-f", help="Such as 'score>=0.5' or 'status=done'; repeatable."),
]
Search = Annotated[str | None, typer.Option("--search", "-q", help="Text in keys, statuses and texts.")]


@app.command("list")
def list_rows(
    run: RunName,
    set: Set = None,
    sort: Sort = None,
    filters: Filters = None,
    search: Search = None,
    limit: Limit = SHOWN,
    as_json: AsJson = False,
) -> None:
    """List the rows of a result set of a run."""
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    rows: list[Any] = []
    columns: Sequence[ColumnAnswer] = ()
    for page in _pages(
        control_plane, run_id, min(limit, 200), set=set, sort=sort, filters=filters or (), q=search
    ):
        columns = page.columns
        if not rows and page.refused:
            tell(f"{page.refused} rows of the run were refused; its events say why")
        rows += page.items
        if len(rows) >= limit:
            break
    shown = [Column("KEY", field("key")), Column("STATUS", field("status"))]
    shown += [_column(each, partial(_value, each.name)) for each in columns]
    shown.append(Column("DETAIL", field("detail"), is_spare=True))
    print_items(rows[:limit], shown, as_json=as_json, none="no rows")


@app.command()
def export(
    run: RunName,
    set: Set = None,
    sort: Sort = None,
    filters: Filters = None,
    search: Search = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="csv, ndjson, parquet or zip; default: as the file ends, else csv."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "--to", "-o", help="A file; default: standard output.")
    ] = None,
) -> None:
    """Write all rows of a result set as CSV, NDJSON or Parquet, or the run's results as a signed ZIP."""
    format = format or _by_ending(output)
    if format not in FORMATS:
        fail(f"--format is {', '.join(FORMATS)}, not {format}", EXIT_WRONG_USE)
    if format in ("parquet", "zip") and output is None and is_terminal():
        fail(f"{format} is no text; name a file with --to", EXIT_WRONG_USE)
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    call = endpoints.export_results(
        run_id, set=set, sort=sort, filters=filters or (), q=search, format=format
    )
    if output is None:
        for piece in printed(control_plane.pieces(call)):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    half = Path(f"{output}.part")
    try:
        with half.open("wb") as file:
            for piece in control_plane.pieces(call):
                file.write(piece)
        os.replace(half, output)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}", EXIT_FAILED)
    finally:
        half.unlink(missing_ok=True)
    say(output)


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ZIP of `podfleet results export`.")],
    key: Annotated[
        str | None, typer.Option("--key", help="The public key that must have signed it: 64 digits.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a signed ZIP without a control plane: its signature, each hash, and every other byte."""
    try:
        found = checked(file, None if key is None else read_public_key(key))
    except Rejected as error:
        wrong_use = error.code in ("bad_key", "no_library")
        fail(f"{file}: {error.message}", EXIT_WRONG_USE if wrong_use else EXIT_FAILED)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror or error}", EXIT_FAILED)
    manifest = found.manifest
    if as_json:
        print_json({"is_pinned": found.is_pinned, "manifest": to_builtins(manifest)})
        return
    for each in manifest.files:
        rows = "" if each.rows is None else f", {each.rows:,} rows"
        say(f"{each.name}: {each.size:,} bytes{rows}, sha256 {each.sha256}")
    say(f"{file} is whole: run {manifest.run_id}, attempt {manifest.attempt}, made at {manifest.made_at}")
    say(f"signed by the key {manifest.key.id} ({manifest.key.public})")
    if not found.is_pinned:
        tell("anybody can sign with a key of his own: compare it with `podfleet results keys`, or give --key")


@app.command()
def keys(as_json: AsJson = False) -> None:
    """List the public keys of signed exports; the first is the one that signs."""
    found = client().export_keys()
    shown = [Column("ID", field("id"), is_whole=True), Column("PUBLIC", field("public"), is_whole=True)]
    print_items(found.items, shown, as_json=as_json, none="this control plane has no key for secrets")


def _by_ending(output: str | None) -> str:
    ending = Path(output).suffix.removeprefix(".").lower() if output else ""
    return ending if ending in FORMATS else "csv"


def printed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a file as standard output takes it: a terminal without the characters that steer it."""
    if not is_terminal():
        yield from pieces
        return
    for text in codecs.iterdecode(pieces, "utf-8", "replace"):
        yield for_terminal(text.replace("\r", "")).encode("utf-8", "replace")


@app.command()
def compare(
    runs: RunNames,
    set: Set = None,
    everything: Annotated[bool, typer.Option("--all", help="Include rows that do not differ.")] = False,
    by_rows: Annotated[
        bool, typer.Option("--rows", help="Every value, also where rows have an outcome.")
    ] = False,
    limit: Limit = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Compare runs row by row: a line for each value in which rows of the same key differ.

    Two runs whose rows are right or wrong are compared item by item, with McNemar's exact test.
    """
    control_plane = client()
    ids = [find(control_plane, RUN, run) for run in runs]
    if len(ids) == PAIR and not by_rows and not everything:
        try:
            _print_pairs(control_plane, ids, set, limit, as_json=as_json)
        except Refused as error:
            if error.code != NO_OUTCOME and not (isinstance(error, NotFound) and error.is_route):
                raise
        else:
            return
    found: list[ComparedRow] = []
    columns: Sequence[ColumnAnswer] = ()
    after: str | None = None
    for _ in range(PAGES_MAX):
        page = control_plane.compare_results(ids, set=set, after=after)
        columns, after = page.columns, page.next
        found += [each for each in page.items if everything or each.differs]
        if after is None or len(found) >= limit:
            break
    found = found[:limit]
    if as_json:
        print_json({"runs": ids, "rows": found})
        return
    lines = [line for row in found for line in _lines(row, columns, everything=everything)]
    shown = [Column("KEY", field("key")), Column("COLUMN", field("column"), is_whole=True)]
    shown += [Column(run_id, partial(_nth, number)) for number, run_id in enumerate(ids)]
    print_items(lines, shown, none="no differences")


def _print_pairs(
    control_plane: Client, ids: Sequence[str], set: str | None, limit: int, *, as_json: bool
) -> None:
    """Print two runs item by item. Raises `Refused`."""
    items: list[ChangedItem] = []
    after: str | None = None
    while True:
        page = control_plane.compare_items(ids, set=set, limit=min(limit, 200), after=after)
        items, after = [*items, *page.items], page.next
        if after is None or len(items) >= limit:
            break
    items = items[:limit]
    if as_json:
        print_json({**to_builtins(page), "items": to_builtins(items)})
        return
    counts = (page.both_right, page.only_first, page.only_second, page.both_wrong)
    say("both right {:,}, only the first {:,}, only the second {:,}, both wrong {:,}".format(*counts))
    say(f"{page.method}: p = {page.p_value:.4g}")
    left_out = {
        "only in the first": page.in_first_alone, "only in the second": page.in_second_alone,
        "not asked alike": page.other_question, "without an answer": page.unanswered,
    }  # fmt: skip
    for words, count in left_out.items():
        if count:
            tell(f"not compared: {count:,} {words}")
    shown = [Column("ITEM", field("item"), is_whole=True)]
    shown += [Column(run_id, partial(_is_right, number)) for number, run_id in enumerate(ids)]
    print_items(items, shown, none="no item changed")


def _is_right(number: int, item: ChangedItem) -> str:
    return "right" if item.is_right[number] else "wrong"


def _pages(control_plane: Client, run_id: str, limit: int, **wanted: Any) -> Iterator[ResultPage]:
    after: str | None = None
    for _ in range(PAGES_MAX):
        page = control_plane.results(run_id, limit=limit, after=after, **wanted)
        yield page
        after = page.next
        if after is None:
            return


def _lines(
    row: ComparedRow, columns: Sequence[ColumnAnswer], *, everything: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield a line for each column in which a row differs."""
    if any(each is None for each in row.values):
        has = ["has it" if each is not None else None for each in row.values]
        yield {"key": row.key, "column": "(row)", "values": has}
    for column in columns:
        values = [None if each is None else each.get(column.name) for each in row.values]
        told = [value for value, each in zip(values, row.values, strict=True) if each is not None]
        if everything or any(value != told[0] for value in told):
            yield {"key": row.key, "column": column.name, "values": values}


def _column(column: ColumnAnswer, value: Any) -> Column:
    title = f"{column.name} {column.unit}".strip().upper()
    return Column(title, value, partial(_shown, column.format), is_right=column.type == "number")


def _shown(form: str, value: Any) -> str:
    from events.formatting import result

    return result(value, form)


def _value(name: str, row: Any) -> Any:
    return row.values.get(name)


def _nth(number: int, line: Mapping[str, Any]) -> Any:
    return line["values"][number]
