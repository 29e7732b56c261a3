"""Decides how a page shows an artifact: as a table, text, a picture, a paper, or only its name, pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from control_plane.server.web.drawing.figures import IMAGES, PAPER

READ_BYTES_MAX: Final = 512 * 1024
PRETTY_CHARS_MAX: Final = 1024 * 1024
ROWS_MAX: Final = 500
COLUMNS_MAX: Final = 60
TEXT_TYPES: Final = (
    "text/",
    "application/json",
    "application/x-ndjson",
    "application/yaml",
    "application/x-tex",
)
TEXT_ENDS: Final = (
    ".txt", ".log", ".md", ".tex", ".bib", ".py", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".toml",
)  # fmt: skip

Kind = Literal["table", "text", "picture", "paper", "other"]


@dataclass(frozen=True, slots=True)
class View:
    """How an artifact is shown; `note` says which part is left out."""

    kind: Kind
    rows: Sequence[Sequence[str]] = ()
    text: str = ""
    note: str = ""


def kind_of(name: str, content_type: str) -> Kind:
    """Return how a file of this name and type is shown, without its content."""
    lowered = name.lower()
    if content_type in IMAGES:
        return "picture"
    if content_type == PAPER:
        return "paper"
    if lowered.endswith((".csv", ".tsv")) or content_type in ("text/csv", "text/tab-separated-values"):
        return "table"
    if content_type.startswith(TEXT_TYPES) or lowered.endswith(TEXT_ENDS):
        return "text"
    return "other"


def view(name: str, content_type: str, content: bytes, size: int) -> View:
    """Return the view of a file that begins with `content` and has `size` bytes."""
    kind = kind_of(name, content_type)
    if kind not in ("table", "text"):
        return View(kind)
    is_whole = len(content) >= size
    text = content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    note = "" if is_whole else f"Only the first {len(content):,} of {size:,} bytes are shown here."
    if kind == "table":
        delimiter = "\t" if name.lower().endswith(".tsv") else ","
        return _table(text if is_whole else text.rpartition("\n")[0], delimiter, note)
    if is_whole and (name.lower().endswith(".json") or content_type == "application/json"):
        pretty = _pretty(text)
        if pretty is None:
            note = (
                f"It is shown as it was written: indented it has more than {PRETTY_CHARS_MAX:,} characters."
            )
        else:
            text = pretty
    return View("text", text=text, note=note)


def _table(text: str, delimiter: str, note: str) -> View:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            if len(rows) > ROWS_MAX:
                note = note or f"Only the first {ROWS_MAX} rows are shown here."
                break
            rows.append(row[:COLUMNS_MAX])
            if len(row) > COLUMNS_MAX:
                note = note or f"Only the first {COLUMNS_MAX} columns are shown here."
    except csv.Error as error:
        return View("text", text=text, note=f"This is no table that can be read ({error}).")
    return View("table", rows=rows, note=note)


def _pretty(text: str) -> str | None:
    """Return indented JSON; None if it has more than `PRETTY_CHARS_MAX` characters.

    The depth of nesting multiplies the indentation: half a mebibyte can become hundreds. The time depends on
    the number of characters, so this also bounds the time (0.3 s on a slow processor).
    """
    pieces: list[str] = []
    left = PRETTY_CHARS_MAX
    try:
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            left -= len(piece)
            if left < 0:
                return None
            pieces.append(piece)
    except (ValueError, RecursionError):
        return text
    return "".join(pieces)
