"""Verdicts over code in answers, with harmless programs; hostile ones are in tests/integration."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stages.isolation.sandbox import Ended, Isolation, Job, Sandbox
from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.code.programs import same_output, same_value
from stages.kinds.benchmark.suites.code.running import LOSSES_MAX
from stages.kinds.benchmark.suites.code.values import Other, decode, encode
from stages.kinds.benchmark.suites.data.loading import load
from stages.kinds.benchmark.suites.data.sources import DataSources
from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.kept import BYTES_MAX, ITEMS_MAX, Kept
from stages.kinds.benchmark.suites.payload import Function

PROMPT = '''from typing import List


def shifted(text: str) -> str:
    """ Help. """
    return "".join(chr((ord(each) - 96) % 26 + 97) for each in text)


def turned(numbers: List[int]) -> tuple:
    """ Return the numbers in reverse, and how many there are. """
'''
TESTS = """
import random
def check(candidate):
    assert candidate([1, 2]) == ([2, 1], 2)
    numbers = [3, 1]
    candidate(numbers)
    assert numbers in ([3, 1], [1, 3])
    for _ in range(20):
        drawn = [random.randint(0, 9) for _ in range(random.randint(1, 5))]
        assert candidate(numbers=drawn) == (drawn[::-1], len(drawn))
    assert shifted("az") == "ba"
    try:
        candidate(None)
        assert False, "None has no order"
    except TypeError:
        pass
"""
REFERENCE = "    return numbers[::-1], len(numbers)\n"
THREAD = """
from threading import Thread
def main():
    print(2 * int(input()))
Thread(target=main).start()
"""
METHOD = """
class Solution:
    def sums(self, left: List[int], right):
        return tuple(map(operator.add, left, right))
"""
IN_PLACE = """
def turned(numbers):
    count = len(numbers)
    numbers.reverse()
    return numbers, count
