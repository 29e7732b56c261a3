"""Artifacts: where they are, and how a worker puts them there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import RedirectResponse

from control_plane.api.models import ArtifactBodies, ArtifactBody, CompletedArtifact
from control_plane.api.runs import MayRead, Page
from control_plane.auth import Forbidden, Principal, require
from control_plane.deps import Deps
from control_plane.projection import artifact_prefix
from events.errors import Conflict, Rejected

Json = dict[str, Any]
MayIngest = Annotated[Principal, Depends(require("ingest"))]

# What a browser may show in place; everything else is a download.
INLINE: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})


def router(deps: Deps) -> APIRouter:
    """Return the routes of artifacts."""
    routes = APIRouter(tags=["artifacts"])

    @routes.get("/api/runs/{run_id}/artifacts")
    async def page(run_id: str, _: MayRead, wanted: Annotated[Page, Query()]) -> Json:
        return await deps.reading.artifacts(run_id, wanted.limit, wanted.after)

    @routes.get("/api/artifacts/{artifact_id:path}", status_code=302)
    async def download(artifact_id: str, _: MayRead) -> RedirectResponse:
        artifact = await deps.reading.artifact(artifact_id)
        inline = artifact["contentType"] in INLINE
        url = await deps.blobs.get_url(artifact["key"], name=artifact["name"], inline=inline)
        return RedirectResponse(url, 302)

    own = owner_of(deps)

    async def signed_puts(run_id: str, attempt: int, files: Sequence[ArtifactBody]) -> list[Json]:
        keys = [artifact_key(run_id, attempt, each) for each in files]
        urls = await deps.blobs.put_urls(keys)
        signed = zip(keys, urls, strict=True)
        return [{"key": key, "url": url, "headers": {}, "upload_id": None} for key, url in signed]

    @routes.post("/api/runs/{run_id}/artifacts/presign")
    async def presign(run_id: str, body: ArtifactBody, attempt: int = Depends(own)) -> Json:
        return (await signed_puts(run_id, attempt, [body]))[0]

    @routes.post("/api/runs/{run_id}/artifacts/presign/many")
    async def presign_many(run_id: str, body: ArtifactBodies, attempt: int = Depends(own)) -> Json:
        return {"files": await signed_puts(run_id, attempt, body.files)}

    @routes.post("/api/runs/{run_id}/artifacts/complete")
    async def complete(run_id: str, body: CompletedArtifact, attempt: int = Depends(own)) -> Json:
        if body.key != artifact_key(run_id, attempt, body):
            raise Rejected("foreign_key", "the key is not the one that was signed for this file")
        size = await deps.blobs.size(body.key)
        if size != body.size:
            found = "nothing" if size is None else f"{size} bytes"
            raise Rejected("artifact_missing", f"storage holds {found} at {body.key}, not {body.size} bytes")
        return {"key": body.key, "size": size, "sha256": body.sha256}

    @routes.post("/api/runs/{run_id}/artifacts/checkpoints")
    async def checkpoints(run_id: str, attempt: int = Depends(own)) -> Json:
        found = await deps.reading.checkpoints(run_id, attempt)

        async def signed(artifact: Mapping[str, Any]) -> Json:
            url = await deps.blobs.get_url(artifact["key"], name=artifact["name"], inline=False)
            return {**{name: artifact[name] for name in ("name", "size", "sha256")}, "url": url}

        return {
            "checkpoints": [
                {
                    "name": each.name,
                    "runId": each.run_id,
                    "attempt": each.attempt,
                    "manifest": await signed(each.manifest),
                    "files": [await signed(file) for file in each.files],
                }
                for each in found
            ]
        }

    return routes


def owner_of(deps: Deps) -> Callable[..., Awaitable[int]]:
    """Return what finds out for which attempt somebody may keep files."""

    async def own(run_id: str, principal: MayIngest) -> int:
        """Return the attempt for which a run token speaks, as long as nobody has the run after it.

        It holds the run, or has settled and its log is still on its way. Raises `Forbidden`, `Conflict`.
        """
        if principal.attempt is None or principal.attempt[0] != run_id:
            raise Forbidden("foreign_run", f"send the run token that the claim of run {run_id} gave")
        attempt = principal.attempt[1]
        found = await deps.runs.find(run_id)
        if found is not None and found.run.is_of(attempt):
            return attempt
        raise Conflict("lease_lost", f"attempt {attempt} of run {run_id} is over, or another's by now")

    return own


def artifact_key(run_id: str, attempt: int, body: ArtifactBody) -> str:
    """Return the only key under which this content may be kept. Raises `Rejected` for a bad name."""
    parts = PurePosixPath(body.name).parts
    if "\\" in body.name or not body.name.isprintable() or ".." in parts or "/".join(parts) != body.name:
        raise Rejected("bad_name", f"{body.name!r} is no relative path")
    return f"{artifact_prefix(run_id, attempt)}{body.sha256[:16]}/{body.name}"
