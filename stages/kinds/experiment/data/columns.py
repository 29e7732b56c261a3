"""What the columns of a table hold, which of them can be learnt from, and what is to be predicted; pure.

Law: all of this follows from the whole table and never from how it is split, so that a run knows the
shape of its data before the split. Numbers that are computed from values (medians, means, scales)
are none of it: they come from training rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from events.kinds.space.metrics import Task

ROWS_MIN: Final = 20  # fewer cannot be split in four and still measure anything
CLASS_ROWS_MIN: Final = 3  # one to learn from, one to select by, one to judge by
CLASSES_MAX: Final = 20
CLASSES_FEW: Final = 10
CLASSES_SHARE_MAX: Final = 0.05  # of the rows: more than a few different whole numbers are a quantity
CATEGORIES_MAX: Final = 50
FEATURES_MAX: Final = 10_000
VALUE_MAX: Final = 1e30  # larger numbers overflow when they are squared in single precision
NAME_CHARS_MAX: Final = 200
LISTED_MAX: Final = 12
SHOWN_CHARS: Final = 40
TARGET_NAMES: Final = ("target", "label", "class", "y")

Floats = NDArray[np.float64]


class Unfit(ValueError):
    """A table that cannot be learnt from; the message has a remedy."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers, of truths as 0 and 1, or of times in seconds; not finite where missing."""

    name: str
    values: NDArray[Any]
    kind: Literal["number", "truth", "time"] = "number"


@dataclass(frozen=True, slots=True)
class Names:
    """A column of text: `codes` are positions in the sorted `values`, −1 where missing."""

    name: str
    codes: NDArray[np.int32]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A column that nothing can be learnt from, and why; `codes` tell its values apart, −1 where missing."""

    name: str
    reason: str
    codes: NDArray[np.int32] | None = None


Column = Numbers | Names | Unusable


@dataclass(frozen=True, slots=True)
class Target:
    """What is predicted: class labels with the names of the classes, or values."""

    name: str
    task: Task
    values: NDArray[Any]
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """One input of a network: a column's value, whether it is `category`, or whether it is missing."""

    name: str
    column: Numbers | Names
    aspect: Literal["value", "category", "missing"] = "value"
    category: int = 0

    def values(self) -> Floats:
        """Return one number for each row; NaN where the value itself is missing."""
        if isinstance(self.column, Names):
            wanted = self.category if self.aspect == "category" else -1
            is_so: Floats = (self.column.codes == wanted).astype(np.float64)
            return is_so
        values: Floats = self.column.values.astype(np.float64)
        is_there = np.isfinite(values)
        if self.aspect == "missing":
            return (~is_there).astype(np.float64)
        values[~is_there] = np.nan
        return values


@dataclass(frozen=True, slots=True)
class Along:
    """The column by which rows are split, and no feature: groups as numbers, or moments."""

    name: str
    kind: Literal["group", "time"]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Key:
    """Which column a run names for that, by its name."""

    name: str
    kind: Literal["group", "time"]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that can be split and learnt from; `image_side` where the features are pixels.

    `along` is by what they are split, and `columns` what the features were made of, or not made of.
    """

    features: tuple[Feature, ...]
    target: Target
    image_side: int | None
    notes: tuple[str, ...]
    along: Along | None = None
    columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.target.values)


def table_of(
    columns: Sequence[Column], wanted: str, image_side: int | None = None, key: Key | None = None
) -> Table:
    """Choose what is predicted and from what. Raises `Unfit`."""
    if not columns:
        raise Unfit("it has no columns.")
    along = None
    if key is not None:
        place = _place_of(key.name, [column.name for column in columns])
        along = columns[place]
        columns = [*columns[:place], *columns[place + 1 :]]
    chosen, notes = choose_target([column.name for column in columns], wanted)
    target = columns[chosen]
    if isinstance(target, Unusable):
        raise Unfit(f"the target {shown(target.name)} {target.reason}: name another column after a #.")
    # Judged before rows are left out: a column that counts the rows betrays their order.
    others = [_without_counting(each) for index, each in enumerate(columns) if index != chosen]
    is_there = _is_there(target)
    missing = int((~is_there).sum())
    if missing == len(is_there):
        raise Unfit(f"the target {shown(target.name)} has no values: name another column after a #.")
    if missing:
        notes.append(f"{missing} rows without {shown(target.name)} were left out.")
        target = _chosen_rows(target, is_there)
        others = [_chosen_rows(each, is_there) for each in others]
        along = None if along is None else _chosen_rows(along, is_there)
    found = None
    if along is not None and key is not None:
        values, is_known = _along(along, key.kind)
        if not is_known.all():
            notes.append(f"{int((~is_known).sum())} rows without {shown(along.name)} were left out.")
            target = _chosen_rows(target, is_known)
            others = [_chosen_rows(each, is_known) for each in others]
        found = Along(along.name, key.kind, values[is_known])
        notes.append(_told(found))
    predicted, note = _predicted(target)
    features, dropped = (_pixels(others), []) if image_side else features_of(others)
    return Table(
        features, predicted, image_side, (*notes, note, *dropped), found, () if image_side else tuple(others)
    )


def choose_target(names: Sequence[str], wanted: str) -> tuple[int, list[str]]:
    """Return the position of the column to predict, with a note where it was not named."""
    if wanted:
        return _place_of(wanted, names), []
    usual = [index for index, name in enumerate(names) if name.casefold() in TARGET_NAMES]
    if len(usual) > 1:
        raise Unfit(f"{listed([names[i] for i in usual])} may each be the target: name one after a #.")
    chosen = usual[0] if usual else len(names) - 1
    why = "by its name" if usual else "as the last column"
    return chosen, [f"The target is {shown(names[chosen])}, taken {why}; a # and a name choose another."]


def _place_of(wanted: str, names: Sequence[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    alike = [index for index, name in enumerate(names) if name.casefold() == wanted.strip().casefold()]
    if len(alike) == 1:
        return alike[0]
    raise Unfit(f"it has no column {shown(wanted)}; its columns: {listed(names)}.")


def _along(column: Column, kind: Literal["group", "time"]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return by what rows are split, and which of them have it. Raises `Unfit`."""
    if kind == "time":
        if not isinstance(column, Numbers) or column.kind == "truth":
            raise Unfit(
                f"the column {shown(column.name)} holds no times: dates such as 2024-05-17 or numbers are."
            )
        return column.values.astype(np.float64), _is_there(column)
    if isinstance(column, Numbers):
        is_there = _is_there(column)
        return np.unique(np.where(is_there, column.values, 0.0), return_inverse=True)[1], is_there
    if column.codes is None:
        raise Unfit(f"the column {shown(column.name)} {column.reason}: name another as `group`.")
    return column.codes, column.codes >= 0


