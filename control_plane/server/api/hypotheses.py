"""Hypotheses: propose, look, run again."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from control_plane.runs.submission import NewHypothesis
from control_plane.server.api.contract.bodies import Launch, NewHypothesisBody
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead, MaySubmit, Page
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.hypotheses import Hypothesis, HypothesisRow, ProposedHypothesis
from events.answers.runs import Run


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/hypotheses`."""
    routes = APIRouter(prefix="/api/hypotheses", tags=["hypotheses"], route_class=StructRoute)

    @routes.post("", status_code=201)
    async def propose(
        body: NewHypothesisBody, principal: MaySubmit, response: Response
    ) -> ProposedHypothesis:
        wanted = NewHypothesis(**body.model_dump(), by=principal.name)
        hypothesis_id, queued_id = await deps.submitter.propose(wanted)
        response.headers["Location"] = f"/api/hypotheses/{hypothesis_id}"
        made = msgspec.structs.asdict(await deps.reading.hypothesis(hypothesis_id))
        if body.enable_ideation:
            return ProposedHypothesis(**made, ideation_request_id=queued_id)
        return ProposedHypothesis(**made, run_id=queued_id)

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[HypothesisRow]:
        return await deps.reading.hypotheses(wanted.limit, wanted.after)

    @routes.get("/{hypothesis_id}")
    async def one(hypothesis_id: str, _: MayRead) -> Hypothesis:
        return await deps.reading.hypothesis(hypothesis_id)

    @routes.post("/{hypothesis_id}/runs", status_code=201)
    async def launch(hypothesis_id: str, body: Launch, principal: MaySubmit, response: Response) -> Run:
        submitted = await deps.submitter.launch(
            hypothesis_id, by=principal.name, spec=body.spec, idea_index=body.idea_index
        )
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await deps.reading.submitted(submitted)

    return routes
