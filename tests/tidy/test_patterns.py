"""A pattern that checks a text reads it to its end: in Python `$` also fits before a last line feed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.test_house_rules import PACKAGES, ROOT

READERS: Final = {"compile", "match", "search", "fullmatch", "finditer", "findall", "sub", "subn", "split"}
CLASS: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])+\]", re.DOTALL)  # a `$` in it is a letter


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each pattern that may end before the end of the text, and what is meant."""
    if "$" not in source and "Meta(" not in source:
        return
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        if name.rpartition(".")[2] == "Meta":
            for each in call.keywords:
                text = _text(each.value) if each.arg == "pattern" else r"\A\Z"
                if not (text.startswith(r"\A") and text.endswith(r"\Z")):
                    yield call.lineno, r"the pattern of a type begins with \A and ends with \Z, in its place"
        is_of_lines = "MULTILINE" in ast.unparse(call)
        is_pattern = name.startswith("re.") and name.removeprefix("re.") in READERS and call.args
        if is_pattern and not is_of_lines and "$" in CLASS.sub("", _text(call.args[0])):
            yield call.lineno, r"the end of a text is \Z"


def _text(pattern: ast.expr) -> str:
    """Return what is written of a pattern; what is put into it is left out."""
    texts = [each.value for each in ast.walk(pattern) if isinstance(each, ast.Constant)]
    return "".join(each for each in texts if isinstance(each, str))


def test_a_pattern_ends_where_the_text_ends() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {meant}"
        for package in (*PACKAGES, "testing", "scripts")
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, meant in faults(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('Sha = msgspec.Meta(pattern="^[0-9]{4}$")', 1),
        ("Name = Meta(max_length=1, pattern=NAME)", 1),
        ('Name = Meta(pattern=rf"\\A{NAME}\\Z", max_length=1)', 0),
        ('X = re.compile(r"(a|b)$")', 1),
        ('X = re.match(rf"{NAME}(?:$|,)", text)', 1),
        ('X = re.compile(r"[$] \\$ \\\\$"[:-1])', 1),
        ('X = re.compile(r"[$] \\$ [^\\]$]")', 0),
        ('X = re.compile("^a$", re.MULTILINE)', 0),
        ('X = text.split("$")', 0),
    ],
)
def test_the_search_for_such_patterns_finds_them(source: str, count: int) -> None:
    assert len([*faults(source)]) == count
    assert re.search("^a$", "a\n"), "so it is in Python"
