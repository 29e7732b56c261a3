"""Hypotheses over HTTP: propose, read, run again."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from control_plane.access.audit_log import add_details
from control_plane.kinds.ideation.proposing import NewHypothesis, Proposer, WantedLaunch
from control_plane.kinds.ideation.reads import HypothesisReads
from control_plane.server.api.contract.bodies import (
    WHOLE,
    ShortText,
    StartOptionsBody,
    Storable,
    Text,
)
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayDelete, MayRead, MaySubmit, Page
from control_plane.server.deps import Deps
from control_plane.upkeep.keeping.deleter import deleted_in_words
from events.answers.access.keeping import Deletion, Tombstone
from events.answers.answer import Listing
from events.answers.kinds.hypotheses import Hypothesis, HypothesisRow, ProposedHypothesis
from events.answers.runs import Run

Json = dict[str, Any]


class NewHypothesisBody(StartOptionsBody):
    """A hypothesis; `idea` is text or its seven fields, `spec` sets more of the run it queues.

    The options are those of what it queues: its run, or its ideation. `max_cost_usd` and `max_tokens` limit
    its ideation; those of a run are in `spec`.
    """

    title: Annotated[ShortText, Storable]
    idea: Annotated[Text | dict[str, Any], Storable]
    enable_ideation: bool = False
    reflections: Annotated[int, Field(ge=1, le=10), WHOLE] = 3
    max_num_generations: Annotated[int, Field(ge=1, le=20), WHOLE] = 5
    additional_context: Annotated[str, StringConstraints(max_length=20_000), Storable] = ""
    max_cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**53), WHOLE] | None = None
    spec: Json = Field(default_factory=dict)


class Launch(StartOptionsBody):
    """Another run of a hypothesis, of the idea of this number; without one, of the idea chosen before."""

    idea_index: Annotated[int, Field(ge=0), WHOLE] | None = None
    spec: Json = Field(default_factory=dict)


def router(deps: Deps, reads: HypothesisReads, proposer: Proposer) -> APIRouter:
    """Return the routes below `/api/hypotheses`."""
    routes = Routes(prefix="/api/hypotheses", tags=["hypotheses"])

    @routes.post("", status_code=201)
    async def propose(
        body: NewHypothesisBody, principal: MaySubmit, response: Response
    ) -> ProposedHypothesis:
        wanted = NewHypothesis(**body.model_dump(), by=principal.name)
        hypothesis_id, queued_id = await proposer.propose(wanted)
        response.headers["Location"] = f"/api/hypotheses/{hypothesis_id}"
        made = msgspec.structs.asdict(await reads.one(hypothesis_id))
        if body.enable_ideation:
            return ProposedHypothesis(**made, ideation_request_id=queued_id)
        return ProposedHypothesis(**made, run_id=queued_id)

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[HypothesisRow]:
        return await reads.page(wanted.limit, wanted.after)

    @routes.get("/{hypothesis_id}")
    async def one(hypothesis_id: str, _: MayRead) -> Hypothesis:
        return await reads.one(hypothesis_id)

    @routes.get("/{hypothesis_id}/deletion")
    async def deletion(hypothesis_id: str, _: MayRead) -> Deletion:
        return await deps.deleter.preview_hypothesis(hypothesis_id)

    @routes.delete("/{hypothesis_id}")
    async def delete(hypothesis_id: str, principal: MayDelete, request: Request) -> Tombstone:
        found = await deps.deleter.delete_hypothesis(hypothesis_id, by=f"user:{principal.name}")
        add_details(request, deleted_in_words(found))
        return found

    @routes.post("/{hypothesis_id}/runs", status_code=201)
    async def launch(hypothesis_id: str, body: Launch, principal: MaySubmit, response: Response) -> Run:
        submitted = await proposer.launch(
            WantedLaunch(**body.model_dump(), hypothesis_id=hypothesis_id, by=principal.name)
        )
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await deps.reading.submitted(submitted)

    return routes
