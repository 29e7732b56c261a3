"""Packed tests of programs: plain values come out, and nothing else happens."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stages.kinds.benchmark.suites.code import private_tests
from stages.kinds.benchmark.suites.code.private_tests import BadTests, cases_of, unpacked
from stages.kinds.benchmark.suites.payload import Line, Program

CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
PROGRAM = Program("made", "", "", json.dumps(CASES), "[]")


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


class Calls:
    """An object that calls a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_tests_are_read_plain_and_packed() -> None:
    for private in (json.dumps(CASES), packed(json.dumps(CASES)), ""):
        found = cases_of(replace(PROGRAM, private=private))
        assert [test.wanted for test in found] == ["2\n"] * (1 + (private != ""))


def test_no_function_is_called(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for attack in (
        Calls(os.mkdir, str(trace)),
        Calls(eval, "1"),
        Calls(print, "x"),
        [Calls(open, str(trace), "w")],
    ):
        with pytest.raises(BadTests, match="plain values only"):
            unpacked(packed(attack))
    assert not trace.exists()


@pytest.mark.parametrize(
    "told",
    [
        "no base64!",
        base64.b64encode(b"not packed").decode(),
        base64.b64encode(zlib.compress(b"no pickle")).decode(),
        base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-6]).decode(),
        base64.b64encode(zlib.compress(b"\x80\x04Pabc\n.")).decode(),
        base64.b64encode(zlib.compress(b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.")).decode(),
        base64.b64encode(zlib.compress(b"\x80\x04]\x94(h\x05e.")).decode(),
        packed(["no text"]),
        packed(5),
    ],
)
def test_what_is_no_packed_text_is_refused(told: str) -> None:
    with pytest.raises(BadTests):
        unpacked(told)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_tests, "UNPACKED_BYTES_MAX", 10_000)
    assert unpacked(packed("x" * 9_000))
    with pytest.raises(BadTests, match="more than 10000 bytes"):
        unpacked(packed("x" * 10_000_000))


@pytest.mark.parametrize(
    "cases",
    [
        {"input": "1"},
        [{"input": 1, "output": "2", "testtype": "stdin"}],
        [{"input": "1", "output": "2", "testtype": "shell"}],
        ["1"],
        [],
        CASES * 1_001,
    ],
)
def test_tests_that_judge_nothing_are_refused(cases: Any) -> None:
    with pytest.raises(BadTests):
        cases_of(replace(PROGRAM, public=json.dumps(cases)))


def test_a_line_that_has_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tests.jsonl"
    row = {"question_id": "made", "private_test_cases": json.dumps(CASES)}
    file.write_text(json.dumps(row))
    program = replace(PROGRAM, private=Line(file, 0, file.stat().st_size))
    assert len(cases_of(program)) == 2
    file.write_text(json.dumps(row | {"question_id": "else"}))
    for _ in range(2):
        with pytest.raises(BadTests):
            cases_of(program)
        file.unlink(missing_ok=True)
