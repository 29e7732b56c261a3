"""Reads a file that a run names (CSV, NPZ or Parquet) into a table.

Law: a file is untrusted until it has been read. Nothing in it is executed or unpickled, and sizes are
bounded before memory is allocated: by the format's header, and while reading where it has none.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from events.runtime.errors import PipelineError
from stages.kinds.experiment.data.cells import NameColumn, TextColumn, is_number
from stages.kinds.experiment.data.columns import (
    FEATURES_MAX,
    Column,
    Key,
    Names,
    Numbers,
    Table,
    Unfit,
    Unusable,
    listed,
    shown,
    table_of,
)
from stages.kinds.experiment.data.npy import NotAnArray, read_heading

ENDINGS: Final = (".csv", ".csv.gz", ".npz", ".parquet")
ROWS_MAX: Final = 2_000_000
BYTES_MAX: Final = 2 << 30  # of the file, and of what it unpacks to
CELLS_MAX: Final = 1 << 27  # one GiB of numbers in double precision
COLUMNS_MAX: Final = FEATURES_MAX + 1
RECORD_CHARS_MAX: Final = 4 << 20
SAMPLE_CHARS: Final = 1 << 16
CHUNK_CELLS: Final = 1 << 18
DELIMITERS: Final = (",", ";", "\t", "|")
NPZ_KEYS: Final = (("X", "y"), ("features", "targets"))

_SECONDS: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def read_table(path: Path, target: str, key: Key | None = None) -> tuple[Table, str]:
    """Read the table in `path`, and the digest of its bytes; `target` may be empty, `key` splits it.

    Raises `PipelineError` with a remedy for the file.
    """
    try:
        with _opened(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            file.seek(0)
            return _read(file, path.name.casefold(), target, key), digest
    except Unfit as error:
        raise PipelineError("CONFIG", f"The data file {path.name} cannot be used: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise PipelineError("CONFIG", f"The data file {path.name} cannot be read: {reason}.") from error


def _opened(path: Path) -> BinaryIO:
    """Open a plain file of a bearable size; a pipe in its place must not make the run wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise Unfit("it is no plain file.")
        if state.st_size > BYTES_MAX:
            raise Unfit(f"it has {state.st_size:,} bytes, and {BYTES_MAX:,} are allowed: take a sample.")
        if state.st_size == 0:
            raise Unfit("it is empty.")
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _read(file: BinaryIO, name: str, target: str, key: Key | None) -> Table:
    if name.endswith(".npz"):
        return _npz(file, target, key)
    if name.endswith(".parquet"):
        return table_of(_parquet(file), target, key=key)
    assert name.endswith((".csv", ".csv.gz")), name
    return _csv(file, target, key, is_packed=name.endswith(".gz"))


def _bound(rows: int, columns: int) -> None:
    """Raise `Unfit` for more than can be held in memory."""
    if columns > COLUMNS_MAX:
        raise Unfit(f"it has {columns:,} columns, and {COLUMNS_MAX:,} are allowed: leave some out.")
    if rows > ROWS_MAX:
        raise Unfit(f"it has more than {ROWS_MAX:,} rows: take a sample.")
    if rows * columns > CELLS_MAX:
        raise Unfit(f"it has more than {CELLS_MAX:,} cells: take a sample, or leave columns out.")


# CSV


class _Lines:
    """The lines of a text, bounded for each record and in all: an open quote may swallow a whole file."""

    def __init__(self, text: IO[str]) -> None:
        self._text = text
        self._record = 0
        self._total = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(RECORD_CHARS_MAX)
        if not line:
            raise StopIteration
        self._record += len(line)
        self._total += len(line)
        if self._record > RECORD_CHARS_MAX:
            raise Unfit(f"a row is longer than {RECORD_CHARS_MAX:,} characters: look for an open quote.")
        if self._total > BYTES_MAX:
            raise Unfit(f"it unpacks to more than {BYTES_MAX:,} characters: take a sample.")
        if "\0" in line:
            raise Unfit("it holds NUL bytes, which no text has: save it as CSV in UTF-8.")
        return line

    def record_ended(self) -> None:
        self._record = 0


