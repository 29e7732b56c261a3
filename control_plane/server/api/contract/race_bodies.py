"""The request bodies of races."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, model_validator

from control_plane.model.groups.races.choosing import Wish
from control_plane.model.groups.races.race import LANES_MAX
from control_plane.runs.groups.races.service import WantedRace
from control_plane.server.api.contract.bodies import FEW, WHOLE, Body, RunBody, Storable
from control_plane.server.api.contract.group_bodies import GroupId, Row
from events.kinds.results import COLUMN_NAME
from events.queue.labels import ASKED
from events.queue.labels import NAME as LABEL_NAME
from events.queue.requirements import LABELS_MAX, POD_NAME

_ONLY_NAMES: Final[Any] = {"additionalProperties": False}
OF_RACE: Final = {"name", "lanes", "ready_s", "limit_s", "measure"}

LabelName = Annotated[str, StringConstraints(pattern=f"^{LABEL_NAME}$")]
LabelAsked = Annotated[str, StringConstraints(pattern=f"^{ASKED}$")]


class RaceLaneBody(Body):
    """A lane on the pod of a name, lanes on the pods with some labels, or one for each value of a label.

    Of the pods with `labels` at most `most` are taken, idle ones first. `one_of` is the name of a label. The
    `parameters` are those of these lanes.
    """

    pod: Annotated[str, StringConstraints(pattern=f"^{POD_NAME}$"), Storable] | None = None
    labels: (
        Annotated[
            dict[LabelName, LabelAsked],
            Field(min_length=1, max_length=LABELS_MAX, json_schema_extra=_ONLY_NAMES),
            FEW,
        ]
        | None
    ) = None
    one_of: LabelName | None = None
    most: Annotated[int, Field(ge=1, le=LANES_MAX), WHOLE] = LANES_MAX
    parameters: Row | None = None

    @model_validator(mode="after")
    def _has_one_way(self) -> RaceLaneBody:
        ways = [self.pod is not None, self.labels is not None, self.one_of is not None]
        if sum(ways) != 1:
            raise ValueError("a lane has a `pod`, `labels`, or `one_of`: give one of them")
        return self

    def wish(self) -> Wish:
        """Return the lane as somebody wants it."""
        return Wish(
            pod=self.pod,
            labels=self.labels or {},
            one_of=self.one_of,
            most=self.most,
            parameters=self.parameters or {},
        )


class RaceBody(RunBody):
    """A race: the run that each lane does, the lanes, and how long they are waited for.

    Its `name` is that of its group; without one it has the moment. `measure` is the headline number that
    decides it, alone or as `min:NAME` or `max:NAME`; `finish_s` is the time from the start to the end.
    """

    name: GroupId | None = None
    lanes: Annotated[list[RaceLaneBody], Field(min_length=1, max_length=LANES_MAX)]
    ready_s: Annotated[float, Field(ge=1, le=24 * 3600, allow_inf_nan=False)] = 60.0
    limit_s: Annotated[float, Field(ge=1, le=30 * 24 * 3600, allow_inf_nan=False)] = 24 * 3600.0
    measure: Annotated[str, StringConstraints(pattern=f"^((min|max):)?{COLUMN_NAME}$")] | None = None

    def wanted(self, by: str, key: str | None = None) -> WantedRace:
        """Return the race as its author wants it."""
        return WantedRace(
            run=self.model_dump(exclude_none=True, exclude=OF_RACE),
            wishes=[each.wish() for each in self.lanes],
            ready_s=self.ready_s,
            limit_s=self.limit_s,
            by=by,
            name=self.name,
            measure=self.measure,
            idempotency_key=key,
        )
