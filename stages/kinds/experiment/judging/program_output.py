"""Reads the files that a program leaves: a report, and answers for each seed.

Law: all of it is untrusted. Each file is bounded and typed before it is used, and every fault is a
`Mistake` with a message: no file ends a run, or costs memory beyond its bound.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath
from events.kinds.space.metrics import Task
from stages.kinds.experiment.data.npy import NotAnArray, read_numbers
from stages.kinds.experiment.statistics.scores import Floats

REPORT_BYTES_MAX: Final = 2 << 20
POINTS_MAX: Final = 5_000
EPOCH_MAX: Final = 1 << 31
PARAMETERS_MAX: Final = 1 << 53  # beyond, a number in double precision is no count
SUM_TOLERANCE: Final = 1e-3  # how far a row of probabilities may be from one
VALUE_MAX: Final = 1e150  # squares of larger values, added up, leave double precision

Count = Annotated[int, msgspec.Meta(ge=0, le=PARAMETERS_MAX)]


class Mistake(ValueError):
    """What a program did wrong, in words for people."""


class Known(Mistake):
    """A program knew targets that it was not given."""


# Fields that nobody knows are refused, not skipped: what is skipped may be nested without end.
class ReportedPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One epoch, as a program reports it."""

    epoch: Annotated[int, msgspec.Meta(ge=-EPOCH_MAX, le=EPOCH_MAX)]
    train_loss: float
    watch_loss: float


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program's report of one seed; `error` is why it failed."""

    error: str | None = None
    parameters: Count | None = None
    curve: Annotated[list[ReportedPoint], msgspec.Meta(max_length=POINTS_MAX)] = []


def read_report(file: Path) -> Report:
    """Return a program's report. Raises `Mistake`."""
    try:
        return msgspec.json.decode(_content(file), type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Mistake(f"the program's report cannot be read: {error}") from error


def read_answers(file: Path, task: Task, rows: int, outputs: int) -> Floats:
    """Return a program's answers, checked: shape (rows, outputs) with class probabilities, or (rows,) with values.

    Raises `Mistake`.
    """
    shapes = [(rows, outputs)] if task == "classification" else [(rows,), (rows, 1)]
    if not os.path.lexists(file):
        raise Mistake("the program left no answers")
    try:
        answers = read_numbers(file, *shapes)
    except NotAnArray as error:
        raise Mistake(f"the answers cannot be used: {error}") from error
    if not np.isfinite(answers).all():
        raise Mistake("the program answers with numbers that are not finite")
    if np.abs(answers).max() > VALUE_MAX:
        raise Mistake(f"the program answers with numbers beyond {VALUE_MAX:g}")
    if task == "regression":
        return answers.reshape(rows)
    sums = answers.sum(axis=1)
    if answers.min() < 0 or np.abs(sums - 1.0).max() > SUM_TOLERANCE:
        raise Mistake("class probabilities must be 0 or more and add up to 1 in each row")
    probabilities: Floats = answers / sums[:, None]
    return probabilities


def _content(file: Path) -> bytes:
    try:
        with read_beneath(file.parent, RunPath(file.name)) as stream:
            content = stream.read(REPORT_BYTES_MAX + 1)
    except OSError as error:
        raise Mistake(f"the program left no report ({error.strerror})") from error
    if len(content) > REPORT_BYTES_MAX:
        raise Mistake(f"the report is larger than {REPORT_BYTES_MAX} bytes")
    return content
