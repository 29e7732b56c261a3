"""The plan `matrix`: a slot for each row, or for each combination of the given values; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from control_plane.model.groups.members import Members
from control_plane.model.groups.parameters import Values
from events.runtime.errors import Rejected

SLOTS_MAX: Final = 10_000
NODES_MAX: Final = 64
READY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """`rows`, or the product of `axes`, whose last one changes fastest; or `nodes` that start together.

    Nodes wait for each other for `ready_s` at most before they give their pods back.
    """

    axes: Mapping[str, Sequence[Any]]
    rows: Sequence[Values]
    parallel: int
    stop_after_failures: int | None
    nodes: int = 0
    ready_s: float = READY_S
    budget_usd: float | None = None

    @property
    def slots(self) -> int:
        """How many slots a round has."""
        return len(self.rows) if self.rows else prod(len(values) for values in self.axes.values())

    @property
    def names(self) -> Sequence[str]:
        """The parameters that vary, in their order."""
        return list(dict.fromkeys(name for row in self.rows for name in row)) or list(self.axes)

    def values(self, index: int) -> Values:
        """Return the values of a slot, counted from the round's first."""
        if self.rows:
            return self.rows[index]
        chosen: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            index, place = divmod(index, len(values))
            chosen[name] = values[place]
        return {name: chosen[name] for name in self.axes}

    def examples(self) -> Sequence[Values]:
        """Return the values of every slot, by which the plan is checked."""
        return [self.values(index) for index in range(self.slots)]

    def stopped(self, members: Members) -> str | None:
        """Return why nothing more is to be submitted, though slots are left; None where it is."""
        if self.stop_after_failures is not None and members.failed >= self.stop_after_failures:
            return f"{members.failed} members failed; it stops after {self.stop_after_failures}"
        return None


def matrix_of(plan: Mapping[str, Any]) -> Matrix:
    """Return the plan in a body or a document. Raises `Rejected` for one without slots, or with too many."""
    nodes = plan.get("nodes") or 0
    made = Matrix(
        axes=plan.get("values") or {},
        rows=plan.get("rows") or [{} for _ in range(nodes)],
        parallel=nodes or plan["parallel"],
        stop_after_failures=plan.get("stop_after_failures"),
        nodes=nodes,
        ready_s=plan.get("ready_s") or READY_S,
        budget_usd=plan.get("budget_usd"),
    )
    if bool(made.axes) == bool(made.rows) or (nodes and plan.get("rows")):
        parts = "`values`, `rows` or `nodes`"
        raise Rejected("bad_plan", f"plan: a matrix has {parts}; give one of them, not empty")
    if empty := [name for name, values in made.axes.items() if not values]:
        raise Rejected("bad_plan", f"plan.values: {empty[0]!r} has no value")
    if made.slots > SLOTS_MAX:
        raise Rejected("bad_plan", f"plan: it has {made.slots:,} slots; a matrix has {SLOTS_MAX:,} at most")
    return made
