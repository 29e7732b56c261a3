"""Whether our scores are those of others: the same prompts to the same small model, by us and by lm-eval.

One question at a time, at temperature 0: HumanEval, and problems of our own in the form of GSM8K.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from testing.bench.comparison import OURS, Absent, Bench, Metric, Row, Setting
from testing.bench.machine import ROOT
from testing.bench.peers.environments import environment

PEER: Final = "lm-eval"
COUNT: Final = 40
SMALL: Final = 4
SCORE: Final = Metric("right", "items")
AGREES: Final = Metric("same score", "items")


def run(setting: Setting) -> Iterator[Row]:
    """Score the same items both ways, and count the items whose scores are the same."""
    python = environment(PEER, setting)
    absent = {PEER: python.reason} if isinstance(python, Absent) else {}
    count = SMALL if setting.small else COUNT
    command = [sys.executable, "-m", "testing.bench.programs.scores", str(setting.scratch), str(count)]
    if not isinstance(python, Absent):
        command.append(str(python))
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_DOTENV_DISABLED": "1"}
    done = subprocess.run(
        command, env=environ, cwd=setting.scratch, stdout=subprocess.PIPE, check=True, text=True
    )
    for found in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
        ours, theirs = found["ours"], found["theirs"]
        name = f"{len(ours)} items of {found['suite']}"
        rounds = {OURS: [sum(ours.values())]} | ({} if theirs is None else {PEER: [sum(theirs.values())]})
        yield Row(name, SCORE, rounds, absent)
        if theirs is not None:
            others = sorted(each for each, score in ours.items() if theirs.get(each) != score)
            for each in others:
                setting.say(f"{name}: {each}: {ours[each]} by us, {theirs.get(each)} by {PEER}")
            yield Row(name, AGREES, {OURS: [float(len(ours) - len(others))]})


BENCH: Final = Bench("agreement", "whether scores are those of lm-eval, item by item", run)
