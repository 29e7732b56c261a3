"""Ingest over HTTP: one event, a standard batch, or NDJSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from control_plane.access.auth import Principal, require, sender_of
from control_plane.log.admission import Admission
from control_plane.log.ingest import Ingestor, Sender
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.http.bodies import UnsupportedMedia, read_body
from control_plane.server.metrics import EVENTS, REFUSED
from events.codec import Decoded, Refusal, decode_batch, decode_binary, decode_ndjson, decode_structured

NDJSON: Final = "application/x-ndjson"
BATCH: Final = "application/cloudevents-batch+json"
STRUCTURED: Final = "application/cloudevents+json"
PLAIN_JSON: Final = "application/json"

May = Annotated[Principal, Depends(require("ingest"))]


def router(ingestor: Ingestor, admission: Admission) -> APIRouter:
    """Return the two routes of ingest."""
    routes = Routes(tags=["ingest"])

    async def slot(request: Request, principal: May) -> AsyncIterator[None]:
        sender = sender_of(request, principal)
        await admission.wait_for_room(sender)
        with admission.slot(sender) as slot:
            request.state.acquire_slot = slot.acquire_large
            yield

    one_slot = [Depends(slot)]

    @routes.post("/api/ingest/event", status_code=202, dependencies=one_slot)
    async def event(request: Request, principal: May) -> JSONResponse:
        body = await _body(request)
        media = _media(request)
        if media == STRUCTURED or (media == PLAIN_JSON and "ce-specversion" not in request.headers):
            outcome = decode_structured(body)
        elif media.startswith("application/cloudevents"):
            raise _unsupported(media, STRUCTURED, PLAIN_JSON, "binary mode (ce-* headers)")
        elif "ce-specversion" in request.headers or "ce-id" in request.headers:
            outcome = decode_binary(request.headers.items(), body)
        else:
            raise _unsupported(media, STRUCTURED, PLAIN_JSON, "binary mode (ce-* headers)")
        unreadable = isinstance(outcome, Refusal) and outcome.code == "bad_json"
        return await _take([Decoded(1, body, outcome)], principal, nothing_valid=400 if unreadable else 422)

    @routes.post("/api/ingest/events", status_code=202, dependencies=one_slot)
    async def events(request: Request, principal: May) -> JSONResponse:
        body = await _body(request)
        match _media(request):
            case media if media == NDJSON:
                return await _take(decode_ndjson(body), principal)
            case media if media == BATCH:
                return await _take(decode_batch(body), principal)
            case media:
                raise _unsupported(media, NDJSON, BATCH)

    async def _take(lines: Sequence[Decoded], principal: Principal, nothing_valid: int = 422) -> JSONResponse:
        sender = Sender(
            principal.name,
            may_decide="admin" in principal.scopes,
            attempt=principal.attempt,
            key_id=principal.key_id,
        )
        answer = await ingestor.take(lines, sender)
        EVENTS.labels("accepted").inc(answer.accepted)
        EVENTS.labels("duplicate").inc(answer.duplicates)
        EVENTS.labels("rejected").inc(len(answer.rejected))
        for refused in answer.rejected:
            REFUSED.labels(refused.code).inc()
        body = {
            "accepted": answer.accepted,
            "duplicates": answer.duplicates,
            "rejected": [asdict(refused) for refused in answer.rejected],
            "unknown": answer.unknown,
            "ackedThrough": answer.acked_through,
            "fenced": answer.fenced,
            "canceling": answer.canceling,
            "steered": answer.steered,
        }
        if not answer.rejected:
            return JSONResponse(body, 202)
        return JSONResponse(body, 207 if answer.accepted + answer.duplicates else nothing_valid)

    return routes


async def _body(request: Request) -> bytes:
    # A second header of the same name would hide a second layer of encoding.
    encoding = ", ".join(request.headers.getlist("content-encoding")) or None
    return await read_body(
        request.stream(),
        encoding=encoding,
        content_length=request.headers.get("content-length"),
        acquire_slot=request.state.acquire_slot,
    )


def _media(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unsupported(media: str, *accepted: str) -> UnsupportedMedia:
    message = f"Content-Type {media or 'missing'!r}; this route reads {', '.join(accepted)}"
    return UnsupportedMedia("unsupported_media_type", message)
