"""The audit log: in pages, and as a complete export in NDJSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from control_plane.model.views.document_mapping import from_document
from control_plane.reads.paging import LIMIT_DEFAULT
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.fleet import MaySteer
from control_plane.server.deps import Deps
from events.answers.access.audit_log import AuditEntry
from events.answers.answer import Listing

Word = Annotated[str | None, Field(min_length=1, max_length=300, pattern=r"^[^\x00]*$")]

EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
}


class AuditFilters(BaseModel):
    """The filters of entries; `object` is for example `run/<id>`, `key` the id of a key."""

    by: Word = None
    key: Word = None
    object: Word = None
    action: Word = None

    def stored(self) -> dict[str, str]:
        """Return the filters by the names of the stored fields."""
        filters = {"by": self.by, "keyId": self.key, "object": self.object, "action": self.action}
        return {name: value for name, value in filters.items() if value is not None}


class AuditPage(AuditFilters):
    """A page of entries."""

    limit: int = LIMIT_DEFAULT
    after: str | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/audit`."""
    routes = Routes(prefix="/api/audit", tags=["audit"])

    @routes.get("")
    async def page(_: MaySteer, wanted: Annotated[AuditPage, Query()]) -> Listing[AuditEntry]:
        return await deps.reading.audit_log(wanted.stored(), wanted.limit, wanted.after)

    @routes.get("/export", response_class=StreamingResponse, responses=EXPORT)
    async def export(_: MaySteer, wanted: Annotated[AuditFilters, Query()]) -> StreamingResponse:
        """Return every entry, the oldest first, one JSON object per line."""

        async def lines() -> AsyncIterator[bytes]:
            async for entry in deps.audit_log.all(wanted.stored()):
                yield msgspec.json.encode(from_document(AuditEntry, entry)) + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return routes
