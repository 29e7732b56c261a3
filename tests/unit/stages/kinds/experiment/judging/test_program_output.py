"""What a program may leave behind: whatever it is, it is read or refused in words, in bounded memory."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.kinds.experiment.data.npy import HEADING_BYTES_MAX, NotAnArray, read_numbers
from stages.kinds.experiment.judging.program_output import (
    REPORT_BYTES_MAX,
    Mistake,
    read_answers,
    read_report,
)

ROWS, CLASSES = 4, 3
MEMORY_MAX = 16 << 20  # of everything that one lie may make the reader take


def heading(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text.encode("latin-1")


def claims(descr: str, shape: str = f"({ROWS}, {CLASSES})", order: str = "False") -> bytes:
    return heading(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")


GOOD = bytes(np.full((ROWS, CLASSES), 1 / 3).data)
HEADINGS = {
    "nothing": b"",
    "no array": b"PK\x03\x04" + bytes(200),
    "only the magic": b"\x93NUMPY",
    "version 3": heading("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), }", (3, 0)) + GOOD,
    "version 200": b"\x93NUMPY" + bytes((200, 9)) + bytes(200),
    "a long heading": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{" * 2000,
    "a heading beyond the limit": heading("{" * (HEADING_BYTES_MAX + 1)),
    "nested": heading("(" * 4000),
    "an open bracket": heading("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3"),
    "an open text": heading("{'descr': '''<f8, 'fortran_order'"),
    "an indent": heading("\n  {\n 'descr'"),
    "a call": heading("__import__('os').system('true')"),
    "arithmetic": claims("'<f8'", "(9**9**9, 3)") + GOOD,
    "one key": heading("{'shape': (4, 3), }") + GOOD,
    "a key twice": heading("{'descr': '<f8', 'descr': '<f8', 'shape': (4, 3), }") + GOOD,
    "a fourth key": heading("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3), 'x': 1}") + GOOD,
    "a key that cannot be hashed": heading("{[]: '<f8', 'fortran_order': False, 'shape': (4, 3)}") + GOOD,
    "a shape that is no tuple": claims("'<f8'", "4") + GOOD,
    "a negative shape": claims("'<f8'", "(-4, -3)") + GOOD,
    "a shape of text": claims("'<f8'", "('4', 3)") + GOOD,
    "a shape of floats": claims("'<f8'", "(4.0, 3)") + GOOD,
    "a shape beyond counting": claims("'<f8'", f"({'9' * 400}, 3)") + GOOD,
    "a shape beyond memory": claims("'<f8'", f"({10**17}, {10**17})") + GOOD,
    "many dimensions": claims("'<f8'", "(" + "1," * 500 + ")") + GOOD,
    "the other shape": claims("'<f8'", "(3, 4)") + GOOD,
    "objects": claims("'|O'") + b"cos\nsystem\n(S'true'\ntR.",
    "a record": claims("[('a', '<f8')]") + GOOD,
    "a kind of no size": claims("'<U0'") + GOOD,
    "a kind beyond counting": claims("'<U999999999'") + GOOD,
    "no kind": claims("'<f3'") + GOOD,
    "text": claims("'<U2'") + GOOD,
    "times": claims("'<M8[ns]'") + GOOD,
    "complex numbers": claims("'<c16'") + GOOD + GOOD,
    "a kind that is no text": claims("7") + GOOD,
    "too few data": claims("'<f8'") + GOOD[:-1],
    "too many data": claims("'<f8'") + GOOD + b"\0",
}  # fmt: skip


def refused(read: Callable[[], object]) -> str:
    """Return the words by which something is refused, and hold its cost against the bound."""
    tracemalloc.start()
    try:
        with pytest.raises((Mistake, NotAnArray)) as caught:
            read()
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()
    return str(caught.value)


@pytest.mark.parametrize("name", HEADINGS)
def test_answers_that_are_no_array_of_the_right_shape_are_refused_in_words(tmp_path: Path, name: str) -> None:
    file = tmp_path / "answers.npy"
    file.write_bytes(HEADINGS[name])
    words = refused(lambda: read_answers(file, "classification", ROWS, CLASSES))
    assert words.startswith("the answers cannot be used: ")
    assert len(words) < 300


def test_a_sparse_file_of_the_right_shape_or_any_other_costs_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "answers.npy"
    for shape in (f"({ROWS}, {CLASSES})", "(520000000,)", "(65000000, 1)"):
        file.write_bytes(claims("'|b1'", shape))
        os.truncate(file, 520 << 20)
        refused(lambda: read_answers(file, "classification", ROWS, CLASSES))


def test_an_archive_of_arrays_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros((ROWS, CLASSES)))
    (tmp_path / "a.npz").rename(tmp_path / "answers.npy")
    assert "does not begin" in refused(
        lambda: read_answers(tmp_path / "answers.npy", "classification", ROWS, CLASSES)
    )


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").write_bytes(claims("'<f8'") + GOOD)
    file = tmp_path / "left"
    match kind:
        case "link":
            file.symlink_to(tmp_path / "real")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
    refused(lambda: read_answers(file, "classification", ROWS, CLASSES))
    assert "left no report" in refused(lambda: read_report(file))


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "|u1", "<i8", "|b1"])
def test_numbers_of_every_usual_kind_and_order_are_read_as_numpy_reads_them(
    tmp_path: Path, kind: str
) -> None:
    for order in ("C", "F"):
        array = np.asarray(np.arange(6).reshape(3, 2) % 2, dtype=kind, order=order)  # type: ignore[call-overload]
        np.save(tmp_path / "a.npy", array)
        assert (read_numbers(tmp_path / "a.npy", (3, 2)) == array).all()


REPORTS = {
    "nothing": b"",
    "nested lists": b"[" * 900_000,
    "nested in a field": b'{"error":' + b"[" * 900_000,
    "nested in an unknown field": b'{"x":' + b"[" * 900_000,
    "nested in a curve": b'{"curve":' + b"[" * 900_000,
    "nested in a point": b'{"curve":[{"epoch":' + b'{"a":' * 300_000,
    "an integer of a million digits": b'{"parameters":' + b"9" * 1_000_000 + b"}",
    "a number beyond all": b'{"curve":[{"epoch":1,"train_loss":1e999,"watch_loss":1}]}',
    "a negative count": b'{"parameters":-1}',
    "a count beyond counting": b'{"parameters":9007199254740993}',
    "no Unicode": b'{"error":"\xff\xfe"}',
    "half a character": b'{"error":"\\ud800"}',
    "not a number": b'{"parameters":NaN}',
    "too many points": b'{"curve":[' + b'{"epoch":1,"train_loss":1,"watch_loss":1},' * 5_001 + b"]}",
    "too many bytes": b'{"error":"' + b"a" * REPORT_BYTES_MAX + b'"}',
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_is_none_is_refused_in_words(tmp_path: Path, name: str) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(REPORTS[name])
    words = refused(lambda: read_report(file))
    assert "report" in words
    assert len(words) < 300


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 300), byte=st.integers(0, 255), cut=st.integers(0, 300) | st.none())
def test_a_damaged_array_is_read_or_refused(tmp_path: Path, place: int, byte: int, cut: int | None) -> None:
    data = bytearray(claims("'<f8'") + GOOD)
    data[place % len(data)] = byte
    file = tmp_path / "answers.npy"
    file.write_bytes(bytes(data[:cut]))
    try:
        answers = read_answers(file, "classification", ROWS, CLASSES)
    except Mistake:
        return
    assert answers.shape == (ROWS, CLASSES)


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1.1e150])
def test_numbers_whose_squares_cannot_be_added_up_are_refused(tmp_path: Path, value: float) -> None:
    np.save(tmp_path / "a.npy", np.full(ROWS, value))
    with pytest.raises(Mistake, match="beyond 1e\\+150"):
        read_answers(tmp_path / "a.npy", "regression", ROWS, 1)