"""
FUNCTION = Item(id="made/1", prompt=PROMPT, payload=Function(PROMPT, "turned", TESTS, REFERENCE))


def judged(scoring: Scoring, code: str, item: Item = FUNCTION) -> Score:
    return SUITES["humaneval"].scorer(item, f"```python\n{code}\n```", scoring)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("def turned(numbers):\n    return list(reversed(numbers)), len(numbers)", "pass"),
        (IN_PLACE, "pass"),
        ("def turned(numbers):\n    numbers.clear()\n    return numbers, len(numbers)", "wrong"),
        ("def turned(numbers):\n    return list(reversed(numbers)), 2", "wrong"),
        ("def turned(numbers):\n    return turned", "wrong"),
        ("def turned(numbers:", "error"),
        ("def turned(numbers):\n    raise SystemExit(3)", "error"),
    ],
)
def test_functions(code_scoring: Scoring, code: str, verdict: str) -> None:
    found = judged(code_scoring, code)
    assert found.verdict == verdict, found.why
    assert (found.outcome == "right") == (found.value == 1.0) == (verdict == "pass")
    assert list(code_scoring.folder.iterdir()) == []


def test_no_code_is_not_understood(code_scoring: Scoring) -> None:
    found = SUITES["humaneval"].scorer(FUNCTION, "I would reverse it.", code_scoring)
    assert (found.outcome, found.verdict) == ("unparsed", None)


def test_real_functions_pass_and_fail(code_scoring: Scoring, tmp_path: Path) -> None:
    items = {
        item.id: item for item in load(SUITES["humaneval"], DataSources(folders=(), cache=tmp_path, hub=""))
    }
    for id in ("HumanEval/32", "HumanEval/38"):  # their tests use other functions of the prompt
        item = items[id]
        assert isinstance(item.payload, Function)
        good = SUITES["humaneval"].scorer(item, item.payload.reference, code_scoring)
        assert (good.outcome, good.verdict) == ("right", "pass"), good.why
    bad = judged(code_scoring, "def decode_cyclic(s):\n    return s", items["HumanEval/38"])
    assert bad.verdict == "wrong"


def test_tests_that_their_own_reference_fails_judge_nobody(code_scoring: Scoring) -> None:
    for tests in ("def check(candidate):\n    assert False\n", "def check(", "x = 1\n"):
        item = replace(FUNCTION, payload=Function(PROMPT, "turned", tests, REFERENCE))
        found = judged(code_scoring, "def turned(numbers):\n    return 1", item)
        assert (found.outcome, found.verdict) == ("error", None)


@dataclass
class Counting:
    """Counts the programs that a sandbox runs."""

    inner: Sandbox
    scripts: list[str] = field(default_factory=list)

    def isolation(self) -> Isolation:
        return self.inner.isolation()

    def run(self, job: Job) -> Ended:
        self.scripts.append(job.script)
        return self.inner.run(job)


def test_what_tests_ask_of_their_reference_is_found_once_for_all_epochs(code_scoring: Scoring) -> None:
    counting = Counting(code_scoring.sandbox)
    scoring = replace(code_scoring, sandbox=counting)
    wrong = "def turned(numbers):\n    return numbers, 0"
    assert [judged(scoring, each).verdict for each in (IN_PLACE, wrong, IN_PLACE)] == [
        "pass",
        "wrong",
        "pass",
    ]
    assert counting.scripts == ["examiner.py", *["runner.py", "examiner.py"] * 3]
    other = replace(FUNCTION, payload=Function(PROMPT, "turned", TESTS, "    return None\n"))
    for _ in range(2):
        assert "the reference does not pass" in judged(scoring, IN_PLACE, other).why
    assert counting.scripts[-2:] == ["examiner.py"] * 2, "what is wrong with an item is not kept"


def test_what_is_kept_is_bounded() -> None:
    kept, asked = Kept(), []

    def found(number: int, size: int = 1) -> None:
        kept.of(b"%d" % number, lambda: {"calls": [asked.append(number), "x" * size]})

    for number in (*range(ITEMS_MAX + 1), 1, 0):
        found(number)
    assert asked == [*range(ITEMS_MAX + 1), 0], "the first one had to go"
    for _ in range(2):
        found(-1, BYTES_MAX)
    assert asked[-2:] == [-1, -1]


def test_tests_that_go_on_with_an_answer_are_answered_in_rounds(code_scoring: Scoring) -> None:
    tests = "def check(candidate):\n    assert candidate(candidate([1, 2])[0]) == ([1, 2], 2)\n"
    item = replace(FUNCTION, payload=Function(PROMPT, "turned", tests, REFERENCE))
    good = "def turned(numbers):\n    return numbers[::-1], 2"
    assert judged(code_scoring, good, item).verdict == "pass"
    assert judged(code_scoring, good.replace("numbers[::-1]", "[]"), item).verdict == "wrong"


def test_a_pod_that_runs_nothing_is_no_fault_of_an_answer(scoring: Scoring) -> None:
    found = judged(scoring, "def turned(numbers):\n    return 1")
    assert (found.outcome, found.verdict) == ("error", None)
    assert f"lost a program {LOSSES_MAX} times" in found.why


@pytest.mark.parametrize(
    ("place", "code", "verdict"),
    [
        (0, "n = int(input())\nprint(2 * n)", "pass"),
        (0, "import sys\nprint(2 * int(sys.stdin.read()), end='')\nsys.exit()", "pass"),
        (0, "if __name__ == '__main__':\n    print(2 * int(open(0).readline()))", "pass"),
        (
            0,
            THREAD,
            "pass",
        ),
        (0, "print(4)", "wrong"),
        (0, "print(int(input()) ** 2)", "wrong"),
        (0, "input()\ninput()", "error"),
        (
            1,
            METHOD,
            "pass",
        ),
        (1, "def sums(left, right):\n    return [a + b for a, b in zip(left, right)]", "pass"),
        (1, "class Solution:\n    def sums(self, left, right):\n        return [4, 6]", "wrong"),
        (1, "class Solution:\n    def sums(self, left, right):\n        return left[5]", "error"),
        (1, "class Solution:\n    pass", "error"),
    ],
)
def test_programs(sources: DataSources, code_scoring: Scoring, place: int, code: str, verdict: str) -> None:
    item = load(SUITES["livecodebench"], sources)[place]
    found = SUITES["livecodebench"].scorer(item, f"```python\n{code}\n```", code_scoring)
    assert found.verdict == verdict, found.why


def test_values_cross_as_what_they_are() -> None:
    shared = [1]
    values = [
        None, True, -7, 1 << 70, 0.1, float("inf"), "text \ud800", b"\x00", (1, [2, {3}]), 2j, {1, 2},
        {"a": 1, (1, 2): [None]}, [shared, shared],
    ]  # fmt: skip
    for value in values:
        back = decode(json.loads(json.dumps(encode(value))))
        assert back == value
        assert type(back) is type(value)


def test_what_is_no_plain_value_equals_nothing() -> None:
    class Liar(int):
        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert decode(encode(Liar(3))) != 4
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    for value in (object(), len, iter([]), deep):
        assert "other" in json.dumps(encode(value))
    assert isinstance(decode({"other": "x"}), Other)
    assert decode({"other": "x"}) != decode({"other": "x"})


@pytest.mark.parametrize(
    "told", [{"int": "x"}, {"set": [[1]]}, {"a": 1, "b": 2}, {"float": 1}, {"dict": [1]}, 1.5]
)
def test_what_is_no_encoded_value_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(told)


@pytest.mark.parametrize(
    ("given", "wanted", "is_same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1 2 \n3", "1 2\n3\n\n", True),
        ("0.3333333333", "0.33333333333", True),
        ("1", "1.0", True),
        ("Yes", "YES", False),
        ("1\n2", "1 2", False),
        ("nan", "NaN", False),
        ("", "0", False),
        ("1 x", "1 y", False),
    ],
)
def test_printed_texts_are_compared_by_line_and_number(given: str, wanted: str, is_same: bool) -> None:
    assert same_output(given, wanted) == is_same


@pytest.mark.parametrize(
    ("given", "wanted", "is_same"),
    [
        ([1, [2]], [1, [2]], True),
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (True, 1, False),
        ("1", 1, False),
        ([1], [1, 2], False),
        (float("nan"), 1.0, False),
        (None, False, False),
    ],
)
def test_returned_values_are_compared_by_kind_and_value(given: object, wanted: object, is_same: bool) -> None:
    assert same_value(given, wanted) == is_same
