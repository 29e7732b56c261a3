"""Archives of runs: a run that has ended as one file, which another fleet can take."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps
from control_plane.server.http.received_file import received
from events.answers.access.keeping import ArchivedRun
from events.runtime.errors import Transient

TAR: Final = "application/x-tar"
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
        "description": "The archive of the run",
    }
}
BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
AT_ONCE_MAX: Final = 2  # imports of one process: each is read twice, and holds what a run takes in memory


def router(deps: Deps) -> APIRouter:
    """Return the routes of archives."""
    routes = Routes(tags=["archives"])

    @routes.get("/api/runs/{run_id}/archive", response_class=StreamingResponse, responses=FILE)
    async def archive(run_id: str, _: MayRead, artifacts: bool = True) -> StreamingResponse:
        exporter = deps.exporter
        opened = await exporter.open(run_id, has_artifacts=artifacts)
        headers = {"Content-Disposition": f'attachment; filename="{run_id}.tar"'}
        return StreamingResponse(exporter.written(opened), media_type=TAR, headers=headers)

    importer, turns = deps.importer, asyncio.Semaphore(AT_ONCE_MAX)

    @routes.post(
        "/api/archives",
        status_code=201,
        responses={200: {"description": "The run is there already, and is the same"}},
        openapi_extra=BODY,
    )
    async def take(request: Request, principal: MaySteer, response: Response) -> ArchivedRun:
        if turns.locked():
            raise Transient("busy", "other archives are being imported here; send it again later")
        async with turns, received(request) as file:
            imported = await importer.take(file, by=principal.name)
        response.status_code = 201 if imported.is_new else 200
        response.headers["Location"] = f"/api/runs/{imported.run.run_id}"
        told = imported.run.run
        return ArchivedRun(id=imported.run.run_id, kind=told["kind"], status=told["status"])

    return routes
