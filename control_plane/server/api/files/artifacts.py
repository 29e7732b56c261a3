"""Artifacts: signed URLs for people and for workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import RedirectResponse

from control_plane.access.auth import Forbidden, Principal, require
from control_plane.files.object_keys import is_key
from control_plane.model.result_replication import asked_by, pods_until
from control_plane.model.views.document_mapping import from_document
from control_plane.runs.explainer import cheapest
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.deps import Deps
from control_plane.store.queue.groups import Groups
from events.answers.answer import Listing
from events.answers.artifacts import Artifact
from events.answers.worker.uploads import Checkpoint, Checkpoints, SignedFile
from events.runtime.errors import Conflict

MayIngest = Annotated[Principal, Depends(require("ingest"))]


def router(deps: Deps) -> APIRouter:
    """Return the routes of artifacts."""
    routes = Routes(tags=["artifacts"])

    @routes.get("/api/runs/{run_id}/artifacts")
    async def page(run_id: str, _: MayRead, wanted: Annotated[Page, Query()]) -> Listing[Artifact]:
        return await deps.reading.artifacts(run_id, wanted.limit, wanted.after)

    @routes.get("/api/artifacts/{artifact_id:path}", status_code=302)
    async def download(artifact_id: str, _: MayRead) -> RedirectResponse:
        await deps.deleter.require_kept(artifact_id.partition("/")[0])
        artifact = await deps.reading.artifact(artifact_id)
        await deps.retainer.require_kept(artifact_id.partition("/")[0], artifact.name)
        await deps.inspector.require(artifact.name, artifact.key, artifact.size, artifact.sha256)
        url = await deps.blobs.get_url(artifact.key, name=artifact.name, content_type=artifact.content_type)
        return RedirectResponse(url, 302)

    own = owner_of(deps)

    @routes.post("/api/runs/{run_id}/artifacts/checkpoints")
    async def checkpoints(run_id: str, attempt: int = Depends(own)) -> Checkpoints:
        found = await deps.reading.checkpoints(run_id, attempt)
        made = await deps.reading.attempts(run_id)

        async def signed(artifact: Mapping[str, Any]) -> SignedFile:
            url = await deps.blobs.get_url(artifact["key"], name=artifact["name"])
            return from_document(SignedFile, artifact, url=url)

        return Checkpoints(
            checkpoints=[
                Checkpoint(
                    name=str(each.name),
                    run_id=each.run_id,
                    attempt=each.attempt,
                    pods=pods_until(made, each.attempt) if each.run_id == run_id else [],
                    manifest=await signed(each.manifest),
                    files=[await signed(file) for file in each.files],
                )
                for each in found
                if all(is_key(file["key"]) for file in (each.manifest, *each.files))
            ],
            replication_asked=bool(asked_by(made, attempt)),
            told=await deps.reading.told(run_id),
            spent_usd=await deps.ledgers.spent(run_id, attempt),
            cheapest_usd=await cheapest_usd(deps, run_id),
        )

    return routes


async def cheapest_usd(deps: Deps, run_id: str) -> float | None:
    """Return the price of the cheapest pod that could take a run with a budget; None where none is known."""
    budgets = await Groups(deps.db).budgets([run_id])
    found = None if budgets.get(run_id) is None else await deps.runs.find(run_id)
    return None if found is None else await cheapest(deps.reading, found.run.class_key)


def owner_of(deps: Deps) -> Callable[..., Awaitable[int]]:
    """Return the dependency that finds the attempt for which a request may register files."""

    async def own(run_id: str, principal: MayIngest) -> int:
        """Return the attempt of a run token, as long as no later attempt has the run.

        It holds the run, or has settled and its log is not complete yet, and its key was not revoked. Raises
        `Forbidden`, `Conflict`.
        """
        if principal.attempt is None or principal.attempt.run_id != run_id:
            raise Forbidden("foreign_run", f"send the run token that the claim of run {run_id} gave")
        attempt = principal.attempt.attempt
        found = await deps.runs.find(run_id)
        if found is not None and found.run.is_of(attempt):
            await deps.key_ring.require_unrevoked(found.run.token_of(attempt))
            return attempt
        raise Conflict("lease_lost", f"attempt {attempt} of run {run_id} is over, or belongs to another pod")

    return own
