"""How far the time to the first token that a lap of a prompt measures is from what the engine tells itself.

A scripted engine in a process of its own says when it got a request and when it sent its first token;
llama.cpp, with the small model, tells how long it took until then, from when it has made its prompt: beside
it is a plain socket, which says what of the distance is the engine's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from testing.bench.comparison import OURS, Absent, Bench, Figures, Goal, Metric, Row, Setting, Way, contest
from testing.bench.machine import ROOT
from testing.bench.servers import scripted_engine

QUESTIONS: Final = 40
SMALL_QUESTIONS: Final = 3
TOKENS: Final = 8
LLAMA: Final = "llama.cpp"
SCRIPT: Final = "paced=0.02"
METRICS: Final = (
    Metric("first token off, median", "ms", more_is_better=False, goals=(Goal(2.0),)),
    Metric("first token off, p95", "ms", more_is_better=False, goals=(Goal(2.0),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Ask each engine, in a process of its own."""
    questions = SMALL_QUESTIONS if setting.small else QUESTIONS
    for engine in ("scripted engine", LLAMA):
        ways: dict[str, Way | Absent] = {OURS: partial(_measured, engine, questions)}
        if engine == LLAMA:
            ways["plain socket"] = partial(_measured, engine, questions, is_bare=True)
        yield from contest(f"{questions} questions to a {engine}", METRICS, ways, setting)


def _measured(way: str, questions: int, *, is_bare: bool = False) -> Figures:
    with scripted_engine() as url:
        order = {"way": way, "url": url, "script": SCRIPT, "questions": questions, "tokens": TOKENS}
        order["is_bare"] = is_bare
        command = [sys.executable, "-m", "testing.bench.programs.prompt_laps", json.dumps(order)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_DOTENV_DISABLED": "1"}
        done = subprocess.run(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


BENCH: Final = Bench("prompt", "how far a lap's time to the first token is from the engine's own", run)
