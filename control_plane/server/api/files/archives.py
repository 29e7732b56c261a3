"""Archives of runs: a run that has ended as one file."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps

TAR: Final = "application/x-tar"
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
        "description": "The archive of the run",
    }
}


def router(deps: Deps) -> APIRouter:
    """Return the routes of archives."""
    routes = Routes(tags=["archives"])

    @routes.get("/api/runs/{run_id}/archive", response_class=StreamingResponse, responses=FILE)
    async def archive(run_id: str, _: MayRead, artifacts: bool = True) -> StreamingResponse:
        exporter = deps.exporter
        opened = await exporter.open(run_id, has_artifacts=artifacts)
        headers = {"Content-Disposition": f'attachment; filename="{run_id}.tar"'}
        return StreamingResponse(exporter.written(opened), media_type=TAR, headers=headers)

    return routes