def _csv(file: BinaryIO, target: str, key: Key | None, *, is_packed: bool) -> Table:
    stream = gzip.GzipFile(fileobj=file) if is_packed else file
    try:
        # utf-8-sig: Excel begins its files with a mark that would become part of the first name.
        with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            columns, notes = _records(_Lines(text))
    except UnicodeDecodeError as error:
        raise Unfit("its text is not UTF-8: save it again as CSV in UTF-8.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Unfit(f"it does not unpack ({error}): pack it again with gzip.") from error
    table = table_of(columns, target, key=key)
    return replace(table, notes=(*notes, *table.notes))


def _records(lines: _Lines) -> tuple[list[Column], list[str]]:
    """Return the columns of a CSV text, with a note if it has no heading."""
    sample, is_whole = _sample(lines)
    delimiter = _delimiter(sample, is_whole=is_whole)
    reader = csv.reader(chain(sample, lines), delimiter=delimiter, skipinitialspace=True, strict=True)
    records = _checked(reader, lines)
    first = next(records, None)
    if first is None:
        raise Unfit("it is empty.")
    is_headless = all(is_number(cell) for cell in first)
    names = [""] * len(first) if is_headless else first
    names = [name or f"column_{place}" for place, name in enumerate(names, start=1)]
    _check_names(names)
    growing = [TextColumn(name, decimal_comma=delimiter != ",") for name in names]
    width = max(1, CHUNK_CELLS // len(names))
    chunk = [first] if is_headless else []
    rows = 0
    for record in records:
        chunk.append(record)
        if len(chunk) >= width:
            rows += _take(growing, chunk, rows)
            chunk = []
    _take(growing, chunk, rows)
    notes = ["The first row holds only numbers: the columns are named column_1 and so on."]
    return [column.finished() for column in growing], notes if is_headless else []


def _checked(reader: Any, lines: _Lines) -> Iterator[list[str]]:
    """Yield the records without blanks around their cells. Raises `Unfit` for one of another length."""
    width: int | None = None
    try:
        for record in reader:
            lines.record_ended()
            if not record:
                continue  # an empty line, most often the last
            width = width or len(record)
            if len(record) != width:
                raise Unfit(
                    f"line {reader.line_num:,} has {len(record):,} cells where the first has {width:,}: "
                    "add what is missing, or quote what holds a delimiter."
                )
            yield [cell.strip() for cell in record]
    except csv.Error as error:
        raise Unfit(f"line {reader.line_num:,}: {error}. Look for quotes that are not closed.") from error


def _take(growing: list[TextColumn], chunk: list[list[str]], before: int) -> int:
    _bound(before + len(chunk), len(growing))
    for column, cells in zip(
        growing, zip(*chunk, strict=True) if chunk else [()] * len(growing), strict=True
    ):
        column.add(cells)
    return len(chunk)


def _sample(lines: _Lines) -> tuple[list[str], bool]:
    """Return the first lines, and whether they are all."""
    sample: list[str] = []
    size = 0
    for line in lines:
        sample.append(line)
        size += len(line)
        if size >= SAMPLE_CHARS:
            return sample, False
    return sample, True


def _delimiter(sample: list[str], *, is_whole: bool) -> str:
    """Return the delimiter that gives the first rows one length, the greatest of those."""

    def widths(delimiter: str) -> list[int]:
        try:
            found = [
                len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row
            ]
        except csv.Error:
            return []
        return found if is_whole else found[:-1]  # the last row may be cut

    def fitness(delimiter: str) -> tuple[float, int]:
        found = widths(delimiter)
        if not found or found[0] == 1:
            return 0.0, 0
        return sum(width == found[0] for width in found) / len(found), found[0]

    return max(DELIMITERS, key=fitness)


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    twice = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise Unfit(f"two columns have the same name: {listed(twice)}. Rename one.")


# NPZ


def _npz(file: BinaryIO, target: str, key: Key | None) -> Table:
    try:
        with zipfile.ZipFile(file) as archive:
            names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            keys = _npz_keys(list(names), target)
            if key is not None:
                if key.name not in names or key.name in keys:
                    raise Unfit(f"it has no array {shown(key.name)} beside those: {listed(list(names))}.")
                keys = (*keys, key.name)
            features, targets, *along = (_array(archive, names[each], each) for each in keys)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise Unfit(f"it is no NPZ archive that can be read ({error}): write it with numpy.savez.") from error
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or features.ndim == 0 or len(features) != len(targets):
        raise Unfit(
            f"{keys[0]} has the shape {features.shape} and {keys[1]} {targets.shape}: both need one entry "
            "for each row."
        )
    if not len(targets):
        raise Unfit("it is empty.")
    if any(each.shape != targets.shape for each in along):
        raise Unfit(f"its array {shown(keys[2])} needs one entry for each row.")
    flat, side, notes = _flattened(features)
    _bound(len(flat), flat.shape[1] + 1)
    columns = [_array_column(f"feature_{place}", flat[:, place - 1]) for place in range(1, flat.shape[1] + 1)]
    more = [_array_column(keys[2], each) for each in along]
    table = table_of([*columns, *more, _array_column(keys[1], targets)], keys[1], side, key)
    unread = sorted(set(names) - set(keys))
    notes += [f"Other arrays of the file were not read: {listed(unread)}."] if unread else []
    return replace(table, notes=(*notes, *table.notes))


def _npz_keys(names: list[str], target: str) -> tuple[str, ...]:
    """Return the names of the arrays with the features and the targets."""
    for features, targets in NPZ_KEYS:
        wanted = target or targets
        if features in names and wanted in names and wanted != features:
            return features, wanted
    known = " or ".join(f"{features} and {targets}" for features, targets in NPZ_KEYS)
    raise Unfit(
        f"it holds the arrays {listed(names) or 'of nothing'}; it must hold {known}. "
        "A # and a name choose another array of targets."
    )


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    """Return one array; its claims are checked before memory is taken for them."""
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unfit(f"{shown(name)} is encrypted or packed in a strange way: write it with numpy.savez.")
    if info.file_size > BYTES_MAX:
        raise Unfit(f"{shown(name)} unpacks to {info.file_size:,} bytes, and {BYTES_MAX:,} are allowed.")
    try:
        with archive.open(info) as member:
            heading = read_heading(member)
            kind = heading.kind
            if kind.kind not in "biufU" or not kind.itemsize:
                what = "pickled objects, which are never loaded" if kind.hasobject else f"{kind} values"
                raise Unfit(f"{shown(name)} holds {what}: store plain numbers or text.")
            if heading.data_bytes != info.file_size - heading.start:
                raise Unfit(f"{shown(name)} claims another size than it has: write it with numpy.savez.")
            data = member.read(heading.data_bytes)
    except NotAnArray as error:
        raise Unfit(f"{shown(name)} is no array that can be read ({error}).") from error
    if len(data) != heading.data_bytes:
        raise Unfit(f"{shown(name)} claims another size than it has: write it with numpy.savez.")
    return np.frombuffer(data, kind).reshape(heading.shape, order="F" if heading.by_columns else "C")


def _flattened(features: NDArray[Any]) -> tuple[NDArray[Any], int | None, list[str]]:
    """Return features as rows of numbers, and the side of square grey images in pixels."""
    if features.dtype.kind == "U":
        raise Unfit("its features are text: store numbers, or give the table as CSV.")
    shape = features.shape
    if len(shape) == 4:  # one channel, wherever it stands
        shape = tuple(length for place, length in enumerate(shape) if place in (0, 2) or length != 1)
    flat = features.reshape(len(features), -1)
    if len(shape) == 3 and shape[1] == shape[2] and shape[1] > 1:
        return flat, shape[1], []
    if features.ndim > 2:
        return (
            flat,
            None,
            [f"Features of the shape {features.shape[1:]} are no square grey images: flattened."],
        )
    return flat, None, []


def _array_column(name: str, values: NDArray[Any]) -> Numbers | Names:
    if values.dtype.kind != "U":
        return Numbers(name, values, "truth" if values.dtype.kind == "b" else "number")
    found, codes = np.unique(np.char.strip(values), return_inverse=True)
    shift = 1 if len(found) and not found[0] else 0  # the empty text sorts first, and is a missing value
    return Names(name, (codes - shift).astype(np.int32), tuple(str(each) for each in found[shift:]))


# Parquet


def _parquet(file: BinaryIO) -> list[Column]:
    try:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise Unfit(
            "Parquet needs the package pyarrow, which this pod does not have. Install it there "
            "(pip install pyarrow), or give the table as CSV."
        ) from error
    try:
        with closing(parquet.ParquetFile(file)) as plain:
            kinds = _parquet_kinds(plain, arrow.types)
            texts = [name for name, kind in kinds.items() if kind == "text"]
            file.seek(0)
            # Texts stay positions in a dictionary: a few bytes can claim a long text two million times.
            with closing(parquet.ParquetFile(file, read_dictionary=texts, metadata=plain.metadata)) as coded:
                return _parquet_columns(coded, kinds, arrow)
    except Unfit:
        raise
    except (arrow.ArrowException, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise Unfit(f"it is no Parquet file that can be read ({reason}): write it again.") from error


def _parquet_kinds(plain: Any, types: Any) -> dict[str, str]:
    """Return what each column holds, by its name; empty for what cannot become a feature."""
    metadata, schema = plain.metadata, plain.schema_arrow
    _bound(metadata.num_rows, max(metadata.num_columns, len(schema)))
    unpacked = sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))
    if unpacked > BYTES_MAX:
        raise Unfit(f"it unpacks to {unpacked:,} bytes, and {BYTES_MAX:,} are allowed: take a sample.")
    if not metadata.num_rows:
        raise Unfit("it is empty.")
    _check_names(list(schema.names))
    return {field.name: _parquet_kind(field.type, types) for field in schema}


def _parquet_kind(kind: Any, types: Any) -> str:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return "truth"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "time"
    return "text" if types.is_string(kind) or types.is_large_string(kind) else ""


def _parquet_columns(coded: Any, kinds: dict[str, str], arrow: Any) -> list[Column]:
    used = [name for name, kind in kinds.items() if kind]
    names = {name: NameColumn() for name in used if kinds[name] == "text"}
    numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in used if name not in names}
    rows = 0
    size = max(1024, CHUNK_CELLS // max(1, len(kinds)))
    for batch in coded.iter_batches(batch_size=size, columns=used, use_threads=False):
        rows += len(batch)
        _bound(rows, len(kinds))
        for name in used:
            cells = batch.column(batch.schema.get_field_index(name))
            if name in names:
                names[name].add(_texts(cells, arrow))
            else:
                numbers[name].append(_floats(cells, arrow))

    def finished(name: str, kind: str) -> Column:
        if kind == "text":
            return names[name].finished(name)
        if not kind:
            return Unusable(name, f"holds {coded.schema_arrow.field(name).type} values, not numbers or text")
        values = np.concatenate(numbers[name]) if numbers[name] else np.empty(0)
        return Numbers(name, values, "time" if kind == "time" else "truth" if kind == "truth" else "number")

    return [finished(name, kind) for name, kind in kinds.items()]


def _texts(cells: Any, arrow: Any) -> list[str | None]:
    """Return each cell's text; a text that is used often is decoded once."""
    coded = cells if arrow.types.is_dictionary(cells.type) else cells.dictionary_encode()
    codes = coded.indices.cast(arrow.float64()).to_numpy(zero_copy_only=False)
    used = np.unique(codes[np.isfinite(codes)]).astype(np.int64)
    texts = coded.dictionary.take(arrow.array(used)).to_pylist()
    known = {float(code): (text or "").strip() or None for code, text in zip(used, texts, strict=True)}
    return [known.get(code) for code in codes.tolist()]


def _floats(cells: Any, arrow: Any) -> NDArray[np.float64]:
    """Return numbers, truths as 0 and 1, times in seconds since 1970; NaN where missing."""
    types = arrow.types
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    scale = 1.0
    if types.is_timestamp(cells.type):
        scale, cells = _SECONDS[cells.type.unit], cells.cast(arrow.int64())
    elif types.is_date32(cells.type):
        scale, cells = 1.0 / 86400.0, cells.cast(arrow.int32())
    elif types.is_date64(cells.type):
        scale, cells = 1e3, cells.cast(arrow.int64())
    # Not safe: an integer beyond 2**53 loses its last digits, which no network would notice.
    floats = cells.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    seconds: NDArray[np.float64] = floats / scale
    return seconds
