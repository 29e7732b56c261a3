"""What is printed, in each of its forms, and that nothing of it steers a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from podfleet import output
from podfleet.commands import results
from podfleet.output import Column, clean, clean_lines, field, print_items

COLUMNS = (
    Column("ID", field("id"), is_whole=True),
    Column("TITLE", field("title")),
    Column("SHARE", field("deep", "share"), lambda share: f"{share:.0%}", is_whole=True, is_right=True),
    Column("SPARE", field("spare"), is_spare=True),
)
ITEMS: list[dict[str, Any]] = [
    {
        "id": "A" * 26,
        "title": "[red]one[/red]\ttwo\nthree",
        "deep": {"share": 0.5},
        "spare": {"a": [1, True]},
    },
    {"id": "B" * 26, "title": "\x1b[2Jgone", "deep": None, "spare": "x" * 60},
]


@given(st.text())
def test_no_character_that_steers_survives(text: str) -> None:
    cleaned = clean(text)
    assert not output.UNPRINTABLE.search(cleaned)
    assert not output.UNPRINTABLE.search(clean_lines(text).replace("\n", ""))
    cleaned.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jclear", "clear"),
        ("\x1bPq#0\x1b\\picture", "picture"),
        ("never ended \x1b]0;title", "never ended 0;title"),
        ("over\rwritten\bback", "over written back"),
        ("right \u202eto left", "right  to left"),
        ("lone \ud800", "lone  "),
        ("Grüße ✓ 名前", "Grüße ✓ 名前"),
    ],
)
def test_sequences_go_whole_and_words_stay(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_a_pipe_gets_one_row_a_line_with_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(ITEMS, COLUMNS)
    assert capsys.readouterr().out.split("\n") == [
        "ID\tTITLE\tSHARE\tSPARE",
        f'{"A" * 26}\t[red]one[/red] two three\t0.5\t{{"a": [1, true]}}',
        f"{'B' * 26}\tgone\t\t{'x' * 60}",
        "",
    ]
    print_items([], COLUMNS)
    assert capsys.readouterr().out == "ID\tTITLE\tSHARE\tSPARE\n"


def test_no_cell_of_a_pipe_is_a_formula_and_a_number_stays_one(capsys: pytest.CaptureFixture[str]) -> None:
    values = ["=1+1", "@SUM(A1)", "-2+3", "+cmd|' /C calc'!A0", "\t=1", "-5", "+1e3", "-", -5, "a=b"]
    print_items([{"id": value} for value in values], COLUMNS[:1])
    told = ["'=1+1", "'@SUM(A1)", "'-2+3", "'+cmd|' /C calc'!A0", " =1", "-5", "+1e3", "-", "-5", "a=b"]
    assert capsys.readouterr().out.split("\n") == ["ID", *told, ""]
    output.print_fields([("title", "=1+1")])
    assert capsys.readouterr().out == "title\t'=1+1\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_name_of_a_field_is_an_order_either(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: is_terminal)
    hostile = [
        "\x1b[2Jcolour",
        "\x1b]0;title\x07name",
        "over\rwritten",
        "\x9b2Jx",
        "\u202eright",
        "a\tb\nc",
        "=1+1",
    ]
    output.print_fields([(name, "value") for name in hostile])
    told = capsys.readouterr().out
    assert not output.UNPRINTABLE.search(told.replace("\n", "").replace("\t", ""))
    lines = told.splitlines()
    assert len(lines) == len(hostile)
    assert is_terminal or [line.partition("\t")[0] for line in lines][-2:] == ["a b c", "'=1+1"]


def test_ids_and_json_are_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(ITEMS, COLUMNS, ids_only=True)
    assert capsys.readouterr().out.split() == ["A" * 26, "B" * 26]
    print_items([{"id": "\x1b[2J\x7f\u202e"}], COLUMNS, as_json=True)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert "\x7f" not in printed
    assert json.loads(printed) == [{"id": "\x1b[2J\x7f\u202e"}]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_terminal_gets_a_table_whose_ids_are_whole(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    print_items(ITEMS, COLUMNS)
    header, *lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    assert ("SPARE" in header) == (width > 50), "spare columns go before anything is cut"
    assert [line[:26] for line in lines if line[:1].strip()] == ["A" * 26, "B" * 26]
    assert "[red]one[/red]" in "".join(lines), "nothing of it is markup"
    assert width < 200 or "a 1; yes" in lines[0], "a person reads no brackets"
    print_items([], COLUMNS, none="nothing yet")
    assert capsys.readouterr().out == "nothing yet\n"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_row_is_one_line_that_is_cut_and_prose_is_folded(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    items = [
        {"id": f"{number:026}", "title": "long " * 40 + "名前" * 20, "says": "word"} for number in (1, 2)
    ]
    columns = [Column("ID", field("id"), is_whole=True, is_id=True), Column("TITLE", field("title"))]
    print_items(items, [*columns, Column("SAYS", field("says"))])
    _header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["…000001", "…000002"], "its end tells it from the others"
    assert all("…  word" in line and cell_len(line) <= width for line in lines)

    print_items(items[:1], [*columns, Column("SAYS", field("title"), is_prose=True)])
    _header, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert "".join(lines).count("名") >= 20


def test_a_row_that_fits_has_its_whole_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_items([{"id": "A" * 26}], [Column("ID", field("id"), is_whole=True, is_id=True)])
    assert "A" * 26 in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["01AAAAAAB", "01AAAAAAC"], ["…AAAAAB", "…AAAAAC"]),
        (["0BAAAAAAA", "0CAAAAAAA", "–"], ["0BAAAAAAA", "0CAAAAAAA", "–"]),
        (["01AAAAAAB", "01AAAAAAB"], ["…AAAAAB", "…AAAAAB"]),
        ([], []),
    ],
)
def test_an_id_is_cut_as_far_as_it_differs(ids: list[str], expected: list[str]) -> None:
    assert output.ends(ids) == expected


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_file_that_is_printed_steers_no_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "is_terminal", lambda: is_terminal)
    pieces = "key\r\n\x1b[2Jä\x9b\r\n".encode()
    told = b"".join(results.printed([pieces[:9], pieces[9:11], pieces[11:]]))
    assert told == ("key\n\\x1b[2Jä\\x9b\n".encode() if is_terminal else pieces)
