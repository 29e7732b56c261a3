"""Prints answers: as a table on a terminal, as tab-separated lines into a pipe, as JSON on request.

Law: text of the server is untrusted. None of it reaches a terminal before `clean`, none of it is parsed as
markup, and no cell of a pipe is a formula to a spreadsheet. JSON has every value as it is.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from msgspec import UNSET

from events.answers.kind_parts import in_json
from events.text.escaping import for_spreadsheet

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
IdsOnly = Annotated[bool, typer.Option("--ids", help="Print the ids only, one a line.")]

NOTHING: Final = "–"
CUT: Final = "…"
END_CHARS: Final = 6  # of an id, where the terminal is too narrow for whole ones
CELL_CHARS_MAX: Final = 4_000
GAP: Final = 2  # between two columns of a table
LEAST_CELLS: Final = 12  # how narrow a column of text may become
# Sequences that steer a terminal: CSI, then OSC, DCS and their like, then what is left of two letters.
ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Control characters, lone surrogates, and what turns the direction of writing.
UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def clean(text: object) -> str:
    """Return `text` as one line that steers no terminal."""
    return UNPRINTABLE.sub(" ", ESCAPES.sub("", str(text)))


def clean_lines(text: object) -> str:
    """Return `text` with its line breaks, and nothing else that steers a terminal."""
    unescaped = ESCAPES.sub("", str(text)).replace("\r\n", "\n").replace("\t", "    ")
    return "\n".join(UNPRINTABLE.sub(" ", line).rstrip() for line in unescaped.split("\n"))


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()  # None: it was closed before we began


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, what it takes from an item, and how a person reads that."""

    title: str
    value: Callable[[Any], Any]
    shown: Callable[[Any], str] | None = None
    is_whole: bool = False  # never cut: an id, a number
    is_right: bool = False
    is_spare: bool = False  # left out where the terminal is too narrow for all
    is_id: bool = False  # cut to its end where not all fits; commands take such an end
    is_prose: bool = False  # folded into lines, where others are cut by an ellipsis

    def text_of(self, item: Any) -> str:
        """Return the cell for people."""
        value = self.value(item)
        if value is None or value == "":
            return NOTHING
        return clean(_words(value) if self.shown is None else self.shown(value))[:CELL_CHARS_MAX]

    def raw(self, item: Any) -> str:
        """Return the cell for programs, as the server has it."""
        value = self.value(item)
        match value:
            case None:
                return ""
            case bool():
                return str(value).lower()
            case int() | float():
                return str(value)
            case str():
                return for_spreadsheet(clean(value))
            case _:
                return clean(json.dumps(value))


def field(*path: str) -> Callable[[Any], Any]:
    """Return what takes the value at `path`: of a struct its field, of a mapping its key; None of nothing."""

    def take(item: Any) -> Any:
        value = item
        for name in path:
            if not value:
                return None
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
        return None if value is UNSET else value

    return take


def print_json(value: Any) -> None:
    """Print a value as JSON of ASCII, which steers no terminal."""
    print(_ascii(json.dumps(in_json(value), indent=2)), flush=True)


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(_ascii(json.dumps(in_json(value))), flush=True)


def print_items(
    items: Sequence[Any],
    columns: Sequence[Column],
    *,
    as_json: bool = False,
    ids_only: bool = False,
    none: str = "none",
) -> None:
    """Print a list as a table, as tab-separated lines or as JSON; `none` is printed for an empty one."""
    if as_json:
        print_json(items)
    elif ids_only:
        for item in items:
            print(clean(field("id")(item)))
    elif not is_terminal():
        print("\t".join(column.title for column in columns))
        for item in items:
            print("\t".join(column.raw(item) for column in columns))
    elif items:
        _print_table(items, columns)
    else:
        print(none)


def print_fields(fields: Sequence[tuple[str, str | None]]) -> None:
    """Print the fields of one object, one per line; fields without a value are left out."""
    known = [(name, value) for name, value in fields if value is not None]
    if not is_terminal():
        for name, value in known:
            print("\t".join(for_spreadsheet(clean(each)) for each in (name, value)))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in known:
        table.add_row(clean(name), Text(clean_lines(value), style=_style(value)))
    console().print(table)


def print_heading(text: str) -> None:
    """Print a heading after an empty line."""
    if not is_terminal():
        print(f"\n# {clean(text)}")
        return
    from rich.text import Text

    console().print(Text(f"\n{clean(text)}", style="bold"))


def say(text: str) -> None:
    """Print a line for a person, as text."""
    print(clean(text), flush=True)


def tell(text: str) -> None:
    """Print a line to standard error."""
    print(clean(text), file=sys.stderr, flush=True)


def drop_output() -> None:
    """Let what is still to be printed go nowhere: it cannot be written, or nobody reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def console() -> Any:
    """Return the terminal as rich writes on it: no markup, no emoji, no highlights; `NO_COLOR` counts."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, soft_wrap=False)


STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RUNNING", "AUTO_VALIDATING", "SCHEDULED", "busy"), "cyan"),
    **dict.fromkeys(("AWAITING_HUMAN",), "magenta"),
    **dict.fromkeys(("COMPLETED", "HUMAN_VALIDATED", "ok"), "green"),
    **dict.fromkeys(("FAILED", "HUMAN_REJECTED", "gone", "failed"), "red"),
    **dict.fromkeys(("INTERRUPTED", "CANCELING", "CANCELED", "DELAYED", "suspended", "note"), "yellow"),
}


def with_sign(status: str) -> str:
    """Return a status with its sign in front, so that nothing depends on colour alone."""
    from events.formatting import SIGNS

    return f"{SIGNS.get(status, '·')} {status}"


def ago(moment: str) -> str:
    """Return how long ago a moment was, which is RFC 3339 text."""
    from events.formatting import MINUTE_S, seconds
    from events.runtime.clock import SystemClock

    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    passed_s = (SystemClock().now() - then.astimezone(UTC)).total_seconds()
    duration = seconds(abs(passed_s)) if abs(passed_s) >= MINUTE_S else f"{abs(passed_s):.0f} s"
    return f"in {duration}" if passed_s < -1 else f"{duration} ago"


def _style(text: str) -> str:
    """Return the style of a word that is a status, with or without its sign."""
    return STYLES.get(text.rpartition(" ")[2], "")


def _print_table(items: Sequence[Any], columns: Sequence[Column]) -> None:
    from rich.table import Table
    from rich.text import Text

    terminal = console()
    cells = {column.title: [column.text_of(item) for item in items] for column in columns}
    if sum(_whole(each, cells[each.title]) + GAP for each in columns) - GAP > terminal.width:
        cells |= {each.title: ends(cells[each.title]) for each in columns if each.is_id}
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    kept = _fitting(columns, cells, terminal.width)
    widths = _widths(kept, cells, terminal.width)
    for column in kept:
        justify: Any = "right" if column.is_right else "left"
        overflow: Any = "fold" if column.is_prose else "ellipsis"
        table.add_column(
            column.title,
            width=widths[column.title],
            no_wrap=not column.is_prose,
            overflow=overflow,
            justify=justify,
        )
    for row in zip(*(cells[column.title] for column in kept), strict=True):
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    terminal.print(table)


def ends(ids: Sequence[str]) -> list[str]:
    """Return ids by their ends, as long as it takes to tell each from the others."""
    chars = END_CHARS
    while len({each[-chars:] for each in ids}) < len(set(ids)):
        chars += 1
    return [each if len(each) <= chars + 1 else f"{CUT}{each[-chars:]}" for each in ids]


def _whole(column: Column, cells: Sequence[str]) -> int:
    return max(len(column.title), _longest(cells))


def _fitting(columns: Sequence[Column], cells: Mapping[str, Sequence[str]], width: int) -> list[Column]:
    """Return the columns that fit: spare ones go, the last first, before anything whole is cut."""
    kept = list(columns)
    for column in reversed(columns):
        needed = sum(_least(each, cells[each.title]) + GAP for each in kept) - GAP
        if needed <= width:
            break
        if column.is_spare:
            kept.remove(column)
    return kept


def _widths(columns: Sequence[Column], cells: Mapping[str, Sequence[str]], width: int) -> dict[str, int]:
    """Return how wide each column is: what whole ones leave is shared by the others, short ones first."""
    widths = {each.title: _least(each, cells[each.title]) for each in columns}
    left = width - sum(widths.values()) - GAP * (len(columns) - 1)
    lacking = {each.title: _longest(cells[each.title]) - widths[each.title] for each in columns}
    shared = sorted((lack, title) for title, lack in lacking.items() if lack > 0)
    for number, (lack, title) in enumerate(shared):
        more = max(0, min(lack, left // (len(shared) - number)))
        widths[title] += more
        left -= more
    return widths


def _least(column: Column, cells: Sequence[str]) -> int:
    longest = _longest(cells)
    return max(len(column.title), longest if column.is_whole else min(longest, LEAST_CELLS))


def _longest(cells: Sequence[str]) -> int:
    """Return how many cells of a terminal the longest text takes."""
    from rich.cells import cell_len

    return max(map(cell_len, cells), default=0)


def _words(value: Any) -> str:
    """Return a value as text without the syntax of a programming language."""
    match value:
        case list():
            return "; ".join(map(_words, value))
        case dict():
            return ", ".join(f"{name} {_words(each)}" for name, each in value.items())
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _ascii(text: str) -> str:
    return text.replace("\x7f", "\\u007f")


def clock_time(moment: str) -> str:
    """Return the time of day of a moment on this machine's clock."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return clean(moment)
