"""Scores a function against tests that are a program: HumanEval.

Law: tests and solution never share a process. The tests run on the reference first, to learn what they ask;
the solution answers these calls; then the tests run on its answers, which are plain values by now. So nothing
that a solution does to its process, its builtins or its comparisons reaches a test.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from stages.kinds.benchmark.suites.code.running import CodeLimits, NotRun, Ran, report_of
from stages.kinds.benchmark.suites.code.solutions import Solution, answers, outputs
from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.parsing.code_block import INDENT, body_in, defines, program_in
from stages.kinds.benchmark.suites.payload import Function

ROUNDS_MAX: Final = 5  # of tests that ask on what was answered
CALLS_MAX: Final = 20_000
LIMITS: Final = CodeLimits()
SHOWN_CHARS: Final = 1_000


class BadTests(Exception):
    """The tests of an item cannot judge anything: the data are wrong."""


def function(item: Item, answer: str, scoring: Scoring, limits: CodeLimits = LIMITS) -> Score:
    """Score whether the function of an answer passes its tests."""
    assert isinstance(item.payload, Function)
    sources = completed(item.payload, answer)
    if sources is None:
        return Score(outcome="unparsed", why="no code is answered")
    shown = sources[-1][:SHOWN_CHARS]
    try:
        _judge(item.payload, Solution(sources, item.payload.name), scoring, limits)
    except Ran as ran:
        return ran.score(shown)
    except (NotRun, BadTests) as error:
        return Score(outcome="error", parsed=shown, why=str(error))
    return Score(outcome="right", value=1.0, verdict="pass", parsed=shown)


def completed(wanted: Function, answer: str) -> tuple[str, ...] | None:
    """Return the sources of an answer: the whole function behind the prompt, or the prompt with its body."""
    code = program_in(answer, wanted.name)
    if code is not None and defines(code, wanted.name):
        return (wanted.prompt, code)
    body = body_in(answer) if code is None else code
    if body is None:
        return None
    if not body.startswith((" ", "\t")):
        body = textwrap.indent(body, " " * INDENT)
    return (wanted.prompt.rstrip() + "\n" + body,)


def _judge(wanted: Function, solution: Solution, scoring: Scoring, limits: CodeLimits) -> None:
    """Return where the tests pass. Raises `Ran`, `NotRun` and `BadTests`."""
    examine = partial(_examined, wanted, scoring, limits)
    asked = scoring.kept.of(_key(wanted), partial(_of_reference, examine))
    for _ in range(ROUNDS_MAX):
        calls = asked["calls"]
        texts, ended = outputs(solution, [{"calls": calls}], scoring, limits)
        if ended is not None:
            raise ended
        given = answers(texts[0], len(calls))
        asked = examine([{"call": call, "answer": each} for call, each in zip(calls, given, strict=True)])
        if asked["how"] == "passed":
            return
        if asked["how"] == "failed":
            raise Ran("wrong", _words(asked["why"], asked["calls"], given))
    raise Ran("error", f"its tests ask something else in each of {ROUNDS_MAX} rounds")


def _of_reference(examine: Callable[[None], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the tests ask of the reference, which is the same for each solution."""
    asked = examine(None)
    if asked["how"] != "passed":
        raise BadTests(f"the reference does not pass the tests: {asked['why']}")
    return asked


def _key(wanted: Function) -> bytes:
    texts = (wanted.name, wanted.prompt, wanted.reference, wanted.tests)
    return hashlib.sha256(msgspec.json.encode(texts)).digest()


def _examined(
    wanted: Function, scoring: Scoring, limits: CodeLimits, answered: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """Return what the tests asked and found; in this process is no line of a solution."""
    job = {
        "prompt": wanted.prompt,
        "reference": wanted.reference,
        "tests": wanted.tests,
        "name": wanted.name,
        "answered": answered,
    }
    try:
        told = report_of(scoring, "examiner.py", job, {}, limits)
    except Ran as ran:
        if answered is None:
            raise BadTests(f"the tests do not run: {ran.why}") from ran
        raise Ran("error", f"the tests end on its answers: {ran.why}") from ran
    calls = told.get("calls")
    if not isinstance(calls, list) or len(calls) > CALLS_MAX or not isinstance(told.get("why"), str):
        raise BadTests("the tests have no sound report")
    return {"how": told.get("how"), "why": told["why"], "calls": calls}


def _words(why: str, calls: list[Any], given: list[dict[str, Any]]) -> str:
    """Return why a test failed, with the last call that it looked at where it says nothing itself."""
    place = len(calls) - 1
    if 0 <= place < len(given) and "raised" in given[place]:
        return f"{why or 'a test failed'}: {given[place]['words']}"[:500]
    return f"{why}; test {place + 1}"[:500]
