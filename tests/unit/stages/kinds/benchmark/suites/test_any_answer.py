"""Whatever a model answers: it is understood or it is not, and nothing fails."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.kinds.benchmark.suites.code.functions import completed
from stages.kinds.benchmark.suites.instructions.checks import CHECKS, follows
from stages.kinds.benchmark.suites.instructions.language import language_of
from stages.kinds.benchmark.suites.parsing.choice import parse_choice
from stages.kinds.benchmark.suites.parsing.code_block import program_in
from stages.kinds.benchmark.suites.parsing.number import parse_number, single_number
from stages.kinds.benchmark.suites.parsing.thought import without_thought
from stages.kinds.benchmark.suites.payload import Function
from tests.unit.stages.kinds.benchmark.suites.test_instructions import ROWS

PIECES = st.sampled_from(
    [
        *(
            "answer",
            "Answer:",
            "The answer is",
            " is ",
            " not ",
            "\\boxed{",
            "}",
            "{",
            "\\frac",
            "\\text{",
            "####",
            "**",
            "*",
        ),
        *(
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "```",
            "```python\n",
            "\n",
            " ",
            ".",
            ",",
            "-",
            "\u2212",
            "/",
            "^",
            "e",
        ),
        *(
            "1",
            "0",
            "42",
            "1,000",
            "1/0",
            "½",
            "²",
            "\u0663",
            "%",
            "$",
            "million",
            "twenty",
            "(",
            ")",
            "A",
            "B",
            "(C)",
            "D.",
            "I",
        ),
        *(
            " or ",
            " and ",
            "=",
            "between",
            "def f(x):",
            "    return x",
            '"""',
            "\x00",
            "\ud800",
            "\\",
            "[",
            "]",
            ":",
            "***",
            "<<",
            ">>",
        ),
    ]
)
ANSWERS = st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join)
FUNCTION = Function('def f(x):\n    """ Return x. """\n', "f", "", "")


@given(ANSWERS)
def test_any_answer_is_parsed_or_not(answer: str) -> None:
    place = parse_choice(answer, ("Paris", "1 N", "", "(D)"))
    assert place is None or 0 <= place < 4
    for value in (parse_number(answer), single_number(answer)):
        assert value is None or value.exact.denominator
    assert program_in(answer) != ""
    assert completed(FUNCTION, answer) != ()
    assert "<think>" not in without_thought(answer)


@settings(max_examples=30)
@given(ANSWERS)
def test_any_answer_follows_an_instruction_or_not(answer: str) -> None:
    for name, arguments, _, _ in ROWS:
        assert follows(name, answer, arguments) in (True, False)
    assert language_of(answer) is None or len(str(language_of(answer))) == 2
    assert {row[0] for row in ROWS} == CHECKS.keys()
