"""Warnings about a table: rows that belong together, leaks of the target, classes that are rare; pure.

Law: a warning changes nothing. Each names the column or the class, says what was seen, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from events.kinds.space.understanding import class_words
from stages.kinds.experiment.data.columns import (
    SHOWN_CHARS,
    Along,
    Column,
    Names,
    Numbers,
    Table,
    Target,
    shown,
)
from stages.kinds.experiment.data.loading import Data

GROUPS_MIN: Final = 10  # different values of a column that may be one of groups
RUNS_MAX: Final = 1.2  # in a row of a value, for each value: rows of a group often stand together
ROWS_LOOKED_AT: Final = 2_000
COLUMNS_LOOKED_AT: Final = 500
CHOICES_MAX: Final = 50  # leaves of a rule that looks at one column, and values of a category
CLASS_ROWS_MIN: Final = 5  # by fewer nothing is shown
ALONE_MIN: Final = 0.98  # of what a rule that looks at one column may reach, from which it is suspect
RARE: Final = 0.4  # of the share that each class would have if all were equal
_OWNER: Final = re.compile(
    r"id|ids|\w+_id|\w*patient\w*|\w*subject\w*|\w*person|user|\w*customer\w*|household|\w*participant\w*|site|clinic"
    r"|hospital|session|device|batch|family|animal",
    re.IGNORECASE,
)
_MOMENT: Final = re.compile(r"date|time|timestamp|year|month|day|week|\w+_(?:date|time|at)", re.IGNORECASE)


WARNINGS_MAX: Final = 20


def warnings_of(table: Table, data: Data) -> tuple[str, ...]:
    """Return what is to be said of a table and its split."""
    parts = data.sizes
    start, end = parts["train"] + parts["watch"], sum(parts.values())
    test = data.places[end - parts["test"] : end]
    found = [
        *column_warnings(table.columns, table.target, table.along),
        *repetition_warnings(data.repeated, end - start),
        *balance_warnings(table.target, test),
    ]
    more = len(found) - WARNINGS_MAX
    return (
        *found[:WARNINGS_MAX],
        *([f"{more} more warnings are left out."] if more > 0 else []),
    )


def column_warnings(columns: Sequence[Column], target: Target, along: Along | None = None) -> Iterator[str]:
    """Yield warnings of the columns beside the target, in the order of the file.

    `along` is the column by which rows are split, which leaves less to propose.
    """
    for each in columns[:COLUMNS_LOOKED_AT]:
        is_by_group = along is not None and along.kind == "group"
        said = (_as_time(each) if along is None else None) or (None if is_by_group else _as_group(each))
        if said := said or _as_counter(each):
            yield said
        if _predicts(each, target):
            yield (
                f"Column {shown(each.name)} predicts {shown(target.name)} nearly alone: leave it out of the file if it is "
                "not known before what is predicted."
            )


def repetition_warnings(repeated: int, judging: int) -> Iterator[str]:
    """Yield that rows stand on both sides."""
    if repeated:
        yield (
            f"{repeated} of {judging} rows that judge are also, word for word, among those learnt from: remove repeated "
            "rows from the file, or name their column as `group`."
        )


def balance_warnings(target: Target, judging: NDArray[np.int64]) -> Iterator[str]:
    """Yield that a class is rare, how many of the rows that judge it has, and what to claim."""
    if target.task != "classification":
        return
    counts = np.bincount(target.values, minlength=len(target.classes))
    least = int(counts.argmin())
    if counts[least] * len(counts) >= RARE * counts.sum():
        return
    name, words = target.classes[least], class_words(target.classes)[least]
    is_word = re.fullmatch(r"\w+", words) is not None
    claims = f", the AUROC, or the recall of class {words}" if is_word else " or the AUROC"
    yield (
        f"Class {shown(name)} has {counts[least]} of {counts.sum()} rows, and about "
        f"{int((target.values[judging] == least).sum())} of the {len(judging)} that judge a unit: whoever always answers "
        f"{shown(target.classes[int(counts.argmax())])} has an accuracy of {counts.max() / counts.sum():.3f}. Claim the "
        f"balanced accuracy{claims} instead of the accuracy."
    )


def _named(column: Column) -> str:
    """Return the name of a column as a specification has it, cut where it is long."""
    return column.name[:SHOWN_CHARS]


def _as_time(column: Column) -> str | None:
    if (
        not isinstance(column, Numbers)
        or column.kind == "truth"
        or len(np.unique(column.values)) < GROUPS_MIN
    ):
        return None
    if column.kind != "time" and not _MOMENT.fullmatch(column.name):
        return None
    return (
        f"Column {shown(column.name)} looks like a time: say time: {_named(column)} if later rows shall be answered from "
        "earlier ones; now rows are split at random."
    )


def _as_group(column: Column) -> str | None:
    marks = _marks(column)
    if marks is None or (count := len(np.unique(marks))) < GROUPS_MIN or 2 * count > len(marks):
        return None
    runs = 1 + int((marks[1:] != marks[:-1]).sum())
    if not (_OWNER.fullmatch(column.name) or (runs <= RUNS_MAX * count and not isinstance(column, Numbers))):
        return None
    sizes = np.unique(np.unique(marks, return_counts=True)[1])
    each = f"{sizes[0]} rows each" if len(sizes) == 1 else f"{len(marks) / count:.3g} rows on average"
    return (
        f"Column {shown(column.name)} has {count} values of {each}: say group: {_named(column)} if rows of one "
        f"{_named(column)} belong together; now they are on both sides of a split."
    )


def _marks(column: Column) -> NDArray[Any] | None:
    """Return what tells the values of a column apart that may name groups, without what is missing."""
    if isinstance(column, Numbers):
        known = column.values[np.isfinite(column.values)]
        is_whole = column.kind == "number" and bool((known == np.floor(known)).all())
        return known if is_whole else None
    if column.codes is None:
        return None
    return column.codes[column.codes >= 0]


def _as_counter(column: Column) -> str | None:
    if not isinstance(column, Numbers) or column.kind == "truth" or len(column.values) < 2:
        return None
    steps = np.diff(column.values.astype(np.float64))
    if not ((steps > 0).all() or (steps < 0).all()):
        return None
    return (
        f"Column {shown(column.name)} grows with the row, as an identifier does: it tells where a row stands in the "
        "file, so leave it out; if it is a time, say time: "
        f"{_named(column)}."
    )


def _predicts(column: Column, target: Target) -> bool:
    """Return whether a rule that looks at this column alone, made from half of the rows, is right about the others."""
    values = _values(column)
    if values is None:
        return False
    rows = np.random.default_rng(0).permutation(len(values))[:ROWS_LOOKED_AT]
    one, two = np.array_split(rows, 2)
    classes = len(target.classes)
    if target.task == "regression":
        rule = DecisionTreeRegressor(max_leaf_nodes=CHOICES_MAX)
        return (
            float(rule.fit(values[one], target.values[one]).score(values[two], target.values[two]))
            >= ALONE_MIN
        )
    rule = DecisionTreeClassifier(max_leaf_nodes=max(2 * classes, values.shape[1]), class_weight="balanced")
    given = rule.fit(values[one], target.values[one]).predict(values[two])
    wanted = target.values[two]
    there, counts = np.unique(wanted, return_counts=True)
    shares = [float((given[wanted == label] == label).mean()) for label in there]
    return len(there) == classes and counts.min() >= CLASS_ROWS_MIN and float(np.mean(shares)) >= ALONE_MIN


def _values(column: Column) -> NDArray[np.float64] | None:
    """Return a column as inputs of a rule: a number, or one for each category."""
    match column:
        case Numbers(values=values):
            return np.nan_to_num(values.astype(np.float64), nan=-1e30, posinf=1e30, neginf=-1e30)[:, None]
        case Names(codes=codes, values=names) if len(names) <= CHOICES_MAX:
            return np.asarray(codes[:, None] == np.arange(len(names)), dtype=np.float64)
        case _:
            return None
