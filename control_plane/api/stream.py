"""The live stream: server-sent events of what changes, resumed at any replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event

from control_plane.api.runs import MayRead
from control_plane.auth import is_still_admitted
from control_plane.deps import Deps
from control_plane.live import LISTS
from control_plane.reporter import Report

PAUSE_S: Final = 0.25
IDLE_S: Final = 10.0
RETRY_MS: Final = 1_000
RUNS_MAX: Final = 200

STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}

Since = Annotated[str | None, Header(alias="Last-Event-ID", max_length=2_000)]
Run = Annotated[list[str] | None, Query(max_length=RUNS_MAX)]


def router(deps: Deps) -> APIRouter:
    """Return the route `/api/stream`."""
    routes = APIRouter(tags=["stream"])

    def room() -> None:
        for hub in (deps.hub, deps.log_hub):
            hub.require_room()  # before the answer begins: then it can still say no

    @routes.get(
        "/api/stream", response_class=StreamingResponse, responses=STREAM, dependencies=[Depends(room)]
    )
    async def stream(
        request: Request, _: MayRead, run: Run = None, last_event_id: Since = None
    ) -> EventSourceResponse:
        """Send `run` and `event` of the runs asked for, else every `run` and hints of what else changed.

        A `reset` where changes were lost: whoever reads has to look anew. `at` carries the place to resume.
        """
        wanted = LISTS if not run else frozenset(f"{kind}/{each}" for each in run for kind in ("run", "log"))
        return streamed(told(deps, request, wanted, last_event_id, lambda report: report.text))

    return routes


def streamed(said: AsyncIterator[bytes]) -> EventSourceResponse:
    """Return the answer; given away as bytes, since FastAPI would encode each event for each reader."""
    return EventSourceResponse(said, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


async def told(
    deps: Deps,
    request: Request,
    wanted: frozenset[str],
    since: str | None,
    show: Callable[[Report], str],
) -> AsyncIterator[bytes]:
    """Yield what a reader of these topics is sent: each report as `show` gives it, and its new place.

    Ends as soon as the reader may read no more.
    """
    async for news in deps.hub_of(wanted).follow(wanted, since, pause_s=PAUSE_S, idle_s=IDLE_S):
        if not await is_still_admitted(request, "read"):
            return
        async for said in deps.reporter.say(news):
            events = [format_sse_event(event=each.name, data_str=show(each)) for each in said.reports]
            name = "reset" if news.is_reset else "at"
            place = format_sse_event(event=name, data_str="{}", id=said.place, retry=RETRY_MS)
            yield b"".join((*events, place))
