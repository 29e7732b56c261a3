"""Live text of a run from its pod: one request whose body goes on, a line of JSON for each piece.

Law: lines are bounded, and read as they come. A pod that sends more than a run may show loses what is over,
and learns how much. The limits on all bodies hold for this one too: a pod sends one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException

from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.files.artifacts import owner_of
from control_plane.server.deps import Deps
from control_plane.server.http.body_limit import LAST
from control_plane.store.log.live_texts import StoredPiece
from events.answers.worker.live_text import LivePiece, LiveTaken
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId

LINE_BYTES_MAX: Final = 32 * 1024
NDJSON: Final = "application/x-ndjson"
_decoder: Final = msgspec.json.Decoder(LivePiece)


def router(deps: Deps) -> APIRouter:
    """Return the route by which pods send live text."""
    routes = Routes(tags=["runs"])
    texts = deps.live.texts

    @routes.post("/api/runs/{run_id}/live")
    async def take(run_id: str, request: Request, attempt: int = Depends(owner_of(deps))) -> LiveTaken:
        """Take pieces as they come, each for whoever looks at the run now; no run is written."""
        found = await deps.runs.find(run_id)
        group_id = None if found is None else found.run.group_id
        try:
            async with asyncio.timeout(None) as limit:
                with texts.sending(AttemptId(run_id, attempt), group_id, limit) as sender:
                    number = 0
                    async for line in lines(request.stream()):
                        number += 1
                        if line.strip() and texts.may_take(sender, len(line)):
                            piece = read_piece(line, number)
                            texts.put(
                                sender,
                                StoredPiece(
                                    run=run_id,
                                    attempt=attempt,
                                    lap=piece.lap,
                                    offset=piece.offset,
                                    text=piece.text,
                                    values=piece.values,
                                    group=group_id,
                                ),
                            )
        except TimeoutError:
            raise HTTPException(
                503, "live text of this run goes elsewhere now; send it again", LAST
            ) from None
        return LiveTaken(taken=sender.taken, dropped=sender.dropped)

    return routes


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield each line as soon as it is whole. Raises `Rejected` for one that is too long."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            _require_short(line)
            yield line
        _require_short(rest)
    if rest:
        yield rest


def _require_short(line: bytes) -> None:
    if len(line) > LINE_BYTES_MAX:
        raise Rejected(
            "line_too_long", f"a line has over {LINE_BYTES_MAX:,} bytes: send a text in several pieces"
        )


def read_piece(line: bytes, number: int) -> LivePiece:
    """Return the piece in a line. Raises `Rejected` that names the line."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        form = '{"lap": 1, "offset": 0, "text": "...", "values": {"tokens": 3}}'
        raise Rejected("bad_live_text", f"line {number} is no piece such as {form}: {error}") from error