def _told(along: Along) -> str:
    count = len(np.unique(along.values))
    if along.kind == "group":
        return (
            f"Rows are split by whole groups: no {shown(along.name)} of {count} has rows on both sides, "
            "and it is no feature."
        )
    return (
        f"Rows are split by time: those that judge have a later {shown(along.name)} than those learnt from, and it is "
        "no feature."
    )


def features_of(columns: Sequence[Column]) -> tuple[tuple[Feature, ...], list[str]]:
    """Return the inputs that can be made of `columns`, with notes on what was left out and filled in."""
    features: list[Feature] = []
    constant: list[str] = []
    incomplete: list[str] = []
    dropped: list[str] = []
    for column in columns:
        if isinstance(column, Unusable):
            dropped.append(f"Column {shown(column.name)} {column.reason}; it was left out.")
            continue
        found = _features(column)
        if not found:
            constant.append(column.name)
        elif found[-1].aspect == "missing":
            incomplete.append(column.name)
        features.extend(found)
        if len(features) > FEATURES_MAX:
            raise Unfit(f"it makes more than {FEATURES_MAX:,} features: leave columns out of the file.")
    notes = dropped[:LISTED_MAX]
    if len(dropped) > LISTED_MAX:
        notes.append(f"{len(dropped) - LISTED_MAX} more columns were left out for such reasons.")
    if constant:
        notes.append(f"Columns that never change were left out: {listed(constant)}.")
    if incomplete:
        notes.append(
            "Missing values were marked by an indicator, numbers also filled in by the median of the "
            f"training rows: {listed(incomplete)}."
        )
    if not features:
        raise Unfit(" ".join(["no column is left to learn from.", *notes]))
    return tuple(features), notes


