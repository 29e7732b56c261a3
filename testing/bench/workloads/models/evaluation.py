"""What an evaluation costs beside the answers that it waits for: ours, inspect_ai's, and a bare loop's.

The loop is the least: 16 questions at once. inspect_ai adds its transcript, limits and log of each sample;
ours adds to that a row, a file and an event of each item.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from events.runtime.clock import SystemIds
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.machine import ROOT

COUNT: Final = 5_000
SMALL: Final = 200
ANSWER_S: Final = 0.05
PEER: Final = "inspect_ai"
METRICS: Final = (
    Metric("wall", "s", more_is_better=False, goals=(Goal(1.15, PEER),)),
    Metric("processor", "s", more_is_better=False),
    Metric("grows", "MiB", more_is_better=False, goals=(Goal(1.15, PEER),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Evaluate the same questions in each way, against a server that answers in 50 ms."""
    count = SMALL if setting.small else COUNT
    command = [sys.executable, "-m", "testing.bench.programs.slow_model", str(ANSWER_S)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        ways = {name: partial(_timed, setting.scratch, name, count, url) for name in (OURS, PEER, "loop")}
        yield from contest(f"{count:,} items, 16 at once, answers in 50 ms", METRICS, ways, setting)
        server.stdin.close()


def _timed(scratch: Path, way: str, count: int, url: str) -> Figures:
    folder = scratch / SystemIds().ulid()
    folder.mkdir()
    command = [sys.executable, "-m", "testing.bench.programs.evaluator", way, str(count), url, str(folder)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_DOTENV_DISABLED": "1"}
    answer = subprocess.run(command, env=environ, cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
    figures: Figures = json.loads(answer.stdout.splitlines()[-1])
    return figures


BENCH: Final = Bench(
    "evaluation", "what an evaluation costs beside the answers, by us and by inspect_ai", run
)
