"""Commands with places for parameters, and the jobs that have them."""

from __future__ import annotations

from typing import Any

import pytest

from events.kinds import read_spec, title_of
from events.runtime.errors import Rejected
from events.text.filling import filled


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("--lr {lr}", "--lr 0.1"),
        ("{opt}/{lr}{opt}", "{lr} b/0.1{lr} b"),  # what a value holds is no place
        ('{{"lr": {lr}, "on": {on}}}', '{"lr": 0.1, "on": true}'),
        ("{{lr}}", "{lr}"),
        ("", ""),
    ],
)
def test_places_are_filled_once_and_two_braces_are_one(text: str, made: str) -> None:
    assert filled(text, {"lr": 0.1, "opt": "{lr} b", "on": True}) == made


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": "train {rate}"}, r"\{rate\} is no parameter, there are lr"),
        ({"command": "train {lr} {"}, r"a single \{ at character 1: write \{\{"),
        ({"command": "train {lr} { lr}"}, r"a single \{"),
        ({"command": "train {lr}}"}, r"a single \}"),
        ({"command": "train"}, r"no \{lr\} stands in command or env"),
        ({"command": "train {lr}", "env": {"A": "{b}"}}, r"env: \{b\} is no parameter"),
        ({"command": "train {lr}", "params": {"lr": None}}, "params"),
        ({"command": "train {lr}", "params": {"lr": [1]}}, "params"),
        ({"command": "train {lr}", "params": {"lr": float("nan")}}, "params"),
        ({"command": "train {lr}", "params": {"lr": "x" * 2_000}}, "params"),
        ({"command": "train {lr}", "params": {"l r": 1}}, "params"),
        ({"command": "{a}" * 10, "params": {"a": "x" * 1_000}}, "8,192 characters at most"),
        ({"command": "{a}", "params": {"a": "x"}, "env": {"E": "{a}" + "y" * 4_096}}, "env"),
    ],
)
def test_a_job_that_cannot_be_filled_in_is_refused_with_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_spec("job", {"params": {"lr": 0.1}, **fields})


def test_a_value_stays_one_word_and_a_job_without_parameters_keeps_its_braces() -> None:
    spec: Any = read_spec("job", {"command": "run {name} '{{}}'", "params": {"name": "a b; rm"}})
    assert (spec.words, title_of("job", spec)) == (["run", "a b; rm", "{}"], "run 'a b; rm' '{}'")
    plain: Any = read_spec("job", {"command": "python -c 'print({1})'", "env": {"A": "{x}"}})
    assert (plain.words[-1], plain.variables) == ("print({1})", {"A": "{x}"})
