"""What a validation rests on, as tables; whatever has another shape stays as it was said, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Cell = str | int | float | bool | None

WORDS_CHARS_MAX: Final = 60  # a longer text is read, not compared
DECIDERS: Final = {"measurement": "the measurement", "review": "the reviews"}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that every column says something about."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validation's scores: who decided, what was measured, what reviewers said, and all the rest."""

    decided_by: str | None
    measured: Sequence[Row]
    reviewers: Sequence[str]
    reviews: Sequence[Row]
    texts: Sequence[Mapping[str, Any]]
    rest: Mapping[str, Any]


def verdict(scores: Mapping[str, Any]) -> Verdict:
    """Take the scores of a validation apart."""
    rest = dict(scores)
    decided_by = rest.pop("decided_by", None)
    forms = rest.get("reviews")
    reviews: list[Mapping[str, Any]] = []
    if isinstance(forms, list) and forms and all(isinstance(each, Mapping) for each in forms):
        reviews = list(rest.pop("reviews"))
    meta = rest.pop("meta_review") if reviews and isinstance(rest.get("meta_review"), Mapping) else None
    measured = [Row(name, [rest.pop(name)]) for name in list(rest) if _is_cell(rest[name])]
    columns = [*reviews, *([] if meta is None else [_flat(meta)])]
    names = [f"review {number}" for number in range(1, len(reviews) + 1)]
    return Verdict(
        decided_by=None if decided_by is None else DECIDERS.get(str(decided_by), str(decided_by)),
        measured=measured,
        reviewers=[*names, *([] if meta is None else ["all together"])],
        reviews=_rows(columns),
        texts=[{name: value for name, value in each.items() if not _is_cell(value)} for each in reviews],
        rest=rest,
    )


def _rows(columns: Sequence[Mapping[str, Any]]) -> list[Row]:
    names = dict.fromkeys(name for column in columns for name, value in column.items() if _is_cell(value))
    return [Row(name, [_cell(column.get(name)) for column in columns]) for name in names]


def _flat(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a meta-review with the mean scores beside its decision, as a review has them."""
    means = meta.get("scores")
    return {**meta, **means} if isinstance(means, Mapping) else meta


def _is_cell(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= WORDS_CHARS_MAX and "\n" not in value
    return value is None or isinstance(value, int | float)


def _cell(value: Any) -> Cell:
    return value if _is_cell(value) else None
