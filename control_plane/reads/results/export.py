"""Writes the rows of a result set as CSV, NDJSON or Parquet, page by page, whatever their number.

Law: no more than one page of rows is held. Texts that a spreadsheet would take for a formula get an
apostrophe in CSV; NDJSON and Parquet have every value as it is.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol

import msgspec

from events.answers.kinds.results import ResultRow
from events.kinds.results import Column, Value, is_of
from events.runtime.errors import Rejected
from events.text.escaping import spreadsheet_cell

Format = Literal["csv", "ndjson", "parquet"]
MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
BEFORE: Final = ("key", "status")
AFTER: Final = ("detail",)
NO_PARQUET: Final = (
    "this control plane writes no Parquet, because pyarrow is not installed: install podfleet[parquet] where "
    "it runs, or take format=csv or format=ndjson"
)

Pages = AsyncIterator[Sequence[ResultRow]]


def require(format: Format) -> None:
    """Raise `Rejected` where a format cannot be written here."""
    if format == "parquet" and find_spec("pyarrow") is None:
        raise Rejected("no_parquet", NO_PARQUET)


class Writer(Protocol):
    """Makes the pieces of a file."""

    def begun(self) -> bytes: ...

    def written(self, page: Sequence[ResultRow]) -> bytes: ...

    def ended(self) -> bytes: ...


async def exported(format: Format, columns: Sequence[Column], pages: Pages) -> AsyncIterator[bytes]:
    """Yield the file, a piece for each page. CSV and Parquet have the declared columns alone."""
    writer = WRITERS[format](columns)
    yield await asyncio.to_thread(writer.begun)
    async for page in pages:
        yield await asyncio.to_thread(writer.written, page)
    yield await asyncio.to_thread(writer.ended)


@dataclass(slots=True)
class Csv:
    """One line a row; a value that is missing, or of another type, is an empty cell."""

    columns: Sequence[Column]

    def begun(self) -> bytes:
        return self._lines([[*BEFORE, *(each.name for each in self.columns), *AFTER]])

    def written(self, page: Sequence[ResultRow]) -> bytes:
        return self._lines([self._cells(row) for row in page])

    def ended(self) -> bytes:
        return b""

    def _cells(self, row: ResultRow) -> list[str]:
        values = [row.values.get(each.name) for each in self.columns]
        return [spreadsheet_cell(each) for each in (row.key, row.status, *values, row.detail)]

    def _lines(self, rows: Sequence[Sequence[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        return text.getvalue().encode("utf-8", "replace")


@dataclass(slots=True)
class Ndjson:
    """One object a row, as a page of the API has it."""

    columns: Sequence[Column]

    def begun(self) -> bytes:
        return b""

    def written(self, page: Sequence[ResultRow]) -> bytes:
        return b"".join(msgspec.json.encode(row) + b"\n" for row in page)

    def ended(self) -> bytes:
        return b""


class _Pipe(io.RawIOBase):
    """Keeps what is written to it until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._at += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._at

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


@dataclass(slots=True)
class Parquet:
    """One group of rows a page; numbers are doubles, and a value of another type is null."""

    columns: Sequence[Column]
    _pipe: _Pipe = field(default_factory=_Pipe)
    _arrow: Any = None
    _writer: Any = None
    _schema: Any = None

    def begun(self) -> bytes:
        self._arrow = import_module("pyarrow")
        types = {"number": self._arrow.float64(), "text": self._arrow.string(), "bool": self._arrow.bool_()}
        text = types["text"]
        fields = [(name, text) for name in BEFORE]
        fields += [(each.name, types[each.type]) for each in self.columns]
        self._schema = self._arrow.schema([*fields, *((name, text) for name in AFTER)])
        parquet = import_module("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(self._arrow.PythonFile(self._pipe, mode="w"), self._schema)
        return self._pipe.taken()

    def written(self, page: Sequence[ResultRow]) -> bytes:
        cells: list[list[Value]] = [[row.key for row in page], [row.status for row in page]]
        cells += [[_typed(each, row.values.get(each.name)) for row in page] for each in self.columns]
        cells.append([row.detail for row in page])
        arrays = [
            self._arrow.array(values, type=each.type)
            for values, each in zip(cells, self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        return self._pipe.taken()

    def ended(self) -> bytes:
        self._writer.close()
        return self._pipe.taken()


def _typed(column: Column, value: Value) -> Value:
    if value is None or not is_of(column, value):
        return None
    return float(value) if column.type == "number" else value


WRITERS: Final[Mapping[Format, Callable[[Sequence[Column]], Writer]]] = {
    "csv": Csv,
    "ndjson": Ndjson,
    "parquet": Parquet,
}
