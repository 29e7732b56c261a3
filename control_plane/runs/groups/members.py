"""The submission of a slot: the run of its group with the values of its place, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane.model.groups.parameters import Values, assigned
from control_plane.model.groups.plan import BUDGET
from control_plane.runs.submission import Submission


def submission(
    group: Mapping[str, Any],
    slot: int,
    values: Values,
    *,
    pod: str | None = None,
    barrier: bool = False,
    usd: float | None = None,
) -> Submission:
    """Return what a slot submits; of a race, on which pod it waits for the others; a node waits on any.

    `usd` is its part of the budget of the group.

    Raises `Rejected` for a name that leads into what has no fields.
    """
    run: dict[str, Any] = {**group["run"], "spec": assigned(group["run"]["spec"], values)}
    if pod is not None:
        run |= {"requires": {**(run.get("requires") or {}), "pod": pod}, "barrier": True}
    if usd is not None:
        run |= {"spec": {**run["spec"], BUDGET: usd}}
    if barrier:
        run |= {"barrier": True}
    by, named_by = f"group:{group['_id']}", group.get("namedBy")
    return Submission(**run, by=by, named_by=named_by, group_id=group["_id"], slot=slot)
