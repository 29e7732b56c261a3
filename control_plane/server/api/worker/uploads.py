"""Uploads of a run's files by its worker to storage, whole or in parts."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Depends

from control_plane.files.blobs import storage_call
from control_plane.files.multipart import PART_BYTES_MIN, Cutting
from control_plane.files.signing import Content
from control_plane.model.projection import artifact_prefix
from control_plane.server.api.contract.bodies import (
    ArtifactBodies,
    CompletedArtifact,
    SoughtArtifact,
    UploadTest,
)
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.files.artifacts import owner_of
from control_plane.server.api.worker.claims import MayClaim, require_pod
from control_plane.server.deps import Deps
from events.answers.worker.uploads import CompletedUpload, SignedTest, SignedUpload, SignedUploads, UploadPart
from events.files.object_sizes import PUT_BYTES_MAX
from events.files.paths import BadPath, RunPath
from events.queue.rules import pod_name
from events.runtime.errors import Rejected

TESTS_MAX: Final = 4096  # objects that tests of uploads leave, all in all
HASH_CHARS: Final = 16  # of a hash, in the key of an object


def router(deps: Deps) -> APIRouter:
    """Return the routes of uploads."""
    routes = Routes(tags=["artifacts"])
    own = owner_of(deps)

    async def signed_puts(
        run_id: str, attempt: int, files: Sequence[tuple[str, Content]]
    ) -> list[SignedUpload]:
        await deps.upload_budget.take(run_id, attempt, [(key, content.size) for key, content in files])
        signed = await storage_call(lambda: [deps.blobs.puts.sign(*each) for each in files])
        return [
            SignedUpload(key=key, url=each.url, headers=dict(each.headers), upload_id=None)
            for (key, _), each in zip(files, signed, strict=True)
        ]

    async def parts_of(key: str, cutting: Cutting) -> SignedUpload:
        opened, sizes = await deps.multipart.open(key, cutting), cutting.sizes()
        return SignedUpload(
            key=key,
            url=None,
            headers={},
            upload_id=opened.upload_id,
            part_size=cutting.part_bytes,
            missing=opened.missing,
            parts=[UploadPart(number=each, size=sizes[each], url=url) for each, url in opened.urls.items()],
        )

    @routes.post("/api/runs/{run_id}/artifacts/presign")
    async def presign(run_id: str, body: SoughtArtifact, attempt: int = Depends(own)) -> SignedUpload:
        key, cutting = artifact_key(run_id, attempt, body.name, named(body)), cut(body)
        if cutting is None:
            if body.size > PUT_BYTES_MAX:
                raise Rejected("too_large", f"one request holds {PUT_BYTES_MAX:,} bytes: ask for parts")
            return (await signed_puts(run_id, attempt, [(key, Content(body.size, body.sha256))]))[0]
        await deps.upload_budget.take(run_id, attempt, [(key, body.size)])
        return await parts_of(key, cutting)

    @routes.post("/api/runs/{run_id}/artifacts/presign/many")
    async def presign_many(run_id: str, body: ArtifactBodies, attempt: int = Depends(own)) -> SignedUploads:
        files = [
            (
                artifact_key(run_id, attempt, each.name, each.sha256[:HASH_CHARS]),
                Content(each.size, each.sha256),
            )
            for each in body.files
        ]
        return SignedUploads(files=await signed_puts(run_id, attempt, files))

    @routes.post("/api/runs/{run_id}/artifacts/complete")
    async def complete(run_id: str, body: CompletedArtifact, attempt: int = Depends(own)) -> CompletedUpload:
        if body.key != artifact_key(run_id, attempt, body.name, body.upload or body.sha256[:HASH_CHARS]):
            raise Rejected("foreign_key", "the key is not the one that was signed for this file")
        if not await deps.multipart.join(body.key, body.size):
            # Not asked of what was just joined: rclone reads an object whole before it tells its size.
            held = await deps.blobs.version(body.key)
            if held is None or held.size != body.size:
                found = "nothing" if held is None else f"{held.size} bytes"
                missing = f"storage holds {found} at {body.key}, not {body.size} bytes"
                raise Rejected("artifact_missing", missing)
        return CompletedUpload(key=body.key, size=body.size, sha256=body.sha256)

    @routes.post("/api/upload-tests")
    async def sign_test(body: UploadTest, principal: MayClaim) -> SignedTest:
        require_pod(principal, body.pod)
        key, content = object_of_test(body.pod), Content(body.size, body.sha256)
        signed = await storage_call(lambda: deps.blobs.puts.sign_over(key, content))
        return SignedTest(url=signed.url, headers=dict(signed.headers))

    return routes


def object_of_test(pod: str) -> str:
    """Return the key of a pod's test object: one of so many, whatever pods are called."""
    return f".podfleet/uploads/{zlib.crc32(pod_name(pod).encode()) % TESTS_MAX:04d}"


def named(body: SoughtArtifact) -> str:
    """Return what distinguishes this content from others of the same name. Raises `Rejected`."""
    if body.upload is not None and body.parts is None:
        raise Rejected("bad_upload", "a file sent in one piece is named by its sha256: omit upload")
    match body.sha256, body.upload:
        case str(sha256), None:
            return sha256[:HASH_CHARS]
        case None, str(upload):
            return upload
    raise Rejected("bad_upload", "send either sha256 or, for a file in parts, upload")


def cut(body: SoughtArtifact) -> Cutting | None:
    """Return the parts of the file, None for a whole one. Raises `Rejected` for parts that are too small."""
    if body.parts is None:
        return None
    cutting = Cutting(body.size, body.parts)
    if cutting.part_bytes < PART_BYTES_MIN:
        most = body.size // PART_BYTES_MIN
        advice = f"ask for {most} at most" if most > 1 else "leave parts out"
        raise Rejected("bad_parts", f"a part has {PART_BYTES_MIN} bytes at least: {advice}")
    return cutting


def artifact_key(run_id: str, attempt: int, name: str, content: str) -> str:
    """Return the only key at which this content may be stored. Raises `Rejected` for a bad name."""
    try:
        return f"{artifact_prefix(run_id, attempt)}{content}/{RunPath(name)}"
    except BadPath as error:
        raise Rejected("bad_name", error.message) from error
