"""The board that somebody asks for: checked, with what its kind declares of the number; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from control_plane.model.views.boards.board import Show
from control_plane.model.views.boards.interval import METHOD
from control_plane.model.views.boards.run_fields import RunField, read_field
from control_plane.reads.reading import RunFilters
from control_plane.store.schema import SUCCEEDED
from events.kinds import KINDS, RUN_KINDS
from events.kinds.results import Column
from events.kinds.spec import default_at
from events.runtime.errors import Rejected

METHODS: Final = {"newest": "newest run of the cell", "best": "best run of the cell", "mean": METHOD}
_KIND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardQuery:
    """A board as its address names it: `cell` of the runs of `kind` that succeeded, by `rows` and `columns`.

    Without a `status` these are the completed ones and those that a person has validated.
    """

    kind: str
    rows: str
    cell: str
    columns: str = ""
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
    number: RunField
    declared: Column
    filters: RunFilters

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on the runs, the narrowest first."""
        status = self.asked.status or {"$in": sorted(SUCCEEDED)}
        return {**self.filters.conditions(), "status": status, "kind": self.asked.kind}

    @property
    def fields(self) -> list[RunField]:
        """The fields of a run in the order of an entry: the number, the row, the column if there is one."""
        return [self.number, self.rows, *([self.columns] if self.columns else [])]


def checked(asked: BoardQuery) -> CheckedQuery:
    """Return a query that can be answered. Raises `Rejected`."""
    if not _KIND.fullmatch(asked.kind):
        raise Rejected(
            "bad_kind", f"{asked.kind[:60]!r} is no kind of run; kinds here: {', '.join(sorted(RUN_KINDS))}"
        )
    number = read_field(f"summary.{asked.cell.removeprefix('summary.')}", ("summary",))
    # runs of a kind that is not installed here have their numbers, too
    declared = {each.name: each for each in KINDS[asked.kind].headline} if asked.kind in KINDS else {}
    column = declared.get(number.name, Column(number.name))
    if column.type != "number":
        raise Rejected("bad_cell", f"{number.name} is a {column.type}; a cell shows a number")
    if asked.show == "best" and column.direction is None:
        known = ", ".join(each.name for each in declared.values() if each.direction) or "none"
        message = (
            f"no direction of {number.name} is declared, so that none is the best; of {asked.kind}: {known}"
        )
        raise Rejected("no_direction", f"{message}; show the newest or the mean")
    return CheckedQuery(
        asked=asked,
        rows=_field(asked.kind, asked.rows),
        columns=_field(asked.kind, asked.columns) if asked.columns else None,
        number=number,
        declared=column,
        filters=replace(asked.filters, kind=None, status=None),
    )


def _field(kind: str, text: str) -> RunField:
    """Return a field of the rows or columns; what a specification leaves out is what its kind declares."""
    found = read_field(text, ("spec", "label"))
    if found.place != "spec" or kind not in KINDS:
        return found
    return replace(found, default=default_at(KINDS[kind].spec, found.name))
