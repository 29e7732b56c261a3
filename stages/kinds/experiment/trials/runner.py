"""Runs one program in the sandbox: reads the job, calls the program once a seed, writes its answers.

A stand-alone script, copied into the job's folder beside `program.py` and `job.json`. It needs numpy alone;
the program decides what else is imported. Its output is untrusted: answers are checked and scored outside,
against targets that are never in this process.

The program defines `run(task)`, which returns the answers for `task.judge.features`: an array of shape
(rows, outputs) with class probabilities, or of shape (rows,) with values.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


class Rows:
    """Some rows: `features` of shape (rows, columns), float32; `targets` are None where they are secret."""

    def __init__(self, features: Any, targets: Any) -> None:
        self.features = features
        self.targets = targets

    def __len__(self) -> int:
        return len(self.features)


class Task:
    """Everything that a program is told, and the ways in which it reports.

    `kind` is "classification" (targets are labels from 0) or "regression" (targets are values in
    their own unit); `outputs` counts the classes, 1 for values; `image_side` is the side of square
    images in pixels, None where there are none; `blank` is the value of an empty pixel; `epochs`
    is how long a usual training is; `device` is "cuda" or "cpu"; `intervention` is the switch: whether the
    program runs with its intervention.
    """

    def __init__(self, job: Mapping[str, Any], data: Mapping[str, Any], judge: Any, seed: int) -> None:
        self.seed = seed
        self.kind = job["kind"]
        self.outputs = job["outputs"]
        self.image_side = job["image_side"]
        self.blank = job["blank"]
        self.epochs = job["epochs"]
        self.device = job["device"]
        self.intervention = job["intervention"]
        self.train = Rows(data["train_features"], data["train_targets"])
        self.watch = Rows(data["watch_features"], data["watch_targets"])
        self.judge = Rows(judge, None)
        self.curve: list[dict[str, float]] = []
        self.parameters: int | None = None

    def point(self, epoch: int, train_loss: float, watch_loss: float) -> None:
        """Report one epoch of the learning curve."""
        self.curve.append(
            {"epoch": int(epoch), "train_loss": float(train_loss), "watch_loss": float(watch_loss)}
        )

    def size(self, parameters: int) -> None:
        """Report how many numbers were learnt."""
        self.parameters = int(parameters)

    def trained(self, seconds: float) -> None:
        """Say how long the training itself took, as programs may: what counts is measured outside."""


def load_program() -> Callable[[Task], Any]:
    """Return the program's `run`."""
    sys.path.insert(0, str(HERE))
    run: Any = getattr(importlib.import_module("program"), "run", None)
    if not callable(run):
        raise TypeError("program.py defines no function run(task)")
    found: Callable[[Task], Any] = run
    return found


def main() -> None:
    """Run the program once a seed; a seed that fails leaves its reason and does not stop the others."""
    job = json.loads((HERE / "job.json").read_text(encoding="utf-8"))
    data = dict(np.load(job["data"], allow_pickle=False))
    judge = np.load(job["judge"], allow_pickle=False)
    run = load_program()
    for seed in job["seeds"]:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        task = Task(job, {name: array.copy() for name, array in data.items()}, judge.copy(), seed)
        try:
            answers = np.asarray(run(task), dtype=np.float64)
            sys.stdout.write(f"seed {seed}: {told(task)}\n")
        except Exception as error:
            traceback.print_exc()
            write(f"report-{seed}.json", {"error": f"{type(error).__name__}: {error}"[:2000]})
            continue
        np.save(HERE / f"answers-{seed}.npy", answers, allow_pickle=False)
        write(f"report-{seed}.json", {"parameters": task.parameters, "curve": task.curve[:5000]})


def told(task: Task) -> str:
    """Return what the program reported of its training, for the end of the log that people read."""
    if not task.curve:
        return "no learning curve was reported"
    last = task.curve[-1]
    losses = f"training loss {last['train_loss']:.4f}, watched loss {last['watch_loss']:.4f}"
    return f"trained until epoch {last['epoch']}, {losses}"


def write(name: str, report: Mapping[str, Any]) -> None:
    """Write a report whole: it appears under its name when it is complete."""
    (HERE / f"{name}.part").write_text(json.dumps(report), encoding="utf-8")
    os.replace(HERE / f"{name}.part", HERE / name)


if __name__ == "__main__":
    main()
