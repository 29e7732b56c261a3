"""`python -m testing.bench.programs.drills DRILL FILE ...`: a pipeline that measures itself into FILE."""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from pod_worker.child import main as child_main
from stages.context import Context, Stage

BURSTS: Final = 100
BURST: Final = 100  # events, as a loop tells them that reports once in a while
TURNS: Final = 60
TURN_S: Final = 0.25
METRICS_PER_S: Final = 100
SIZE: Final = 96
PRINTED_BYTES: Final = 1 << 30
LINE: Final = "x" * 1000

Figures = Mapping[str, float]


def emitting(context: Context) -> Figures:
    """Time single events, a burst of them every now and then."""
    taken: list[float] = []
    with context.stage("emit") as stage:
        for burst in range(BURSTS):
            for step in range(BURST):
                begun_s = context.clock.monotonic_s()
                stage.metric("loss", 0.123, burst * BURST + step)
                taken.append(context.clock.monotonic_s() - begun_s)
            _rest(0.02)
    taken.sort()
    return {
        "mean": 1e6 * statistics.fmean(taken),
        "median": 1e6 * statistics.median(taken),
        "p99": 1e6 * taken[int(0.99 * len(taken))],
    }


def training(context: Context) -> Figures:
    """Take steps of a small model, in turns with and without telling a hundred numbers a second.

    What counts is the loop's own processor time: neighbours may take the processor away from either turn.
    """
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    with context.stage("train") as stage:
        paces = [_pace(context, weights, stage if turn % 2 else None) for turn in range(TURNS)]
    loud, quiet = paces[1::2], paces[::2]
    ratios = [emitted / silent for emitted, silent in zip(loud, quiet, strict=True)]
    return {"steps": statistics.median(loud), "slowed": 100 * (1 - statistics.median(ratios))}


def _pace(context: Context, weights: np.ndarray, stage: Stage | None) -> float:
    """Return the steps in a second of the processor."""
    begun_s, steps, emitted = context.clock.monotonic_s(), 0, 0
    used_s = time.process_time()
    state = weights
    while (now_s := context.clock.monotonic_s() - begun_s) < TURN_S:
        state = np.tanh(weights @ state / SIZE)
        steps += 1
        if stage is not None and emitted < now_s * METRICS_PER_S:
            stage.metric("loss", float(state[0, 0]), steps)
            emitted += 1
    return steps / (time.process_time() - used_s)


def printing(context: Context) -> Figures:
    """Print a gigabyte."""
    lines = int(os.environ.get("PYTHON_BENCH_BYTES", PRINTED_BYTES)) // len(LINE)
    before, begun_s = _mib(), context.clock.monotonic_s()
    for _ in range(lines):
        sys.stdout.write(f"{LINE}\n")
    taken_s = context.clock.monotonic_s() - begun_s
    return {"printed": lines, "lines": lines / taken_s, "child grows": _mib() - before}


DRILLS: Final[Mapping[str, Callable[[Context], Figures]]] = {
    "emitting": emitting,
    "training": training,
    "printing": printing,
}


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def _mib() -> float:
    """Return what the process has of the memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main(drill: str, file: str, argv: list[str]) -> int:
    """Run one order."""

    def run(context: Context) -> str:
        Path(file).write_text(json.dumps(DRILLS[drill](context)))
        return drill

    return child_main.main(argv, lambda kinds: {"probe": run})


if __name__ == "__main__":
    child_main.leave(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
