"""Writes the rows of a ledger as CSV or NDJSON, pure. No cell is a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from events.answers.fleet import LedgerRow
from events.text.escaping import spreadsheet_cell

LedgerFormat = Literal["csv", "ndjson"]
MEDIA_TYPES: Final[Mapping[LedgerFormat, str]] = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
}


def in_csv(rows: Sequence[LedgerRow]) -> bytes:
    """Return a line a row, after one with the names of the columns; nothing where there is no row."""
    text = io.StringIO()
    lines = csv.writer(text)
    for number, row in enumerate(rows):
        cells = row.flat()
        if number == 0:
            lines.writerow(cells)
        lines.writerow([spreadsheet_cell(each) for each in cells.values()])
    return text.getvalue().encode()


def in_ndjson(rows: Sequence[LedgerRow]) -> bytes:
    """Return a JSON object a line, with the names that the columns of CSV have."""
    return b"".join(msgspec.json.encode(row.flat()) + b"\n" for row in rows)


WRITERS: Final[Mapping[LedgerFormat, Callable[[Sequence[LedgerRow]], bytes]]] = {
    "csv": in_csv,
    "ndjson": in_ndjson,
}
