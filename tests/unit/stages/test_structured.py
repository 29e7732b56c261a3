"""Answers with a form: found in free text, validated, repaired a bounded number of times."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.models.model import Answer, ModelError, Question, Usage
from stages.models.structured import (
    ANSWER_CHARS_MAX,
    CODE_CHARS_MAX,
    TOKENS_MAX,
    Wrong,
    ask_for,
    ask_for_code,
    blocks_of,
    find_code,
    find_json,
)

QUESTION = Question(purpose="draft", system="You plan.", text="Plan it.", tokens_max=1_000)
USAGE = Usage(prompt_tokens=1, completion_tokens=1, seconds=0.0)
ODD = st.text(alphabet=st.sampled_from('`~{}[]":,\\abc \n\0\ud800👀123-'), max_size=300)


class Plan(msgspec.Struct):
    name: str
    steps: Annotated[list[str], msgspec.Meta(min_length=1)]
    score: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5


class ScriptedModel:
    """Answers what it is told to, and remembers what it was asked."""

    name = "m"

    def __init__(self, *answers: str | Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answer) else Answer(text=answer, usage=USAGE)


GOOD = '{"name": "a", "steps": ["b"], "score": 3}'
PLAN = Plan("a", ["b"], 3)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here it is:\n```json\n{GOOD}\n```\nDone.",
        f"```\n{GOOD}\n```",
        f"~~~JSON\n{GOOD}\n~~~",
        f"```json\n{GOOD}",  # the fence does not end
        f"```json\r\n{GOOD}\r\n```\r\n",
        f'He said "hi and [1] or {{x}}: {GOOD}. That is all }}',
        '```json\n{"name": "first"}\n```\nNo, better:\n```json\n' + GOOD + "\n```",
        f"```python\nprint({{1: 2}})\n```\n```json\n{GOOD}\n```",
        f"<think>maybe {GOOD.replace('a', 'z')}</think>{GOOD}",
        GOOD.replace("3", '"3"'),
        GOOD.replace('"a"', '"\u0061"'),
        f"[1, 2] {GOOD}",
    ],
)
def test_json_is_found_wherever_models_put_it(text: str) -> None:
    assert find_json(text, Plan) == PLAN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON"),
        ("I cannot do that.", "no JSON"),
        ('{"name": "a"}', "steps"),
        (GOOD.replace("3", "11"), "score"),
        (GOOD.replace("3", "NaN"), "NaN is no number"),
        ("```json\n" + GOOD.replace("3", "NaN") + "\n```", "NaN is no number"),
        ("```json\n{'name': 'a'}\n```", "double quotes"),
        ("```json\n" + GOOD[:-5], "Unterminated string"),
        ('{"name": "a", "steps": ' + "[" * 60 + "]" * 60 + "}", "nested"),
        ("[" * 200_000, "recursion"),
        ('{"a":' * 100_000, "recursion"),
        ("```json\n" + "[" * 200_000 + "\n```", "recursion"),
        (GOOD.replace("3", "9" * 5000), "digits"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_else_happens(text: str, problem: str) -> None:
    found = find_json(text, Plan)
    assert isinstance(found, Wrong)
    assert problem in found.problem


def test_texts_in_json_can_be_carried_further() -> None:
    found = find_json('{"name": "a\\ud800b\\u0000c", "steps": ["\ud800", "\\u0000"]}', Plan)
    assert isinstance(found, Plan)
    for text in (found.name, *found.steps):
        assert "\0" not in text
        text.encode()


def test_a_wrong_answer_is_asked_for_again_with_its_error() -> None:
    model = ScriptedModel("no idea", '{"name": "a", "steps": []}', GOOD)
    assert ask_for(model, QUESTION, Plan) == PLAN
    first, second, third = model.asked
    assert '"steps"' in first.text
    assert "it holds no JSON" in second.text
    assert "no idea" in second.text
    assert "steps" in third.text
    assert all(asked.purpose == "draft" and asked.text.startswith("Plan it.") for asked in model.asked)


def test_the_repairs_are_counted() -> None:
    model = ScriptedModel(*["no"] * 10)
    with pytest.raises(ModelError, match="3 answers for 'draft' are wrong") as caught:
        ask_for(model, QUESTION, Plan)
    assert caught.value.trouble == "malformed"
    assert len(model.asked) == 3
    with pytest.raises(ModelError):
        ask_for(model, QUESTION, Plan, repairs_max=0)
    assert len(model.asked) == 4


def test_an_answer_that_was_cut_off_gets_more_room() -> None:
    cut = Answer(text="```json\n" + GOOD[:20], usage=USAGE, is_cut_off=True)
    model = ScriptedModel(cut, cut, GOOD)
    assert ask_for(model, QUESTION, Plan) == PLAN
    assert [asked.tokens_max for asked in model.asked] == [1_000, 2_000, 4_000]
    assert "cut off" in model.asked[1].text


def test_what_is_cut_off_to_the_end_is_told_apart() -> None:
    cut = Answer(text="", usage=USAGE, is_cut_off=True)
    with pytest.raises(ModelError) as caught:
        ask_for(ScriptedModel(*[cut] * 3), with_room(QUESTION, TOKENS_MAX), Plan)
    assert caught.value.trouble == "cut_off"


def with_room(question: Question, tokens: int) -> Question:
    return Question(purpose=question.purpose, system="", text=question.text, tokens_max=tokens)


def test_a_huge_answer_is_looked_at_and_quoted_within_limits() -> None:
    model = ScriptedModel("x" * 5_000_000, GOOD)
    assert ask_for(model, QUESTION, Plan) == PLAN
    assert len(model.asked[1].text) < 20_000
    assert ANSWER_CHARS_MAX < 5_000_000


CODE = "import math\n\n\ndef f(x):\n    return math.sqrt(x)\n"


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{CODE}```",
        f"Plan first.\n```py\n{CODE}```\nThen:\n```bash\necho {'much ' * 30}\n```",
        f"```python\nx = 1\n```\n```python\n{CODE}```",
        f"```\n{'y' * 200}\n```\n```python\n{CODE}```",
        f"````python\n{CODE}````",
        f"``` python\r\n{CODE}```",
        CODE,
        f"<think>\n```python\nwrong =\n```\n</think>\n```python\n{CODE}```",
    ],
)
def test_the_program_is_found(text: str) -> None:
    found = find_code(text)
    assert isinstance(found, str)
    assert found.strip().replace("\r", "") == CODE.strip()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no ```python block"),
        ("Sorry", "no ```python block"),
        ("I cannot.", "no ```python block"),
        ("```bash\nls\n```", "no ```python block"),
        (f"```python\n{CODE}", "does not end"),
        ("```python\ndef f(:\n```", "line 1"),
        ("```python\n# nothing\n```", "empty"),
        ("```python\nx = 1\n" + "#" * CODE_CHARS_MAX + "\n```", "is the limit"),
        ("```python\n" + "(" * 50_000 + "\n```", "cannot be parsed"),
    ],
)
def test_what_is_no_program_is_told(text: str, problem: str) -> None:
    found = find_code(text)
    assert isinstance(found, Wrong)
    assert problem in found.problem


def test_nul_and_lone_surrogates_do_not_reach_the_program() -> None:
    found = find_code("```python\nx = 'a\0b\ud800'\n```")
    assert found == "x = 'ab?'\n"


@pytest.mark.parametrize(
    "bomb",
    [
        "-" * 90_000 + "1",
        "x" + ".a" * 40_000,
        "[" * 90_000 + "]",
        "1" + "+1" * 40_000,
        "not " * 20_000 + "x",
        "lambda:" * 12_000 + "x",
        "a = " * 20_000 + "1",
        "f" + "()" * 40_000,
        "if x:\n" * 3,
        "\n".join(" " * i + "if x:" for i in range(120)),
    ],
)
def test_no_program_ends_the_process_that_reads_it(bomb: str) -> None:
    script = (
        "import sys; from stages.models.structured import find_code, Wrong;"
        "found = find_code('```python\\n' + sys.stdin.read() + '\\n```'); print(type(found).__name__)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input=bomb, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    assert ended.stdout.strip() in ("Wrong", "str")


def test_a_program_is_asked_for_until_the_check_is_content() -> None:
    model = ScriptedModel("```python\nx = 1\n```", "```python\nx = \n```", f"```python\n{CODE}```")
    code = ask_for_code(model, QUESTION, lambda code: None if "sqrt" in code else "it has no sqrt")
    assert code == CODE
    assert "it has no sqrt" in model.asked[1].text
    assert "cannot be parsed" in model.asked[2].text


@settings(max_examples=300)
@given(ODD)
def test_nothing_that_a_model_says_raises(text: str) -> None:
    blocks_of(text)
    find_code(text)
    found = find_json(text, Plan)
    assert isinstance(found, Wrong | Plan)
