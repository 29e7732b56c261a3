"""Rules of retention: set, shown, previewed and removed under a name."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import Field, StringConstraints

from control_plane.runs.options import LABEL_CHARS_MAX
from control_plane.server.api.contract.bodies import WHOLE, Body, Storable
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps
from control_plane.upkeep.keeping.retention import Rule
from events.answers.access.keeping import RetentionPreview, RetentionRule
from events.answers.answer import Listing

DAYS_MAX: Final = 36_500
RuleId = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]{0,99}$")]
Kind = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9_-]{0,99}$")]
Label = Annotated[str, StringConstraints(min_length=3, max_length=2 * LABEL_CHARS_MAX, pattern="="), Storable]


class RuleBody(Body):
    """What is taken of runs so many days after their end, null for never; of a kind, or with a label."""

    what: Literal["checkpoints", "files", "runs"]
    days: Annotated[int, Field(ge=1, le=DAYS_MAX), WHOLE] | None
    kind: Kind | None = None
    label: Label | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/retention`."""
    routes = Routes(prefix="/api/retention", tags=["retention"])
    retainer = deps.retainer

    @routes.get("")
    async def rules(_: MayRead) -> Listing[RetentionRule]:
        return Listing(items=await retainer.rules(), next=None)

    @routes.get("/{rule_id}/preview")
    async def preview(rule_id: str, _: MayRead) -> RetentionPreview:
        return await retainer.preview(rule_id)

    @routes.put("/{rule_id}")
    async def put(rule_id: RuleId, body: RuleBody, principal: MaySteer) -> RetentionRule:
        rule = Rule(rule_id, body.what, body.days, body.kind, body.label)
        return await retainer.put(rule, by=principal.name)

    @routes.delete("/{rule_id}", status_code=204)
    async def remove(rule_id: str, _: MaySteer) -> None:
        await retainer.remove(rule_id)

    return routes
