"""Reads the records of data files: JSON lines, JSON, CSV and Parquet, each also packed by gzip.

Law: a file is another's claim. Its records are bounded in bytes and count, also unpacked, and what is no
record refuses the file with its place.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, cast

from stages.kinds.benchmark.suites.data.sources import DataRefused, NeedsSetup
from stages.kinds.benchmark.suites.item import Record
from stages.kinds.benchmark.suites.payload import Line

RECORDS_MAX: Final = 200_000
LINE_BYTES_MAX: Final = 256 << 20  # tests of a program are long
WHOLE_BYTES_MAX: Final = 1 << 30  # of what is read into memory: everything but lines that were not packed
CELL_CHARS_MAX: Final = 16 << 20
ENDINGS: Final = (".jsonl", ".json", ".csv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz")
_LISTS: Final = ("data", "rows", "records", "items", "examples")  # names under which JSON may hold its list


def ending_of(path: Path) -> str | None:
    """Return the ending of a data file; None for any other file."""
    return max((end for end in ENDINGS if path.name.lower().endswith(end)), key=len, default=None)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, numbered from 0. Raises `DataRefused` and `NeedsSetup`."""
    ending = ending_of(path)
    if ending is None:
        raise DataRefused(f"{path.name} does not end in {', '.join(ENDINGS)}")
    try:
        for number, record in enumerate(_read(path, ending)):
            if number >= RECORDS_MAX:
                raise DataRefused(f"{path.name} has more than {RECORDS_MAX} records")
            yield record
    except (OSError, EOFError, zlib.error) as error:
        raise DataRefused(f"{path.name} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise DataRefused(f"{path.name} is not written in UTF-8") from error
    except csv.Error as error:
        raise DataRefused(f"{path.name} is no table: {error}") from error


def read_line(line: Line) -> Mapping[str, Any]:
    """Return the record of a line that was met before. Raises `DataRefused`."""
    try:
        with line.file.open("rb") as file:
            file.seek(line.start)
            return _object(file.read(line.length), f"{line.file.name}, byte {line.start}")
    except OSError as error:
        raise DataRefused(f"{line.file.name} cannot be read: {error}") from error


def _read(path: Path, ending: str) -> Iterator[Record]:
    if ending == ".parquet":
        yield from _parquet(path)
        return
    is_packed = ending.endswith(".gz")
    with _opened(path, is_packed=is_packed) as file:
        if ending.startswith(".jsonl"):
            yield from _lines(file, path, is_packed=is_packed)
        elif ending.startswith(".json"):
            yield from _whole(_bounded(file, path), path)
        else:
            yield from _table(_bounded(file, path))


def _opened(path: Path, *, is_packed: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if is_packed else path.open("rb")  # it reads as a file does


def _lines(file: IO[bytes], path: Path, *, is_packed: bool) -> Iterator[Record]:
    start = number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise DataRefused(f"{path.name}: a line has more than {LINE_BYTES_MAX} bytes")
        if is_packed and start + len(line) > WHOLE_BYTES_MAX:
            raise DataRefused(f"{path.name}: unpacked it has more than {WHOLE_BYTES_MAX} bytes; unpack it")
        if line.strip():
            place = None if is_packed else Line(path, start, len(line))
            yield Record(
                number, _object(line.removeprefix(b"\xef\xbb\xbf"), f"{path.name}, line {number + 1}"), place
            )
            number += 1
        start += len(line)


def _bounded(file: IO[bytes], path: Path) -> bytes:
    content = file.read(WHOLE_BYTES_MAX + 1)
    if len(content) > WHOLE_BYTES_MAX:
        raise DataRefused(f"{path.name} has more than {WHOLE_BYTES_MAX} bytes")
    return content


def _whole(content: bytes, path: Path) -> Iterator[Record]:
    told = _json(content, path.name)
    if isinstance(told, dict):
        told = next((told[name] for name in _LISTS if isinstance(told.get(name), list)), None)
    if not isinstance(told, list):
        raise DataRefused(f"{path.name} holds no list of records")
    for number, each in enumerate(told):
        if not isinstance(each, dict):
            raise DataRefused(f"{path.name}: record {number + 1} is no object")
        yield Record(number, each["row"] if isinstance(each.get("row"), dict) else each)


def _table(content: bytes) -> Iterator[Record]:
    usual = csv.field_size_limit(CELL_CHARS_MAX)  # of the whole process
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        for number, row in enumerate(rows):
            if None in row or None in row.values():
                raise csv.Error(f"row {number + 1} has another number of cells than the header")
            yield Record(number, row)
    finally:
        csv.field_size_limit(usual)


def _parquet(path: Path) -> Iterator[Record]:
    try:
        parquet = import_module("pyarrow.parquet")
        arrow = import_module("pyarrow")
    except ImportError as error:
        raise NeedsSetup(
            f"{path.name} is a Parquet file: install pyarrow on the pod, or convert it to .jsonl"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            held = sum(
                file.metadata.row_group(each).total_byte_size for each in range(file.metadata.num_row_groups)
            )
            if held > WHOLE_BYTES_MAX:
                raise DataRefused(f"{path.name}: unpacked it has more than {WHOLE_BYTES_MAX} bytes")
            number = 0
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    yield Record(number, row)
                    number += 1
    except arrow.ArrowException as error:
        raise DataRefused(f"{path.name} is no Parquet file: {error}") from error


def _object(line: bytes, place: str) -> Mapping[str, Any]:
    told = _json(line, place)
    if not isinstance(told, dict):
        raise DataRefused(f"{place} is no object")
    return told


def _json(content: bytes, place: str) -> Any:
    try:
        return json.loads(content)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataRefused(f"{place} is no JSON: {error}") from error
