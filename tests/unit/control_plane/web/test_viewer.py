"""What of a file is shown in place."""

from __future__ import annotations

import time

import pytest

from control_plane.server.web.viewer import COLUMNS_MAX, ROWS_MAX, kind_of, view


@pytest.mark.parametrize(
    ("name", "content_type", "kind"),
    [
        ("plots/a.csv", "text/csv", "table"),
        ("a.tsv", "application/octet-stream", "table"),
        ("a.png", "image/png", "picture"),
        ("paper.pdf", "application/pdf", "paper"),
        ("tree.json", "application/json", "text"),
        ("paper.tex", "application/octet-stream", "text"),
        ("page.html", "text/html", "text"),
        ("drawing.svg", "image/svg+xml", "other"),
        ("weights.pt", "application/octet-stream", "other"),
    ],
)
def test_a_file_is_shown_by_its_name_and_type_and_never_run(name: str, content_type: str, kind: str) -> None:
    assert kind_of(name, content_type) == kind


def test_a_table_keeps_quoted_cells_whole() -> None:
    content = b'name,value\n"a, b",1\n"two\nlines",<b>2</b>\n'
    shown = view("t.csv", "text/csv", content, len(content))
    assert shown.kind == "table"
    assert shown.rows == [["name", "value"], ["a, b", "1"], ["two\nlines", "<b>2</b>"]]
    assert shown.note == ""


def test_what_is_too_long_is_cut_and_says_so() -> None:
    many = b"".join(b"%d,x\n" % n for n in range(3 * ROWS_MAX))
    shown = view("t.csv", "text/csv", many, len(many))
    assert len(shown.rows) == ROWS_MAX + 1
    assert f"first {ROWS_MAX} rows" in shown.note
    wide = ",".join("x" * 2 * COLUMNS_MAX).encode()
    assert f"first {COLUMNS_MAX} columns" in view("t.csv", "text/csv", wide, len(wide)).note
    cut = view("t.csv", "text/csv", b"a,b\n1,2\n3,", 50_000)
    assert cut.rows == [["a", "b"], ["1", "2"]], "no half row"
    assert "first 10 of 50,000 bytes" in cut.note
    half = view("t.json", "application/json", b'{"a": ', 50_000)
    assert half.text == '{"a": '


def test_json_is_laid_out_and_what_is_none_stands_as_it_is() -> None:
    assert view("t.json", "application/json", b'{"a":[1]}', 9).text == '{\n  "a": [\n    1\n  ]\n}'
    assert view("t.json", "application/json", b"{oops", 5).text == "{oops"
    assert (
        view("t.log", "text/plain", b"a\xff\x00b", 4).text
        == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"
    )
    deep = b"[" * 100_000
    assert view("t.json", "application/json", deep, len(deep)).text == deep.decode()


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 700 + b",".join([b"0"] * 250_000) + b"]" * 700,
        b'{"a":' * 300 + b"[" + b",".join([b'{"a":[]}'] * 50_000) + b"]" + b"}" * 300,
        b"[" + b",".join([b'{"a":1}'] * 60_000) + b"]",
    ],
    ids=["zeros in 700 lists", "objects in 300 objects", "many objects"],
)
def test_json_that_would_become_hundreds_of_mebibytes_is_shown_as_it_was_written(hostile: bytes) -> None:
    begun_s = time.process_time()
    shown = view("t.json", "application/json", hostile, len(hostile))
    assert time.process_time() - begun_s < 2.0
    assert shown.text == hostile.decode()
    assert "as it was written" in shown.note


def test_a_table_that_cannot_be_read_is_shown_as_text() -> None:
    content = b'"' + b"x" * 200_000
    shown = view("t.csv", "text/csv", content, len(content))
    assert shown.kind == "text"
    assert "no table" in shown.note
