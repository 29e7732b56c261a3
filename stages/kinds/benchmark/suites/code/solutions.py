"""Asks a solution: what it prints for inputs, or what its function returns for calls.

Law: what comes back is the solution's claim, and every field of it is checked. What is right never goes into
its sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, ValidationError, convert

from stages.kinds.benchmark.suites.code.running import CodeLimits, Ran, report_of
from stages.kinds.benchmark.suites.item import Scoring

TESTS_MAX: Final = 1_000
LINES_MAX: Final = 50_000


class _End(Struct):
    how: Literal["exited", "timeout", "too_much"]
    status: int
    cpu_s: Annotated[float, Meta(ge=0)]
    output: str
    words: Annotated[str, Meta(max_length=10_000)]


class _Report(Struct):
    ends: Annotated[list[_End], Meta(max_length=TESTS_MAX)]


@dataclass(frozen=True, slots=True)
class Solution:
    """Sources that are executed one after the other in one namespace; `function` is called, if named."""

    sources: tuple[str, ...]
    function: str = ""


def outputs(
    solution: Solution, tests: Sequence[Mapping[str, Any]], scoring: Scoring, limits: CodeLimits
) -> tuple[list[str], Ran | None]:
    """Return what the solution wrote for the first tests, and how the next one ended it, if one did.

    Raises `Ran` where nothing is known of any test, and `NotRun`.
    """
    names = {f"source{place}.py": source for place, source in enumerate(solution.sources)}
    job = {
        "mode": "calls" if solution.function else "program",
        "function": solution.function,
        "sources": list(names),
        "tests": list(tests),
        "test_s": limits.test_s,
        "wall_s": limits.wall_s,
        "memory_bytes": limits.memory_mib << 20,
        "output_bytes": limits.output_bytes,
    }
    try:
        ends = convert(report_of(scoring, "runner.py", job, names, limits), _Report).ends
    except ValidationError as error:
        raise Ran("unsafe", "the report of its process is no report: the program tampered with it") from error
    bad = next((place for place, end in enumerate(ends) if end.how != "exited" or end.status), None)
    said = [end.output for end in ends[:bad]]
    if bad is not None:
        return said, _ended(ends[bad], limits)
    if len(ends) != len(tests):
        raise Ran("unsafe", "the report of its process lacks tests: the program tampered with it")
    return said, None


def answers(text: str, calls: int) -> list[dict[str, Any]]:
    """Return a solution's answers to calls, one a line. Raises `Ran` where some are missing, or are none."""
    lines = text.splitlines()[:LINES_MAX]
    if len(lines) != calls:
        raise Ran("wrong", f"it answered {len(lines)} of {calls} calls")
    try:
        return [_answer(json.loads(line)) for line in lines]
    except (ValueError, RecursionError) as error:
        raise Ran("unsafe", "an answer is none: the program wrote where only its process writes") from error


def _answer(told: Any) -> dict[str, Any]:
    if isinstance(told, dict):
        if isinstance(told.get("raised"), str) and isinstance(told.get("words"), str):
            return {"raised": told["raised"][:200], "words": told["words"][:1_000]}
        if "value" in told:
            return {"value": told["value"]}
    raise ValueError("it is no answer")


def _ended(end: _End, limits: CodeLimits) -> Ran:
    if end.how == "timeout":
        return Ran("timeout", f"it took more than {limits.test_s:g} s")
    if end.how == "too_much":
        return Ran("error", f"it wrote more than {limits.output_bytes} bytes")
    if end.words.startswith("MemoryError"):
        return Ran("memory", f"it needed more than {limits.memory_mib} MiB")
    return Ran("error", end.words or f"it ended with {_status(end.status)}")


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
