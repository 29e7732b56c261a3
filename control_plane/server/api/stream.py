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
from control_plane.live.change_feed import LISTS, News
from control_plane.live.reporter import PART_MAX, Report, Reporter, Said
from control_plane.server.api.runs import MayRead
from control_plane.server.deps import Deps

PAUSE_S: Final = 0.1
IDLE_S: Final = 10.0
RETRY_MS: Final = 1_000
RUNS_MAX: Final = 200

STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}

Since = Annotated[str | None, Header(alias="Last-Event-ID", max_length=2_000)]
Show = Callable[[Report], str]
Run = Annotated[list[str] | None, Query(max_length=RUNS_MAX)]


def router(deps: Deps) -> APIRouter:
    """Return the route `/api/stream`."""
    routes = APIRouter(tags=["stream"])

    def room() -> None:
        for feed in (deps.feed, deps.log_feed):
            feed.require_room()  # before the answer begins: then it can still say no

    @routes.get(
        "/api/stream", response_class=StreamingResponse, responses=STREAM, dependencies=[Depends(room)]
    )
    async def stream(
        request: Request, _: MayRead, run: Run = None, last_event_id: Since = None
    ) -> EventSourceResponse:
        """Send `run` and `event` of the requested runs; else every `run`, and hints of other changes.

        A `reset` says that changes were lost: the reader has to read again. `at` is where to resume.
        """
        wanted = LISTS if not run else frozenset(f"{kind}/{each}" for each in run for kind in ("run", "log"))
        return streamed(messages(deps, request, wanted, last_event_id, _whole))

    return routes


def streamed(said: AsyncIterator[bytes]) -> EventSourceResponse:
    """Return the answer, as bytes, since FastAPI would encode each event for each reader."""
    return EventSourceResponse(said, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


async def messages(
    deps: Deps,
    request: Request,
    wanted: frozenset[str],
    since: str | None,
    show: Show,
) -> AsyncIterator[bytes]:
    """Yield the stream of a reader of these topics: each report as `show` renders it, and its new position.

    Ends as soon as the reader has no permission any more.
    """
    headers = dict(request.headers)
    async for news in deps.feed_of(wanted).follow(wanted, since, pause_s=PAUSE_S, idle_s=IDLE_S):
        if not await is_still_admitted(request, headers, "read"):
            return
        if len(news.changes) <= PART_MAX:
            yield await _shared(deps.reporter, news, show)
            continue
        async for said in deps.reporter.say(news):  # too much to keep for whoever else hears it
            yield _text(news, said, show)


async def _shared(reporter: Reporter, news: News, show: Show) -> bytes:
    """Return the text of news, which is made once for all readers."""
    task = news.texts.get(show)
    if task is None:
        task = news.texts[show] = asyncio.create_task(_one(reporter, news, show))
        task.add_done_callback(seen)
    return task.result() if task.done() else await asyncio.shield(task)


async def _one(reporter: Reporter, news: News, show: Show) -> bytes:
    return b"".join([_text(news, said, show) async for said in reporter.say(news)])


def _text(news: News, said: Said, show: Show) -> bytes:
    events = [format_sse_event(event=each.name, data_str=show(each)) for each in said.reports]
    name = "reset" if news.is_reset else "at"
    place = format_sse_event(event=name, data_str="{}", id=said.place, retry=RETRY_MS)
    return b"".join((*events, place))


def _whole(report: Report) -> str:
    return report.text
