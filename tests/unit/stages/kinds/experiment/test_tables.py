"""Files that a run names: what is read of them, and what a file must not do to a run."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import random
import struct
import sys
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.runtime.errors import PipelineError
from stages.kinds.experiment.data import tables
from stages.kinds.experiment.data.columns import Table
from stages.kinds.experiment.data.loading import Data, find_data_set, prepare
from stages.kinds.experiment.data.tables import read_table

ROWS = 60


def make_csv(path: Path, *columns: tuple[str, list[Any]], delimiter: str = ",", newline: str = "\n") -> Path:
    """Write columns as CSV; None is an empty cell."""
    lines = [delimiter.join(name for name, _ in columns)]
    for row in zip(*(cells for _, cells in columns), strict=True):
        lines.append(delimiter.join("" if cell is None else str(cell) for cell in row))
    path.write_bytes((newline.join(lines) + newline).encode())
    return path


def some(seed: int = 0, rows: int = ROWS) -> list[float]:
    return [round(float(value), 3) for value in np.random.default_rng(seed).normal(size=rows)]


def kinds(rows: int = ROWS) -> list[str]:
    return ["bad" if row % 3 else "good" for row in range(rows)]


def feature_names(table: Table) -> list[str]:
    return [feature.name for feature in table.features]


def refusal(path: Path, target: str = "") -> str:
    with pytest.raises(PipelineError) as caught:
        read_table(path, target)
    assert caught.value.code == "CONFIG"
    assert not caught.value.retryable
    return caught.value.message


# what becomes of columns


def test_each_kind_of_column_becomes_numbers(tmp_path: Path) -> None:
    gaps: list[float | None] = [None if row == 4 else value for row, value in enumerate(some())]
    path = make_csv(
        tmp_path / "all.csv",
        ("size", gaps),
        ("sold", ["TRUE" if row % 2 else "False" for row in range(ROWS)]),
        ("city", [("Bonn", "Kiel", "Ulm")[row % 3] for row in range(ROWS)]),
        ("day", [f"2024-01-{1 + row % 28:02}" for row in range(ROWS)]),
        ("text", [f"house number {row}" for row in range(ROWS)]),
        ("same", [7] * ROWS),
        ("empty", [None] * ROWS),
        ("id", list(range(1, ROWS + 1))),
        ("kind", kinds()),
    )
    table, _ = read_table(path, "kind")
    assert feature_names(table) == [
        "size", "size is missing", "sold", "city is Bonn", "city is Kiel", "city is Ulm", "day",
    ]  # fmt: skip
    columns = {feature.name: feature.values() for feature in table.features}
    assert np.isnan(columns["size"][4])
    assert columns["size is missing"].tolist() == [float(row == 4) for row in range(ROWS)]
    assert columns["sold"][:2].tolist() == [0.0, 1.0]
    assert columns["city is Kiel"][:3].tolist() == [0.0, 1.0, 0.0]
    assert columns["day"][1] - columns["day"][0] == 86400.0
    notes = " ".join(table.notes)
    assert "'text' is text with more than 50 different values" in notes
    assert "never change were left out: 'same', 'empty'" in notes
    assert "'id' only counts the rows" in notes
    assert "median of the training rows: 'size'" in notes


@pytest.mark.parametrize(
    ("cells", "task", "outputs"),
    [
        (kinds(), "classification", 2),
        ([row % 4 for row in range(ROWS)], "classification", 4),
        ([float(row % 4) for row in range(ROWS)], "classification", 4),
        (["true" if row % 2 else "false" for row in range(ROWS)], "classification", 2),
        ([row % 15 for row in range(ROWS)], "regression", 0),
        ([(row % 4) / 2 for row in range(ROWS)], "regression", 0),
        (some(1), "regression", 0),
    ],
)
def test_the_target_decides_the_task_and_a_note_says_so(
    tmp_path: Path, cells: list[Any], task: str, outputs: int
) -> None:
    table, _ = read_table(make_csv(tmp_path / "t.csv", ("x", some()), ("goal", cells)), "goal")
    assert (table.target.task, len(table.target.classes)) == (task, outputs)
    assert any("predicted as a" in note and "'goal'" in note for note in table.notes)


def test_fifteen_whole_numbers_in_many_rows_are_classes(tmp_path: Path) -> None:
    cells = [row % 15 for row in range(600)]
    table, _ = read_table(make_csv(tmp_path / "t.csv", ("x", some(rows=600)), ("goal", cells)), "")
    assert table.target.classes == tuple(str(number) for number in range(15))


def test_the_target_is_known_by_its_name_or_is_the_last_column(tmp_path: Path) -> None:
    first = make_csv(tmp_path / "a.csv", ("Label", kinds()), ("x", some()))
    last = make_csv(tmp_path / "b.csv", ("x", some()), ("species", kinds()))
    for path, name, why in ((first, "Label", "by its name"), (last, "species", "as the last column")):
        table, _ = read_table(path, "")
        assert table.target.name == name
        assert why in table.notes[0]
    assert read_table(last, "SPECIES")[0].target.name == "species"


def test_rows_without_a_target_are_left_out(tmp_path: Path) -> None:
    cells = [None if row < 5 else kind for row, kind in enumerate(kinds())]
    table, _ = read_table(make_csv(tmp_path / "t.csv", ("x", some()), ("goal", cells)), "")
    assert len(table) == len(table.features[0].values()) == ROWS - 5
    assert table.features[0].values().tolist() == some()[5:]
    assert "5 rows without 'goal' were left out." in table.notes


# CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str, newline: str) -> None:
    quoted = ['"one, two; three | four\tfive"' if row % 2 else "six" for row in range(ROWS)]
    columns = (("x", some()), ("words", quoted), ("kind", kinds()))
    path = make_csv(tmp_path / "t.csv", *columns, delimiter=delimiter, newline=newline)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as Excel begins its files
    table, _ = read_table(path, "kind")
    assert feature_names(table) == ["x", "words is one, two; three | four\tfive", "words is six"]
    assert table.features[0].values().tolist() == some()


def test_decimal_commas_are_numbers_where_commas_delimit_nothing(tmp_path: Path) -> None:
    cells = [str(value).replace(".", ",") for value in some()]
    path = make_csv(tmp_path / "t.csv", ("x", cells), ("kind", kinds()), delimiter=";")
    assert read_table(path, "")[0].features[0].values().tolist() == some()


def test_a_file_without_a_heading_gets_names(tmp_path: Path) -> None:
    rows = "".join(f"{value},{row % 3}\n" for row, value in enumerate(some()))
    (tmp_path / "t.csv").write_text(rows)
    table, _ = read_table(tmp_path / "t.csv", "column_2")
    assert (len(table), feature_names(table)) == (ROWS, ["column_1"])
    assert "only numbers" in table.notes[0]


@pytest.mark.parametrize("stray", ["oops", "1_0"])
def test_one_stray_word_makes_a_column_text_even_in_a_later_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stray: str
) -> None:
    monkeypatch.setattr(tables, "CHUNK_CELLS", 12)
    cells = [stray if row == 50 else value for row, value in enumerate(some())]
    path = make_csv(tmp_path / "t.csv", ("x", cells), ("z", some(3)), ("kind", kinds()))
    table, _ = read_table(path, "")
    assert feature_names(table) == ["z"]
    assert table.features[0].values().tolist() == some(3)
    assert "Column 'x' is text with more than 50" in " ".join(table.notes)


def test_a_table_is_the_same_in_each_format(tmp_path: Path) -> None:
    numbers: list[float | None] = [None if row in (3, 9) else value for row, value in enumerate(some())]
    days = [date(2024, 2, 1 + row % 20) for row in range(ROWS)]
    cities = [None if row == 7 else ("Bonn", "Kiel", "Ulm")[row % 3] for row in range(ROWS)]
    sold = [row % 2 == 0 for row in range(ROWS)]
    columns: list[tuple[str, list[Any]]] = [
        ("size", numbers), ("day", days), ("city", cities), ("sold", sold), ("kind", kinds()),
    ]  # fmt: skip
    path = make_csv(tmp_path / "same.csv", *columns)
    with gzip.open(tmp_path / "same.csv.gz", "wb") as packed:
        packed.write(path.read_bytes())
    parquet.write_table(arrow.table(dict(columns)), tmp_path / "same.parquet")
    wanted = [f"{path}#kind", f"{path}.gz#kind", f"{tmp_path / 'same.parquet'}#kind"]
    first, *others = [
        prepare(found, seed=5) for each in wanted if (found := find_data_set(each, (tmp_path,)))
    ]
    assert len(others) == 2
    for other in others:
        assert (other.facts, other.sizes, other.notes) == (first.facts, first.sizes, first.notes)
        assert np.array_equal(other.visible.train.features, first.visible.train.features)
        assert np.array_equal(other.sealed.open().features, first.sealed.open().features)
        assert np.array_equal(other.sealed.open().targets, first.sealed.open().targets)


def test_numbers_are_the_same_in_an_npz_too(tmp_path: Path) -> None:
    table = np.array([some(1), some(2)]).T
    table[3, 0] = np.nan
    cells = [None if row == 3 else value for row, value in enumerate(some(1))]
    path = make_csv(tmp_path / "a.csv", ("feature_1", cells), ("feature_2", some(2)), ("y", kinds()))
    np.savez(tmp_path / "a.npz", X=table, y=np.array(kinds()))
    one, other = (
        prepare(found, seed=1)
        for name in (path, tmp_path / "a.npz")
        if (found := find_data_set(str(name), (tmp_path,)))
    )
    assert one.facts == other.facts
    assert np.array_equal(one.visible.train.features, other.visible.train.features)


CELLS = (
    "", "1", "-2.5", "nan", "inf", "1e300", "9" * 400, '"', "a,b", "x\n", "TRUE", "?", "é\u2028",
    "2024-01-01", "0001-01-01T00:00+23:59", "1,5", "1_0",
)  # fmt: skip
CELL = st.one_of(st.sampled_from(CELLS), st.text(max_size=4), st.floats().map(str))


def scattered(cells: list[str], rows: int, seed: int) -> str:
    """Return a table of three columns in which these cells stand anywhere."""
    chance = random.Random(seed)
    return "\n".join(",".join(chance.choices(cells, k=3)) for _ in range(rows))


HOSTILE = st.one_of(
    st.text(max_size=400),
    st.builds(scattered, st.lists(CELL, min_size=1, max_size=12), st.integers(20, 40), st.integers(0, 99)),
)


def outcome(path: Path) -> Data | PipelineError:
    """Return what a run gets of a file: data, or words."""
    try:
        data_set = find_data_set(str(path), (path.parent,))
        assert data_set is not None
        data = prepare(data_set, seed=0)
    except PipelineError as error:
        return error
    assert data.visible.train.features.shape[1] == data_set.features
    return data


def is_sound(end: Data | PipelineError) -> bool:
    if isinstance(end, PipelineError):
        return end.code == "CONFIG" and end.message.endswith(".")
    parts = (end.visible.train, end.visible.watch, end.visible.validation, end.sealed.open())
    return all(np.isfinite(part.features).all() and np.isfinite(part.targets).all() for part in parts)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=HOSTILE, packed=st.booleans())
def test_whatever_a_csv_holds_it_is_read_or_refused_in_words(tmp_path: Path, text: str, packed: bool) -> None:
    data = text.encode("utf-8", "surrogatepass")
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    assert is_sound(outcome(path))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(["1", "0", "2.5", "", "inf", "x", "yes", "1e29"]), min_size=2, max_size=4),
    rows=st.integers(20, 80),
    seed=st.integers(0, 99),
)
def test_whatever_columns_a_csv_mixes_its_parts_hold_only_numbers(
    tmp_path: Path, words: list[str], rows: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    columns = [(name, list(chance.choice(words, rows))) for name in "abc"]
    path = make_csv(tmp_path / "t.csv", *columns, ("goal", kinds(rows)))
    assert is_sound(outcome(path))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 4000), byte=st.integers(0, 255), kind=st.sampled_from(["npz", "parquet", "csv.gz"])
)
def test_a_damaged_file_is_read_or_refused_in_words(tmp_path: Path, place: int, byte: int, kind: str) -> None:
    sound = tmp_path / f"sound.{kind}"
    if not sound.exists():
        make = {"npz": sound_npz, "parquet": sound_parquet, "csv.gz": sound_packed}
        make[kind](sound)
        assert isinstance(outcome(sound), Data)
    data = bytearray(sound.read_bytes())
    data[place % len(data)] = byte
    damaged = tmp_path / f"damaged.{kind}"
    damaged.write_bytes(bytes(data))
    assert is_sound(outcome(damaged))


def sound_npz(path: Path) -> None:
    np.savez_compressed(path, X=np.array([some(), some(2)]).T, y=np.array(kinds()))


def sound_parquet(path: Path) -> None:
    parquet.write_table(arrow.table({"x": some(), "city": kinds(), "kind": kinds()}), path)


def sound_packed(path: Path) -> None:
    plain = make_csv(path.with_suffix(".plain"), ("x", some()), ("kind", kinds()))
    path.write_bytes(gzip.compress(plain.read_bytes()))


# what is refused, and in which words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("a,b\n1,2\n", "it has 1 rows with a target, and 20 are needed"),
        ("a,kind\n" + "1,x\n" * 30, "is the same in every row"),
        ("a,kind\n1,y\n" + "".join(f"{row}.5,x\n" for row in range(30)), "fewer than 3 rows: 'y'"),
        ("a,kind\n" + "1,\n" * 30, "the target 'kind' has no values"),
        ("a,kind\n" + "1,x\n" * 20 + "1,y\n" * 20, "no column is left to learn from"),
        ("kind\n" + "x\n" * 20 + "y\n" * 20, "no column is left to learn from"),
        ("a,kind\n1,x\n1,2,3\n", "line 3 has 3 cells where the first has 2"),
        ("a,a\n1,x\n", "two columns have the same name: 'a'"),
        ('a,kind\n1,"x\n', "Look for quotes that are not closed"),
        ("a,kind\n1,\0\n", "NUL"),
        ("a,price\n" + "".join(f"{row}.5,about {row}\n" for row in range(30)), "no numbers to predict"),
        ("a,day\n" + "".join(f"{row}.5,2024-01-0{1 + row % 9}\n" for row in range(30)), "is a time"),
        ("a,kind\n" + "".join(f"{row}e35,{row % 2}\n" for row in range(30)), "beyond 1e+30"),
        ("target,label\n" + "1,2\n" * 30, "'target', 'label' may each be the target"),
    ],
)  # fmt: skip
def test_an_unfit_table_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    message = refusal(tmp_path / "t.csv")
    assert words in message
    assert message.startswith("The data file t.csv cannot be used: ")


def test_an_unknown_target_lists_the_columns(tmp_path: Path) -> None:
    path = make_csv(tmp_path / "t.csv", ("size", some()), ("kind", kinds()))
    assert "it has no column 'price'; its columns: 'size', 'kind'." in refusal(path, "price")


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    for data in ("größe,kind\n".encode("latin-1"), "a,b\n".encode("utf-16")):
        (tmp_path / "t.csv").write_bytes(data)
        assert "save it again as CSV in UTF-8" in refusal(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("ROWS_MAX", 50, "more than 50 rows"),
        ("BYTES_MAX", 100, "and 100 are allowed"),
        ("CELLS_MAX", 100, "more than 100 cells"),
        ("COLUMNS_MAX", 1, "it has 2 columns"),
        ("RECORD_CHARS_MAX", 4, "a row is longer than 4 characters"),
    ],
)
def test_a_csv_beyond_a_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, words: str
) -> None:
    monkeypatch.setattr(tables, limit, value)
    assert words in refusal(make_csv(tmp_path / "t.csv", ("x", some()), ("kind", kinds())))


def test_an_open_quote_does_not_swallow_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RECORD_CHARS_MAX", 1000)
    (tmp_path / "t.csv").write_text('a,b\n"' + 'x\n","' * 1000)
    assert "look for an open quote" in refusal(tmp_path / "t.csv")


def test_what_unpacks_without_end_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BYTES_MAX", 100_000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000))
    assert "unpacks to more than 100,000" in refusal(tmp_path / "t.csv.gz")


def test_a_text_column_that_makes_too_many_features_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.kinds.experiment.data.columns.FEATURES_MAX", 5)
    path = make_csv(tmp_path / "t.csv", ("city", [row % 7 or "x" for row in range(ROWS)]), ("kind", kinds()))
    assert "more than 5 features" in refusal(path)


def test_a_folder_or_a_pipe_is_no_data_file(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    assert "no plain file" in refusal(tmp_path / "folder.csv")
    assert "no plain file" in refusal(tmp_path / "pipe.csv")


# NPZ


def make_npz(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("shape", [(6, 6), (1, 6, 6), (6, 6, 1)])
def test_square_arrays_are_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, size=(ROWS, *shape)).astype(np.uint8)
    path = make_npz(tmp_path / "images.npz", features=pixels, targets=np.arange(ROWS) % 3)
    found = find_data_set(str(path), (tmp_path,))
    assert found is not None
    assert (found.image_side, found.features, found.outputs) == (6, 36, 3)
    data = prepare(found, seed=0)
    assert data.visible.train.features.shape[1] == 36
    # Pixels share one scale, so an empty one has one value wherever it stands.
    train, blank = data.visible.train.features, data.facts.blank
    assert float(train.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(train.std()) == pytest.approx(1.0, abs=1e-5)
    assert blank == pytest.approx(float(train.min()), abs=0.02)


def test_arrays_that_are_no_images_are_flattened_with_a_note(tmp_path: Path) -> None:
    path = make_npz(
        tmp_path / "a.npz", X=np.random.default_rng(0).normal(size=(ROWS, 2, 5)), y=kinds(), z=[1]
    )
    table, _ = read_table(path, "")
    assert (len(table.features), table.image_side) == (10, None)
    assert "flattened" in table.notes[0]
    assert "not read: 'z'" in " ".join(table.notes)


def test_another_array_of_targets_can_be_named(tmp_path: Path) -> None:
    path = make_npz(tmp_path / "a.npz", X=np.array([some()]).T, y=kinds(), price=np.array([some(8)]).T)
    table, _ = read_table(path, "price")
    assert table.target.task == "regression"
    assert "holds the arrays" in refusal(path, "cost")


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")] * ROWS, dtype=object)
    pickle.dumps(trap)  # the trap can be set
    path = make_npz(tmp_path / "a.npz", X=np.array([some()]).T, y=trap)
    assert "pickled objects, which are never loaded" in refusal(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": [[1.0]] * 30}, "it must hold X and y or features and targets"),
        ({"X": [[1.0]] * 30, "y": [1] * 29}, "both need one entry for each row"),
        ({"X": np.zeros((30, 2), dtype=complex), "y": [1] * 30}, "holds complex128 values"),
        ({"X": [["a"]] * 30, "y": [1] * 30}, "its features are text"),
        ({"X": np.zeros((0, 3)), "y": []}, "it is empty"),
        ({"X": np.full((30, 4, 4), np.nan), "y": np.arange(30) % 2}, "images have pixels that are missing"),
    ],
)
def test_an_unfit_npz_is_refused_in_words(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    assert words in refusal(make_npz(tmp_path / "a.npz", **arrays))


def npy(shape: str, data: bytes = b"") -> bytes:
    """Return an array file whose heading claims `shape`."""
    heading = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(heading)) + heading + data


@pytest.mark.parametrize("shape", ["(1000000000000, 9)", "(-1, 5)", "(" + "2," * 64 + ")"])
def test_an_array_that_claims_more_than_it_holds_takes_no_memory(tmp_path: Path, shape: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", npy(shape))
        archive.writestr("y.npy", npy("(30,)", bytes(240)))
    assert "'X' " in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "heading",
    [
        "(" * 4000, "{'descr': \"\"\"<f8", "\n  {\n 'descr'", "{[]: '<f8'}",
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (30,), }",
        "{'descr': ('<f8', 'a', 3), 'fortran_order': False, 'shape': (30,), }",
    ],
)  # fmt: skip
def test_an_array_with_a_strange_heading_is_refused_in_words(tmp_path: Path, heading: str) -> None:
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(heading)) + heading.encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", array)
        archive.writestr("y.npy", npy("(30,)", bytes(240)))
    assert "'X' " in refusal(tmp_path / "a.npz")


def test_an_npz_that_unpacks_to_too_much_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BYTES_MAX", 100_000)
    path = make_npz(tmp_path / "a.npz", X=np.zeros((50_000, 1)), y=np.zeros(50_000))
    assert path.stat().st_size < 10_000
    assert "unpacks to 400,128 bytes" in refusal(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    for name, words in (
        ("a.npz", "no NPZ archive"),
        ("a.parquet", "no Parquet file"),
        ("a.csv.gz", "not unpack"),
    ):
        (tmp_path / name).write_bytes(b"no such format" * 20)
        assert words in refusal(tmp_path / name)


# Parquet


def make_parquet(path: Path, **columns: Any) -> Path:
    parquet.write_table(arrow.table(columns), path)
    return path


def test_the_types_of_a_parquet_file_count(tmp_path: Path) -> None:
    path = make_parquet(
        tmp_path / "a.parquet",
        postcode=arrow.array([f"0{row % 3}" for row in range(ROWS)]),
        coded=arrow.array(["a", "b", None] * 20).dictionary_encode(),
        price=arrow.array([row * 100 for row in range(ROWS)]).cast(arrow.decimal128(21, 2)),
        moment=arrow.array([row * 1_000_000 for row in range(ROWS)], arrow.timestamp("us", "UTC")),
        big=arrow.array([2**63 + row * 2**40 for row in range(ROWS)], arrow.uint64()),
        parts=arrow.array([[row] for row in range(ROWS)]),
        raw=arrow.array([b"x"] * ROWS),
        nothing=arrow.nulls(ROWS),
        kind=arrow.array(kinds()),
    )
    table, _ = read_table(path, "kind")
    assert feature_names(table) == [
        "postcode is 00", "postcode is 01", "postcode is 02", "coded is a", "coded is b", "coded is missing",
        "price", "moment", "big",
    ]  # fmt: skip
    moment = next(feature for feature in table.features if feature.name == "moment")
    assert moment.values().tolist() == [float(row) for row in range(ROWS)]
    assert "'parts' holds list" in " ".join(table.notes)
    assert "'raw' holds binary" in " ".join(table.notes)


def test_a_parquet_beyond_a_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_parquet(tmp_path / "a.parquet", x=arrow.array(some()), kind=arrow.array(kinds()))
    with monkeypatch.context() as changed:
        changed.setattr(tables, "ROWS_MAX", 50)
        assert "more than 50 rows" in refusal(path)
    size = path.stat().st_size
    parquet.write_table(
        arrow.table({"x": [0.5] * 100_000, "kind": kinds(100_000)}), path, use_dictionary=False
    )
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(tables, "BYTES_MAX", max(size, 100_000))
    assert "unpacks to" in refusal(path)


def test_a_long_text_that_is_claimed_by_every_row_takes_its_memory_once(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    codes = arrow.array([row % 2 for row in range(200_000)], arrow.int32())
    path = make_parquet(
        tmp_path / "a.parquet",
        text=arrow.DictionaryArray.from_arrays(codes, [long, "y"]),
        x=arrow.array(some(rows=200_000)),
    )
    before = arrow.total_allocated_bytes()
    table, _ = read_table(path, "x")
    assert len(table.features) == 2
    assert arrow.default_memory_pool().max_memory() - before < 500_000_000  # 100 GB where it is spelt out


def test_a_pod_without_pyarrow_reads_csv_and_names_what_parquet_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_parquet(tmp_path / "a.parquet", x=arrow.array(some()), kind=arrow.array(kinds()))
    plain = make_csv(tmp_path / "a.csv", ("x", some()), ("kind", kinds()))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert "needs the package pyarrow" in refusal(path)
    assert len(read_table(plain, "")[0]) == ROWS


def test_reading_holds_a_digest_of_the_very_bytes(tmp_path: Path) -> None:
    path = make_csv(tmp_path / "t.csv", ("x", some()), ("kind", kinds()))
    _, one = read_table(path, "")
    path.write_bytes(path.read_bytes() + io.BytesIO(b"0.5,good\n").getvalue())
    assert read_table(path, "")[1] != one
