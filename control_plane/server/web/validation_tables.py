"""Shows the data of a validation as tables; data of another shape or size stay unchanged, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Cell = str | int | float | bool | None

WORDS_CHARS_MAX: Final = 60  # a longer text is read, not compared
ROWS_MAX: Final = 100
COLUMNS_MAX: Final = 20
DECIDERS: Final = {"measurement": "the measurement", "review": "the reviews"}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, with a value for each column."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A validation's scores: the decision, the measurements, several claims, the reviews, all other data."""

    decided_by: str | None
    measured: Sequence[Row]
    claimed: Sequence[str]
    claims: Sequence[Row]
    reviewers: Sequence[str]
    reviews: Sequence[Row]
    texts: Sequence[Mapping[str, Any]]
    switch: Sequence[str]
    not_measured: Sequence[str]
    rest: Mapping[str, Any]


def verdict(scores: Mapping[str, Any]) -> Verdict:
    """Return the scores of a validation in their parts."""
    rest = dict(scores)
    decided_by = rest.pop("decided_by", None)
    reviews = rest.pop("reviews") if _are_forms(rest.get("reviews")) else []
    meta = rest.get("meta_review")
    together = [_flat(meta)] if reviews and isinstance(meta, Mapping) else []
    if together and _are_forms([*reviews, *together]):
        del rest["meta_review"]
    else:
        together = []
    switch, not_measured = (_lines(rest, name) for name in ("switch", "not_measured"))
    cells = [name for name, value in rest.items() if _is_cell(value)]
    measured = [Row(name, [rest.pop(name)]) for name in cells[:ROWS_MAX]]
    claims = rest.pop("claims") if _are_forms(rest.get("claims")) else []
    names = [f"review {number}" for number in range(1, len(reviews) + 1)]
    return Verdict(
        decided_by=None if decided_by is None else DECIDERS.get(str(decided_by), str(decided_by)),
        measured=measured,
        claimed=[f"claim {number}" for number in range(1, len(claims) + 1)],
        claims=_rows(claims),
        reviewers=[*names, *["all together" for _ in together]],
        reviews=_rows([*reviews, *together]),
        texts=[{name: value for name, value in each.items() if not _is_cell(value)} for each in reviews],
        switch=switch,
        not_measured=not_measured,
        rest=rest,
    )


def _lines(rest: dict[str, Any], name: str) -> Sequence[str]:
    """Take a list of texts out of the other data."""
    said = rest.get(name)
    is_text = isinstance(said, list) and all(isinstance(each, str) for each in said)
    return rest.pop(name) if is_text else ()


def _rows(columns: Sequence[Mapping[str, Any]]) -> list[Row]:
    names = dict.fromkeys(name for column in columns for name, value in column.items() if _is_cell(value))
    return [Row(name, [_cell(column.get(name)) for column in columns]) for name in names]


def _flat(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a meta-review with its mean scores beside its decision, in the form of a review."""
    means = meta.get("scores")
    return {**meta, **means} if isinstance(means, Mapping) else meta


def _are_forms(value: Any) -> bool:
    """Say whether this is a readable table: a list of objects with few different names."""
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        return False
    names = {name for each in value[:COLUMNS_MAX] for name in each}
    return 0 < len(value) <= COLUMNS_MAX and len(names) <= ROWS_MAX


def _is_cell(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= WORDS_CHARS_MAX and "\n" not in value
    return value is None or isinstance(value, int | float)


def _cell(value: Any) -> Cell:
    return value if _is_cell(value) else None
