"""The division of a table for one unit: by random rows, by whole groups, or along time; pure.

Law: with a group no group is on both sides of anything; along time every row that judges is later than each
that is learnt from, and no two units are judged by rows of one moment. Equal arguments give equal parts.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from events.kinds.space.data_sets import SHARES, DataSet
from stages.kinds.experiment.data.columns import Along, Table, Unfit, listed, shown
from stages.kinds.experiment.data.splits import NEEDED, Rows, split
from stages.kinds.experiment.seeds import seed_for

GROUPS_MIN: Final = 10  # so that each part has one, and some judge
WINDOWS_MIN: Final = 5  # fewer show nothing that is worth a search
WINDOW_ROWS_MIN: Final = 3  # that judge
DRAWS_MAX: Final = 100  # until each class is learnt from and judges
_TRAIN: Final = SHARES["train"]


def classes_of(table: Table) -> NDArray[Any]:
    """Return the class of each row; one class for all where values are predicted."""
    target = table.target
    return target.values if target.task == "classification" else np.zeros(len(table), np.int64)


def rows_of(table: Table, seed: int, place: int = 0, units: int = WINDOWS_MIN) -> dict[str, Rows]:
    """Return the rows of each part for one of so many units; by time its place decides, else the seed.

    Raises `Unfit`.
    """
    along = table.along
    if along is None:
        return split(classes_of(table), seed=seed_for(seed, "split"))
    if along.kind == "group":
        return _by_group(table, along, seed)
    chance = np.random.default_rng(seed_for(seed, "split"))
    return {part: chance.permutation(rows) for part, rows in _by_time(table, along, units)[place].items()}


def units_possible(table: Table, wanted: int) -> int:
    """Return how many units there can be: by time each needs moments of its own that judge it. Raises `Unfit`."""
    along = table.along
    return wanted if along is None or along.kind == "group" else len(_by_time(table, along, wanted))


def unit_words(data: DataSet) -> str:
    """Return what a unit of the data is, in words."""
    if data.time:
        return (
            f"a window that rolls along {data.time}: both programs are trained on its earlier rows, and later ones judge, "
            "which judge no other unit"
        )
    drawn = f"the rows by whole groups of {data.group}" if data.group else "the rows"
    return f"a random split of {drawn} with its seed, on which both programs are trained"


def pieces_of(table: Table) -> tuple[int, int] | None:
    """Return what of how much judges, from which follows how much the units have in common.

    Groups of a unit of all groups; by time the rows that judge any unit, as if all had been drawn for each.
    None where rows are drawn one by one.
    """
    along = table.along
    if along is None:
        return None
    if along.kind == "time":
        return round(len(table) * SHARES["test"]), len(table)
    return len(np.unique(along.values[_by_group(table, along, 0)["test"]])), len(np.unique(along.values))


def _by_group(table: Table, along: Along, seed: int) -> dict[str, Rows]:
    """Return parts of whole groups; those of which most rows have one class are spread alike."""
    groups, places = np.unique(along.values, return_inverse=True)
    classes = classes_of(table)
    counts = np.zeros((len(groups), int(classes.max()) + 1), np.int32)
    np.add.at(counts, (places, classes), 1)
    _check_groups(table, along, counts)
    most = counts.argmax(axis=1)
    sizes = np.bincount(most)
    most[sizes[most] == 1] = sizes.argmax()  # one alone would always judge
    for draw in range(DRAWS_MAX):
        drawn = split(most, seed=seed_for(seed, "groups", draw))
        has_all = all(counts[drawn[part]].any(axis=0).all() for part in NEEDED)
        if has_all and all(len(each) for each in drawn.values()):
            chance = np.random.default_rng(seed_for(seed, "split"))
            return {part: chance.permutation(np.flatnonzero(np.isin(places, drawn[part]))) for part in SHARES}
    raise Unfit(f"its classes cannot be spread over the groups of {shown(along.name)}: too few have each.")


def _check_groups(table: Table, along: Along, counts: NDArray[np.int32]) -> None:
    name, groups = shown(along.name), len(counts)
    if groups < GROUPS_MIN:
        held = "has one group only" if groups == 1 else f"has {groups} groups"
        raise Unfit(f"the column {name} {held}, and {GROUPS_MIN} are needed: name another column as `group`.")
    found = (counts > 0).sum(axis=0)
    if found.min() < 2:
        rare = [table.target.classes[label] for label in np.flatnonzero(found < 2)]
        raise Unfit(
            f"classes that one group of {name} has alone cannot be learnt and judge as well: {listed(rare)}. "
            "Add groups, merge classes or leave them out."
        )


def _by_time(table: Table, along: Along, wanted: int) -> list[dict[str, Rows]]:
    """Return up to so many windows, the earliest first, as many as there can be. Raises `Unfit`."""
    for count in range(wanted, WINDOWS_MIN - 1, -1):
        windows = _windows(along.values, count)
        if windows and all(_can_judge(table, each) for each in windows):
            return windows
    raise Unfit(
        f"by {shown(along.name)} no {WINDOWS_MIN} units can be made, each judged by moments of its own, with every "
        "class before and among them: add rows, or leave out `time`."
    )


def _windows(moments: NDArray[np.float64], count: int) -> list[dict[str, Rows]]:
    """Return so many windows of equal length, one behind the other; none where moments are too few.

    The last rows judge, cut into equal pieces between two moments. The rows before a piece are its window:
    those that are learnt from, those that are watched, and those that are idle, as the search has them.
    """
    order = np.argsort(moments, kind="stable")
    ordered = moments[order]
    length = len(order) - round(len(order) * SHARES["test"])
    piece = (len(order) - length) // count
    edges = [int(np.searchsorted(ordered, ordered[length + piece * k])) for k in range(count)]
    if piece < WINDOW_ROWS_MIN or edges[0] < 1 or any(one >= two for one, two in pairwise(edges)):
        return []
    ends = [*edges[1:], min(edges[-1] + piece, len(order))]
    learnt, seen = (round(len(order) * share) for share in (_TRAIN, _TRAIN + SHARES["watch"]))
    found = []
    for start, end in zip(edges, ends, strict=True):
        window = order[max(start - length, 0) : start]
        is_before = moments[window] < moments[window[min(seen, len(window) - 1)]]
        train, watch = window[:learnt], window[learnt:seen]
        found.append(
            {
                "train": train[is_before[:learnt]],
                "watch": watch[is_before[learnt:seen]],
                "validation": window[seen:],
                "test": order[start:end],
            }
        )
    return found


def _can_judge(table: Table, window: dict[str, Rows]) -> bool:
    """Return whether a window has rows in each part, and each class among those learnt from and those that judge."""
    classes, count = classes_of(table), len(table.target.classes) or 1
    has_all = all(len(np.unique(classes[window[part]])) == count for part in NEEDED)
    return has_all and all(map(len, window.values()))
