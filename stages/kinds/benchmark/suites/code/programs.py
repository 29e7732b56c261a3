"""Scores a program against pairs of input and output: LiveCodeBench.

Law: the expected outputs stay in this process, and so does the comparison.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from stages.kinds.benchmark.suites.code.private_tests import BadTests, Case, cases_of
from stages.kinds.benchmark.suites.code.running import CodeLimits, NotRun, Ran
from stages.kinds.benchmark.suites.code.solutions import Solution, answers, outputs
from stages.kinds.benchmark.suites.code.values import decode, encode
from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.parsing.code_block import program_in
from stages.kinds.benchmark.suites.payload import Program

LIMITS: Final = CodeLimits()
SHOWN_CHARS: Final = 1_000
CUT_CHARS: Final = 60
# What the sites on which these problems were set give to a solution.
PRELUDE: Final = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""


def program(item: Item, answer: str, scoring: Scoring, limits: CodeLimits = LIMITS) -> Score:
    """Score whether the program of an answer passes every test."""
    assert isinstance(item.payload, Program)
    wanted = item.payload
    code = program_in(answer, wanted.function)
    if code is None:
        return Score(outcome="unparsed", why="no code is answered")
    shown = code[:SHOWN_CHARS]
    try:
        _judge(cases_of(wanted), solution_of(wanted, code), scoring, limits)
    except Ran as ran:
        return ran.score(shown)
    except (NotRun, BadTests) as error:
        return Score(outcome="error", parsed=shown, why=str(error))
    return Score(outcome="right", value=1.0, verdict="pass", parsed=shown)


def solution_of(wanted: Program, code: str) -> Solution:
    """Return the solution: a whole program, or a method of the class that its starter names."""
    if not wanted.function:
        return Solution((code,))
    owner = "Solution." if "class Solution" in code else ""
    return Solution((PRELUDE, code), owner + wanted.function)


def _judge(tests: Sequence[Case], solution: Solution, scoring: Scoring, limits: CodeLimits) -> None:
    """Return where every test passes. Raises `Ran`, `NotRun` and `BadTests`."""
    sort = "functional" if solution.function else "stdin"
    if any(test.sort != sort for test in tests):
        raise BadTests(f"its tests are not all {sort}")
    asked: list[dict[str, Any]] = [
        {"calls": [{"arguments": _arguments(test.given), "named": {}}]}
        if solution.function
        else {"input": test.given}
        for test in tests
    ]
    said, ended = outputs(solution, asked, scoring, limits)
    for place, (text, test) in enumerate(zip(said, tests, strict=False), 1):
        if solution.function:
            _compare_value(answers(text, 1)[0], test, place)
        elif not same_output(text, test.wanted):
            raise Ran("wrong", f"test {place}: {_cut(text)} instead of {_cut(test.wanted)}")
    if ended is not None:
        raise Ran(ended.verdict, f"test {len(said) + 1}: {ended.why}")


def _arguments(given: str) -> list[Any]:
    try:
        return [encode(json.loads(line)) for line in given.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise BadTests("the input of a test is no JSON") from error


def _compare_value(answer: dict[str, Any], test: Case, place: int) -> None:
    if "raised" in answer:
        raise Ran("error", f"test {place}: {answer['words']}")
    try:
        given = listed(decode(answer["value"]))
    except (ValueError, RecursionError) as error:
        raise Ran("unsafe", "a value is none: the program wrote where only its process writes") from error
    try:
        wanted = json.loads(test.wanted)
    except (ValueError, RecursionError) as error:
        raise BadTests("the output of a test is no JSON") from error
    if not same_value(given, wanted):
        raise Ran("wrong", f"test {place}: {_cut(repr(given))} instead of {_cut(test.wanted)}")


def listed(value: Any) -> Any:
    """Return a value with lists in the place of tuples."""
    if isinstance(value, list | tuple):
        return [listed(each) for each in value]
    return value


def same_value(given: Any, wanted: Any) -> bool:
    """Return whether two plain values are equal; numbers with a fraction need not be to their last digit."""
    if isinstance(given, list) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(same_value, given, wanted))
    if isinstance(given, bool) != isinstance(wanted, bool):
        return False
    if isinstance(given, float) or isinstance(wanted, float):
        if not isinstance(given, int | float) or not isinstance(wanted, int | float):
            return False
        return abs(given - wanted) <= 1e-9 * max(1.0, abs(wanted))
    return bool(given == wanted)


def same_output(given: str, wanted: str) -> bool:
    """Return whether two printed texts are equal, line by line but for blanks around, or as numbers."""
    left, right = ([line.strip() for line in text.strip().split("\n")] for text in (given, wanted))
    if len(left) != len(right):
        return False
    return all(one == other or _same_numbers(one, other) for one, other in zip(left, right, strict=True))


def _same_numbers(one: str, other: str) -> bool:
    left, right = one.split(), other.split()
    if len(left) != len(right):
        return False
    try:
        return all(each == that or _same_number(each, that) for each, that in zip(left, right, strict=True))
    except InvalidOperation:
        return False


def _same_number(one: str, other: str) -> bool:
    left, right = Decimal(one), Decimal(other)
    return (
        left.is_finite()
        and right.is_finite()
        and abs(left - right) <= Decimal("1e-9") * max(Decimal(1), abs(right))
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= CUT_CHARS else line[:CUT_CHARS] + "...")