def shown(text: str) -> str:
    """Return `text` in quotes, cut to a length that a message can hold."""
    return repr(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first of them where they are many."""
    more = len(names) - LISTED_MAX
    text = ", ".join(shown(name) for name in names[:LISTED_MAX])
    return f"{text} and {more} more" if more > 0 else text


def _features(column: Numbers | Names) -> list[Feature]:
    """Return what can be learnt from one column; nothing from one that never changes."""
    is_there = _is_there(column)
    gaps = [] if is_there.all() or not is_there.any() else [_missing(column)]
    if isinstance(column, Names):
        present = np.unique(column.codes[is_there])
        if len(present) < 2:
            return gaps
        return [
            Feature(f"{column.name} is {column.values[code]}", column, "category", int(code))
            for code in present
        ] + gaps
    values = column.values[is_there]
    if len(values) == 0 or values.min() == values.max():
        return gaps
    if np.abs(values.astype(np.float64)).max() > VALUE_MAX:
        raise Unfit(f"column {shown(column.name)} holds numbers beyond {VALUE_MAX:g}: use another unit.")
    return [Feature(column.name, column), *gaps]


def _missing(column: Numbers | Names) -> Feature:
    return Feature(f"{column.name} is missing", column, "missing")


def _pixels(columns: Sequence[Column]) -> tuple[Feature, ...]:
    """Return every pixel as it is: an image keeps its shape."""
    pixels = [column for column in columns if isinstance(column, Numbers)]
    assert len(pixels) == len(columns)
    if len(pixels) > FEATURES_MAX:
        raise Unfit(f"its images have more than {FEATURES_MAX:,} pixels: make them smaller.")
    for column in pixels:
        if not _is_there(column).all() or np.abs(column.values.astype(np.float64)).max() > VALUE_MAX:
            raise Unfit(f"its images have pixels that are missing or beyond {VALUE_MAX:g}: fill them in.")
    return tuple(Feature(column.name, column) for column in pixels)


def _without_counting(column: Column) -> Column:
    """Return the column, unless it only counts the rows, as the index that many programs write does."""
    if not isinstance(column, Numbers) or column.kind != "number" or len(column.values) < 2:
        return column
    if column.values[0] not in (0, 1):
        return column
    counted = np.arange(len(column.values)) + column.values[0]
    if np.array_equal(column.values, counted):
        return Unusable(column.name, "only counts the rows")
    return column


def _predicted(column: Numbers | Names) -> tuple[Target, str]:
    """Return the target with the reason for which classes, or values, are predicted."""
    rows = len(_is_there(column))
    if rows < ROWS_MIN:
        raise Unfit(f"it has {rows} rows with a target, and {ROWS_MIN} are needed: add more.")
    name = shown(column.name)
    if isinstance(column, Numbers) and column.kind == "time":
        raise Unfit(f"the target {name} is a time: name a column of numbers or classes after a #.")
    found, labels = _classes(column)
    if len(found) < 2:
        raise Unfit(f"the target {name} is the same in every row, so nothing can be learnt: name another.")
    few = len(found) <= CLASSES_FEW or len(found) < CLASSES_SHARE_MAX * rows
    if isinstance(column, Numbers) and column.kind == "number":
        if not (_is_whole(column.values) and few and len(found) <= CLASSES_MAX):
            values = column.values.astype(np.float64)
            if np.abs(values).max() > VALUE_MAX:
                raise Unfit(f"the target {name} holds numbers beyond {VALUE_MAX:g}: use another unit.")
            note = f"The target {name} has {len(found)} different numbers: it is predicted as a value."
            return Target(column.name, "regression", values, ()), note
        what = "whole numbers"
    else:
        what = "truth values" if isinstance(column, Numbers) else "texts"
        if not few or len(found) > CLASSES_MAX:
            raise Unfit(
                f"the target {name} is text with {len(found)} different values in {rows} rows: too many "
                f"for classes (at most {CLASSES_MAX}), and no numbers to predict. Name another column "
                "after a #, or merge classes."
            )
    counts = np.bincount(labels)
    rare = [found[index] for index in np.flatnonzero(counts < CLASS_ROWS_MIN)]
    if rare:
        raise Unfit(
            f"classes of {name} with fewer than {CLASS_ROWS_MIN} rows: {listed(rare)}. Add rows, merge "
            "classes or leave them out."
        )
    note = f"The target {name} has {len(found)} different {what}: it is predicted as a class."
    return Target(column.name, "classification", labels, found), note


def _classes(column: Numbers | Names) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of all different values in order, and each row's position among them."""
    if isinstance(column, Names):
        present, labels = np.unique(column.codes, return_inverse=True)
        names = tuple(column.values[code] for code in present)
        if any(len(name) > NAME_CHARS_MAX for name in names):
            raise Unfit(f"the target {shown(column.name)} holds whole texts, not the names of classes.")
        return names, labels.astype(np.int64)
    values, labels = np.unique(column.values, return_inverse=True)
    if column.kind == "truth":
        return tuple("true" if value else "false" for value in values), labels.astype(np.int64)
    if len(values) > CLASSES_MAX:
        return ("",) * len(values), labels  # many numbers are values, which need no names
    return tuple(f"{value:.0f}" for value in values), labels.astype(np.int64)


def _is_whole(values: NDArray[Any]) -> bool:
    return bool((values == np.floor(values)).all()) and bool(np.abs(values.astype(np.float64)).max() < 2**53)


def _is_there(column: Numbers | Names) -> NDArray[np.bool_]:
    """Return for each row whether the column has a value there."""
    if isinstance(column, Names):
        there: NDArray[np.bool_] = column.codes >= 0
        return there
    known: NDArray[np.bool_] = np.isfinite(column.values)
    return known


def _chosen_rows(column: Any, rows: NDArray[np.bool_]) -> Any:
    """Return `column` with only `rows`."""
    match column:
        case Numbers():
            return replace(column, values=column.values[rows])
        case Names():
            return replace(column, codes=column.codes[rows])
        case Unusable(codes=codes) if codes is not None:
            return replace(column, codes=codes[rows])
        case _:
            return column
