"""The reserve of a data set: rows that no first verdict sees, and that judge replications only; pure.

Law: the reserve follows from the data set alone, so that it is the same in every run of every fleet. A split
whose rows of the reserve judge has parts of the sizes that all splits have: rows that would judge otherwise
stand beside them, and do not count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from events.kinds.space.data_sets import RESERVE_MIN, RESERVE_SHARE, reserve_size
from stages.kinds.experiment.data.columns import Column, Names, Numbers, Table, Unusable, shown
from stages.kinds.experiment.data.divisions import classes_of
from stages.kinds.experiment.data.splits import Rows, split
from stages.kinds.experiment.seeds import SEED_BITS, seed_for

CLASS_ROWS_MIN: Final = 4  # of each class in the reserve, so that every half of it has some
JUDGING_SHARE: Final = 0.5  # of the reserve, in each unit


@dataclass(frozen=True, slots=True)
class Reserve:
    """The rows of a table that are a reserve, in rising order; `words` say how many, or why there is none."""

    rows: Rows
    words: str


def reserve_of(table: Table, identity: str) -> Reserve:
    """Return the reserve of the data set that `identity` names."""
    none = np.zeros(0, np.int64)
    if table.along is not None:
        why = f"rows are split by {shown(table.along.name)}"
        return Reserve(none, f"There is no reserve of rows for replications: {why}.")
    size, share = reserve_size(len(table)), f"{RESERVE_SHARE:.0%}"
    if not size:
        why = f"{share} of its {len(table)} rows are fewer than {RESERVE_MIN}"
        return Reserve(none, f"There is no reserve of rows for replications: {why}.")
    seed = int.from_bytes(hashlib.sha256(f"reserve of {identity}".encode()).digest()[:4], "big")
    groups = classes_of(table)
    shares = {"reserve": RESERVE_SHARE, "open": 1 - RESERVE_SHARE}
    rows = np.sort(split(groups, seed=seed % (1 << SEED_BITS), shares=shares, needed=("open",))["reserve"])
    if min(np.count_nonzero(groups[rows] == group) for group in np.unique(groups)) < CLASS_ROWS_MIN:
        why = f"{share} of the rows have fewer than {CLASS_ROWS_MIN} of some class"
        return Reserve(none, f"There is no reserve of rows for replications: {why}.")
    kept = f"{len(rows)} of the {len(table)} rows are a reserve that only replications open"
    return Reserve(rows, f"{kept}; a first verdict neither learns from them nor is judged by them.")


def without_reserve(table: Table, reserve: Reserve) -> Table:
    """Return the table without its reserve, with a note on it."""
    noted = replace(table, notes=(*table.notes, reserve.words))
    if not len(reserve.rows):
        return noted
    kept = np.setdiff1d(np.arange(len(table)), reserve.rows)
    features = tuple(replace(each, column=_kept(each.column, kept)) for each in table.features)
    target = replace(table.target, values=table.target.values[kept])
    columns = tuple(_kept(each, kept) for each in table.columns)
    return replace(noted, features=features, target=target, columns=columns)


def split_judged_by(groups: NDArray[Any], reserve: Rows, *, seed: int) -> dict[str, Rows]:
    """Return the rows of each part of a split in which rows of the reserve judge, a share of them drawn by the seed."""
    others = np.setdiff1d(np.arange(len(groups)), reserve)
    parts = {name: others[rows] for name, rows in split(groups[others], seed=seed).items()}
    shares = {"test": JUDGING_SHARE, "left": 1 - JUDGING_SHARE}
    drawn = split(groups[reserve], seed=seed_for(seed, "reserve"), shares=shares, needed=("test",))["test"]
    beside = parts["test"][: len(parts["test"]) - len(drawn)]
    return {
        **parts,
        "validation": np.concatenate([parts["validation"], beside]),
        "test": reserve[drawn],
    }


C = TypeVar("C", Numbers, Names, Unusable, Numbers | Names, Column)


def _kept(column: C, rows: Rows) -> C:
    if isinstance(column, Numbers):
        return replace(column, values=column.values[rows])
    if isinstance(column, Names):
        return replace(column, codes=column.codes[rows])
    return replace(column, codes=None if column.codes is None else column.codes[rows])
