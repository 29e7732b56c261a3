"""The live stream: server-sent events of changes, which can be resumed at any replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event

from control_plane.access.auth import is_still_admitted
from control_plane.concurrency.singleflight import seen
from control_plane.live.broadcaster import BATCH_MAX, Broadcaster, Message, MessageBatch
from control_plane.live.change_feed import LISTS, News
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps

PAUSE_S: Final = 0.1
IDLE_S: Final = 10.0
RETRY_MS: Final = 1_000
RUNS_MAX: Final = 200

STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}

Since = Annotated[str | None, Header(alias="Last-Event-ID", max_length=2_000)]
Show = Callable[[Message], str]
Run = Annotated[list[str] | None, Query(max_length=RUNS_MAX)]


def router(deps: Deps) -> APIRouter:
    """Return the route `/api/stream`."""
    routes = Routes(tags=["stream"])

    def check_capacity() -> None:
        for feed in (deps.feed, deps.log_feed):
            feed.require_capacity()  # before the answer begins: then it can still say no

    @routes.get(
        "/api/stream",
        response_class=StreamingResponse,
        responses=STREAM,
        dependencies=[Depends(check_capacity)],
    )
    async def stream(
        request: Request, _: MayRead, run: Run = None, last_event_id: Since = None
    ) -> EventSourceResponse:
        """Send `run` and `event` of the requested runs; else every `run`, and hints of other changes.

        A `reset` says that changes were lost: the reader has to read again. `at` is where to resume.
        """
        wanted = LISTS if not run else frozenset(f"{kind}/{each}" for each in run for kind in ("run", "log"))
        return streamed(encoded(deps, request, wanted, last_event_id, _whole))

    return routes


def streamed(body: AsyncIterator[bytes]) -> EventSourceResponse:
    """Return the answer, as bytes, since FastAPI would encode each event for each reader."""
    return EventSourceResponse(body, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


async def encoded(
    deps: Deps,
    request: Request,
    wanted: frozenset[str],
    since: str | None,
    show: Show,
) -> AsyncIterator[bytes]:
    """Yield the stream of a reader of these topics: each message as `show` renders it, and its new position.

    Ends as soon as the reader has no permission any more.
    """
    headers = dict(request.headers)
    async for news in deps.feed_of(wanted).follow(wanted, since, pause_s=PAUSE_S, idle_s=IDLE_S):
        if not await is_still_admitted(request, headers, "read"):
            return
        if len(news.changes) <= BATCH_MAX:
            yield await _shared(deps.broadcaster, news, show)
            continue
        async for batch in deps.broadcaster.batches(news):  # too much to keep for whoever else hears it
            yield _text(news, batch, show)


async def _shared(broadcaster: Broadcaster, news: News, show: Show) -> bytes:
    """Return the text of news, which is made once for all readers."""
    task = news.texts.get(show)
    if task is None:
        task = news.texts[show] = asyncio.create_task(_one(broadcaster, news, show))
        task.add_done_callback(seen)
    return task.result() if task.done() else await asyncio.shield(task)


async def _one(broadcaster: Broadcaster, news: News, show: Show) -> bytes:
    return b"".join([_text(news, batch, show) async for batch in broadcaster.batches(news)])


def _text(news: News, batch: MessageBatch, show: Show) -> bytes:
    events = [format_sse_event(event=each.name, data_str=show(each)) for each in batch.messages]
    name = "reset" if news.is_reset else "at"
    place = format_sse_event(event=name, data_str="{}", id=batch.place, retry=RETRY_MS)
    return b"".join((*events, place))


def _whole(message: Message) -> str:
    return message.text
