"""The kinds of run: their descriptions, specifications and pods; and what a run of one would take."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import APIRouter

from control_plane.runs.submission import Submission
from control_plane.server.api.contract.bodies import NewRun
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, MaySubmit
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.kinds.estimates import RunEstimate
from events.answers.kinds.kind import KindAnswer
from events.kinds import KINDS, kind_of
from events.kinds.kind import Kind, described
from events.runtime.errors import NotFound, Rejected


def router(deps: Deps) -> APIRouter:
    """Return the routes of kinds."""
    routes = Routes(tags=["kinds"])

    @routes.post("/api/run-estimates")
    async def estimate(body: NewRun, principal: MaySubmit) -> RunEstimate:
        return await deps.estimates.of(Submission(**body.model_dump(), by=principal.name))

    @routes.get("/api/kinds")
    async def every(_: MayRead) -> Listing[KindAnswer]:
        takers = await deps.reading.takers_by_kind()
        return Listing(items=[answered(KINDS[name], takers) for name in sorted(KINDS)], next=None)

    @routes.get("/api/kinds/{name}")
    async def one(name: str, _: MayRead) -> KindAnswer:
        try:
            kind = kind_of(name)
        except Rejected as error:
            raise NotFound(error.code, error.message) from None
        return answered(kind, await deps.reading.takers_by_kind())

    return routes


def answered(kind: Kind, takers: Mapping[str, int]) -> KindAnswer:
    """Return a kind with the number of pods that take its runs."""
    return msgspec.convert({**described(kind), "livePods": takers.get(kind.name, 0)}, KindAnswer)
