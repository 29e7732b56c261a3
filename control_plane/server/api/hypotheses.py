"""Hypotheses: create, read, launch runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from control_plane.runs.submission import NewHypothesis
from control_plane.server.api.contract.answers import Items
from control_plane.server.api.contract.bodies import Launch, NewHypothesisBody
from control_plane.server.api.runs import MayRead, MaySubmit, Page
from control_plane.server.deps import Deps

Json = dict[str, Any]


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/hypotheses`."""
    routes = APIRouter(prefix="/api/hypotheses", tags=["hypotheses"])

    @routes.post("", status_code=201)
    async def propose(body: NewHypothesisBody, principal: MaySubmit, response: Response) -> Json:
        wanted = NewHypothesis(**body.model_dump(), by=principal.name)
        hypothesis_id, queued_id = await deps.submitter.propose(wanted)
        response.headers["Location"] = f"/api/hypotheses/{hypothesis_id}"
        queued = "ideation_request_id" if body.enable_ideation else "run_id"
        return {**await deps.reading.hypothesis(hypothesis_id), queued: queued_id}

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Items:
        return await deps.reading.hypotheses(wanted.limit, wanted.after)

    @routes.get("/{hypothesis_id}")
    async def one(hypothesis_id: str, _: MayRead) -> Json:
        return await deps.reading.hypothesis(hypothesis_id)

    @routes.post("/{hypothesis_id}/runs", status_code=201)
    async def launch(hypothesis_id: str, body: Launch, principal: MaySubmit, response: Response) -> Json:
        submitted = await deps.submitter.launch(
            hypothesis_id, by=principal.name, spec=body.spec, idea_index=body.idea_index
        )
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await deps.reading.submitted(submitted)

    return routes
