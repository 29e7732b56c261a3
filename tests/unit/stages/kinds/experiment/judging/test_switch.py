"""What is found between a program's run with its switch on and its run with it off."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from events.kinds.space.recipe import Recipe
from stages.kinds.experiment.judging.switch import (
    LINES_MAX,
    TOO_LONG,
    arms_of,
    beyond_switch,
    choices_of,
    difference_of,
    reads_switch,
    text_of,
)
from stages.kinds.experiment.trials.template import program_for

PROGRAM = """
PARAMS = {{"dropout": 0.2, "C": 0.053, "squares": "off"}}
def run(task):
    epochs = 20
    features = task.train.features
{body}
    return fitted(features, epochs)
"""


def program(*lines: str) -> str:
    return PROGRAM.format(body="\n".join(f"    {line}" for line in lines))


HONEST = {
    "one strength": ('rate = PARAMS["dropout"] if task.intervention else 0.0',),
    "a part that is added": ("if task.intervention:", "    features = np.hstack([features, features ** 2])"),
    "by another name": ("on = task.intervention", "if on and len(features):", "    features = squares()"),
    "turned round": ("if not task.intervention:", "    features = plain()", "else:", "    features = cnn()"),
    "a count of its own": ("if task.intervention:", "    total = 0", "    features = smoothed(total)"),
}  # fmt: skip
TWO_THINGS = {
    "another regularisation": (
        ("C = 0.053 if task.intervention else 1e-5", 'squares = PARAMS["squares"]'),
        "C = 1e-05 / C = 0.053",
    ),
    "a strength and a length": (
        (
            "if task.intervention:", '    rate = PARAMS["dropout"]', "    length = 40",
            "else:", "    rate = 0.0", "    length = 20",
        ),
        "length = 20 / length = 40",
    ),
    "longer in one arm": (("if task.intervention:", "    epochs = 40"), "epochs = 40"),
    "twice as long": (("on = task.intervention", "if on:", "    epochs *= 2"), "epochs *= 2"),
    "two strengths": (
        (
            'a = PARAMS["dropout"] if task.intervention else 0.0',
            'c = PARAMS["C"] if task.intervention else 1e-5',
        ),
        "c = 1e-05 / c = PARAMS['C']",
    ),
    "an argument": (
        ("model = SVC(C=1.0) if task.intervention else SVC(C=0.1)",),
        "SVC(C=0.1) / model = SVC(C=1.0)",
    ),
    "no switch at all": (("C = 0.053",), "does not read the switch"),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_one_thing_that_is_switched_is_no_other_difference(name: str) -> None:
    code = program(*HONEST[name])
    assert reads_switch(code)
    assert beyond_switch(code) == ()
    assert difference_of(code)


@pytest.mark.parametrize("name", TWO_THINGS)
def test_whatever_else_is_switched_is_named(name: str) -> None:
    body, words = TWO_THINGS[name]
    assert any(words in line for line in beyond_switch(program(*body))), beyond_switch(program(*body))


def test_a_recipe_may_switch_the_choices_of_its_intervention_alone() -> None:
    code = program_for(Recipe(), {"dropout": 0.2, "lr": 0.1})
    assert beyond_switch(code, frozenset({"dropout", "lr"})) == ()
    assert beyond_switch(code, frozenset({"dropout"})) == ("lr: 0.003 / 0.1",)
    assert choices_of(code, is_on=False) == Recipe().params()
    assert choices_of(code, is_on=True) == Recipe(dropout=0.2, lr=0.1).params()
    assert {"dropout: 0.0 / 0.2", "lr: 0.003 / 0.1"} <= {*difference_of(code)}


@pytest.mark.parametrize("code", ["def run(", "x = " + "(" * 500 + ")" * 500, "\0"])
def test_what_does_not_parse_reads_no_switch(code: str) -> None:
    assert not reads_switch(code)
    assert beyond_switch(code) == ("the program does not read the switch",)
    assert choices_of(code, is_on=True) == {}
    assert difference_of(code) == ()


def test_a_program_that_is_too_deep_to_be_gone_through_has_no_arms() -> None:
    code = f"x = 1{' + 1' * 900}"
    assert ast.parse(code), "it is only too deep for us"
    assert arms_of(code) is None


def switched(statements: Callable[[int], str]) -> str:
    on, off = statements(1), statements(2)
    return f"def run(task):\n    if task.intervention: {on}\n    else: {off}\n"


def test_a_long_program_is_compared_in_a_moment_and_as_a_whole() -> None:
    """A search for what both have alike takes the cube of the statements that repeat: minutes, of these."""

    def repeated(arm: int) -> str:
        return "; ".join(
            "a = b" if place % 2 else f"c = d{arm if place % 5 else 0}" for place in range(3_000)
        )

    began_s = process_time()  # however busy the machine is
    assert beyond_switch(switched(repeated)) == ()
    assert beyond_switch(switched(lambda arm: f"{repeated(arm)}; x = {arm}")) == ("x = 2 / x = 1",)
    assert difference_of(switched(repeated)) == (TOO_LONG,)
    assert process_time() - began_s < 60


@pytest.mark.parametrize("more", [0, 1, 2, 500])
def test_a_statement_that_one_arm_has_besides_hides_nothing_behind_it(more: int) -> None:
    """What both begin and end with is alike, wherever the rest stands."""
    alike = "; ".join(f"a{place} = b" for place in range(10))
    besides = "; ".join(["c = d"] * more)
    code = switched(
        lambda arm: "; ".join(filter(None, (alike, besides if arm == 1 else "", f"x = {arm}", alike)))
    )
    (found,) = beyond_switch(code)
    assert found.endswith("x = 1")


def test_what_is_not_listed_is_counted() -> None:
    listed = difference_of(switched(lambda arm: "; ".join(f"a{place} = b{arm}" for place in range(100))))
    assert len(listed) == LINES_MAX
    assert re.fullmatch(r"… and \d{2,3} more lines", listed[-1])


@pytest.mark.parametrize("one", ["'400'", "b'400'", "' 4e2 '", "'4_00'"])
def test_a_number_that_is_written_as_text_is_a_number(one: str) -> None:
    code = program(f"epochs = int({one} if task.intervention else '40')")
    assert beyond_switch(code) == (f"epochs = int('40') / epochs = int({one})",)
    words = program("kind = 'relu' if task.intervention else 'gelu'", "fitted(features, kind)")
    assert beyond_switch(words) == ()


PLAIN = """
RECIPE = {"dropout": 0.0}
def run(task):
    if task.intervention:
        rate = 0.2
    else:
        rate = 0.0
    return f"{rate!r} {RECIPE['dropout']}"
"""


def test_an_arm_is_a_program_of_its_own_that_reads_no_switch() -> None:
    off, on = (text_of(PLAIN, is_on=is_on) for is_on in (False, True))
    assert off is not None
    assert on is not None
    said = []
    for text in (off, on):
        assert "task.intervention" not in text
        names: dict[str, Any] = {}
        exec(text, names)  # noqa: S102 - a program of this very test
        said.append(names["run"](None))
    assert said == ["0.0 0.0", "0.2 0.0"]
    assert text_of("def run(task:", is_on=True) is None
