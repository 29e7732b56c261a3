"""The request bodies of groups."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, StringConstraints

from control_plane.model.groups.matrix import SLOTS_MAX
from control_plane.model.groups.parameters import NAME_PATTERN
from control_plane.runs.groups.service import NOTE_CHARS_MAX
from control_plane.server.api.contract.bodies import FEW, WHOLE, Body, RunBody, Storable

PARAMETERS_MAX: Final = 20

GroupId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
ParameterName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
ParameterValues = Annotated[list[Any], Field(min_length=1, max_length=SLOTS_MAX), Storable]
Row = Annotated[
    dict[ParameterName, Any],
    Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
    FEW,
    Storable,
]
Limit = Annotated[int, Field(ge=1, le=SLOTS_MAX), WHOLE]


class MatrixPlan(Body):
    """A run for each combination of `values`, or for each of `rows`; names lead by dots into mappings.

    At most `parallel` wait for a pod or have one at once. Nothing more is submitted after
    `stop_after_failures` members failed.
    """

    kind: Literal["matrix"]
    values: (
        Annotated[
            dict[ParameterName, ParameterValues],
            Field(min_length=1, max_length=PARAMETERS_MAX, json_schema_extra={"additionalProperties": False}),
            FEW,
        ]
        | None
    ) = None
    rows: Annotated[list[Row], Field(min_length=1, max_length=SLOTS_MAX)] | None = None
    parallel: Limit = 10
    stop_after_failures: Limit | None = None


class GroupEdit(Body):
    """What is to be changed of a group; the plan as a whole, and the run as a whole."""

    run: RunBody | None = None
    plan: MatrixPlan | None = None


class NewGroup(Body):
    """A group with its name: the run that each slot varies, and the plan."""

    id: GroupId
    run: RunBody
    plan: MatrixPlan
    paused: bool = False


class GroupPause(Body):
    """Why a group is paused."""

    note: Annotated[str, StringConstraints(max_length=NOTE_CHARS_MAX), Storable] = ""


def posted(body: BaseModel) -> dict[str, Any]:
    """Return a part of a body as it is kept: with its defaults, without what it leaves out."""
    return body.model_dump(exclude_none=True)
