"""The facts about a data set that are known before its rows are read; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from msgspec import Meta

from events.kinds.space.metrics import Task

# A checkpoint that holds a data set may be of another pod: its fields are bounded.
Line = Annotated[str, Meta(max_length=10_000)]
Word = Annotated[str, Meta(max_length=400)]
Count = Annotated[int, Meta(ge=0, le=10**9)]


RESERVE_SHARE: Final = 0.15  # of the rows: only a replication opens them
RESERVE_MIN: Final = 150  # rows; with fewer, a replication could hardly show what it is for


def reserve_size(rows: int) -> int:
    """Return about how many of so many rows are a reserve; 0 where that would be too few."""
    wanted = round(rows * RESERVE_SHARE)
    return wanted if wanted >= RESERVE_MIN else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set by its name: what is predicted, from how many features, and how many rows there are.

    `location` is a file, `target` the column to predict and `digest` the file's SHA-256, all empty for a
    set that ships with scikit-learn; `outputs` are classes, 1 where a value is predicted, and `classes` their
    names; `image_side` in pixels. `group` names the column whose rows stay together in a split, `time` that
    by which those learnt from are earlier than those that judge.
    """

    name: Line
    task: Task
    rows: Count
    features: Count
    outputs: Count
    image_side: Count | None = None
    location: Line = ""
    target: Line = ""
    digest: Word = ""
    # Known by the digest or the name already; what was chosen by an earlier release does not have them.
    classes: Annotated[tuple[Word, ...], Meta(max_length=100)] = field(default=(), compare=False)
    group: Line = ""
    time: Line = ""

    @property
    def open_rows(self) -> int:
        """Return how many rows a first verdict may use: all but the reserve."""
        return self.rows - reserve_size(self.rows)

    @property
    def title(self) -> str:
        """Return the name as people read it."""
        return self.name.replace("_", " ")


def _classes(
    name: str, rows: int, features: int, classes: tuple[str, ...], image_side: int | None = None
) -> DataSet:
    return DataSet(
        name=name, task="classification", rows=rows, features=features, outputs=len(classes), classes=classes,
        image_side=image_side,
    )  # fmt: skip


SHIPPED: Final[Mapping[str, DataSet]] = {
    each.name: each
    for each in (
        _classes("digits", 1797, 64, tuple("0123456789"), image_side=8),
        _classes("wine", 178, 13, ("class_0", "class_1", "class_2")),
        _classes("breast_cancer", 569, 30, ("malignant", "benign")),
        _classes("iris", 150, 4, ("setosa", "versicolor", "virginica")),
        DataSet(name="diabetes", task="regression", rows=442, features=10, outputs=1),
    )
}
# What each part of a data set gets of its rows.
SHARES: Final[Mapping[str, float]] = {"train": 0.4, "test": 0.3, "validation": 0.2, "watch": 0.1}
DEFAULT: Final = SHIPPED["digits"]
