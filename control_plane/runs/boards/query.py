"""The board that somebody asks for: checked, with what its kind declares of the number; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from control_plane.model.views.boards.board import Show
from control_plane.model.views.boards.interval import METHOD
from control_plane.model.views.boards.run_fields import RunField, read_field
from control_plane.reads.reading import RunFilters
from control_plane.store.schema import SUCCEEDED
from events.kinds import KINDS, RUN_KINDS
from events.kinds.declaring.spec import default_at
from events.kinds.results import Column, Direction
from events.runtime.errors import Rejected

METHODS: Final = {"newest": "newest run of the cell", "best": "best run of the cell", "mean": METHOD}
NUMBERS_MAX: Final = 16
DIRECTIONS: Final[Mapping[str, Direction]] = {"min": "lower", "max": "higher"}
_KIND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardQuery:
    """A board as its address names it: `cell` of the runs of `kind` that succeeded, by `rows` and `columns`.

    Several numbers, with commas between them, are a column each. Without `rows` and `cell` it is the board
    that the kind proposes. `beside` names more numbers of the run of each cell.

    Without a `status` these are the completed ones and those that a person has validated.
    """

    kind: str
    rows: str = ""
    cell: str = ""
    columns: str = ""
    beside: str = ""
    show: Show = "newest"
    complete: bool = False
    status: Literal["", "COMPLETED", "HUMAN_VALIDATED"] = ""
    filters: RunFilters = field(default_factory=RunFilters)


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """What is read of each run, and how its number is shown."""

    asked: BoardQuery
    rows: RunField
    columns: RunField | None
    declared: Sequence[Column]
    beside: Sequence[Column]
    filters: RunFilters

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on the runs, the narrowest first."""
        status = self.asked.status or {"$in": sorted(SUCCEEDED)}
        return {**self.filters.conditions(), "status": status, "kind": self.asked.kind}

    @property
    def fields(self) -> list[RunField]:
        """The fields of a run: its row, its column if there is one, and the numbers that are read of it."""
        return [self.rows, *([self.columns] if self.columns else []), *self.read]

    @property
    def read(self) -> list[RunField]:
        """Every number that is read of a run, each once."""
        names = [each.name for each in (*self.declared, *self.beside)]
        counted = [each.share_of for each in self.declared if each.share_of]
        return [RunField("summary", each) for each in dict.fromkeys([*names, *counted])]


def checked(asked: BoardQuery) -> CheckedQuery:
    """Return a query that can be answered. Raises `Rejected`."""
    if not _KIND.fullmatch(asked.kind):
        raise Rejected(
            "bad_kind", f"{asked.kind[:60]!r} is no kind of run; kinds here: {', '.join(sorted(RUN_KINDS))}"
        )
    proposed = KINDS[asked.kind].leaderboard if asked.kind in KINDS else None
    if proposed is not None and not asked.rows and not asked.cell:
        beside = asked.beside or ",".join(proposed.beside)
        asked = replace(asked, rows=proposed.rows, cell=",".join(proposed.cells), beside=beside)
    numbers = _numbers(asked.cell) or {read_field("summary.", ("summary",)).name: None}
    if len(numbers) > 1 and asked.columns:
        raise Rejected("bad_columns", "several numbers are a column each: leave out `columns`, or name one")
    # runs of a kind that is not installed here have their numbers, too
    known = {each.name: each for each in KINDS[asked.kind].headline} if asked.kind in KINDS else {}
    declared = [_column(known, name, direction) for name, direction in numbers.items()]
    for column in declared:
        _require_shown(column, asked, known.values())
    return CheckedQuery(
        asked=asked,
        rows=_field(asked.kind, asked.rows),
        columns=_field(asked.kind, asked.columns) if asked.columns else None,
        declared=declared,
        beside=[_column(known, name, direction) for name, direction in _numbers(asked.beside).items()],
        filters=replace(asked.filters, kind=None, status=None),
    )


def _numbers(text: str) -> dict[str, Direction | None]:
    """Return the numbers that a text names, with commas between them, each once. Raises `Rejected`.

    `min:NAME` and `max:NAME` say which of its values are better, where the kind does not.
    """
    found: dict[str, Direction | None] = {}
    for each in (part.strip() for part in text.split(",") if part.strip()):
        word, colon, name = each.partition(":")
        direction = DIRECTIONS.get(word) if colon else None
        field = (name if direction else each).removeprefix("summary.")
        found.setdefault(read_field(f"summary.{field}", ("summary",)).name, direction)
    if len(found) > NUMBERS_MAX:
        raise Rejected("bad_cell", f"{len(found)} numbers are too many; {NUMBERS_MAX} are the most")
    return found


def _column(known: Mapping[str, Column], name: str, direction: Direction | None) -> Column:
    """Return a number as its kind declares it, with the direction that is asked for."""
    declared = known.get(name, Column(name))
    return declared if direction is None else replace(declared, direction=direction)


def _require_shown(column: Column, asked: BoardQuery, known: Iterable[Column]) -> None:
    """Raise `Rejected` where a column is no number, or none is the best where the best is wanted."""
    if column.type != "number":
        raise Rejected("bad_cell", f"{column.name} is a {column.type}; a cell shows a number")
    if asked.show == "best" and column.direction is None:
        named = ", ".join(each.name for each in known if each.direction) or "none"
        message = (
            f"no direction of {column.name} is declared, so that none is the best; of {asked.kind}: {named}"
        )
        raise Rejected(
            "no_direction",
            f"{message}; show the newest or the mean, or name it as min:{column.name} or max:{column.name}",
        )


def _field(kind: str, text: str) -> RunField:
    """Return a field of the rows or columns; what a specification leaves out is what its kind declares."""
    found = read_field(text, ("spec", "label"))
    if found.place != "spec" or kind not in KINDS:
        return found
    return replace(found, default=default_at(KINDS[kind].spec, found.name))
