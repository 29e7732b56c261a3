"""The live stream: server-sent events of what changes, resumed at any replica."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from control_plane.api.runs import MayRead
from control_plane.auth import is_still_admitted
from control_plane.deps import Deps
from control_plane.live import LISTS
from control_plane.reporter import Report

PAUSE_S: Final = 0.25
IDLE_S: Final = 10.0
RETRY_MS: Final = 1_000
RUNS_MAX: Final = 200

Since = Annotated[str | None, Header(alias="Last-Event-ID", max_length=2_000)]
Run = Annotated[list[str] | None, Query(max_length=RUNS_MAX)]


def router(deps: Deps) -> APIRouter:
    """Return the route `/api/stream`."""
    routes = APIRouter(tags=["stream"])

    def room() -> None:
        deps.hub.require_room()  # before the answer begins: then it can still say no

    @routes.get("/api/stream", response_class=EventSourceResponse, dependencies=[Depends(room)])
    async def stream(
        request: Request, _: MayRead, run: Run = None, last_event_id: Since = None
    ) -> AsyncIterator[ServerSentEvent]:
        """Yield `run` and `event` of the runs asked for, else every `run` and hints of what else changed.

        A `reset` where changes were lost: whoever reads has to look anew. `at` carries the place to resume.
        """
        wanted = LISTS if not run else frozenset(f"{kind}/{each}" for each in run for kind in ("run", "log"))
        async for said in told(deps, request, wanted, last_event_id, lambda report: report.data):
            yield said

    return routes


async def told(
    deps: Deps,
    request: Request,
    wanted: frozenset[str],
    since: str | None,
    show: Callable[[Report], Mapping[str, Any]],
) -> AsyncIterator[ServerSentEvent]:
    """Yield what a reader of these topics is sent: each report as `show` gives it, and its new place.

    Ends as soon as the reader may read no more.
    """
    async for news in deps.hub.follow(wanted, since, pause_s=PAUSE_S, idle_s=IDLE_S):
        if not await is_still_admitted(request, "read"):
            return
        for report in await deps.reporter.say(news):
            yield ServerSentEvent(event=report.name, data=show(report))
        yield ServerSentEvent(
            event="reset" if news.is_reset else "at", data={}, id=news.token, retry=RETRY_MS
        )
