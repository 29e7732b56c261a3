"""`/live`: changes as rendered parts of pages, each rendered once for all readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse

from control_plane.live.broadcaster import Message
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.api.streams.changes import Since, encoded, streamed
from control_plane.server.web.page_renderer import Site
from events.answers.logs import LoggedEvent
from events.answers.runs import RunRow
from events.formatting import level
from events.queue.requirements import read_class

RENDERED_MAX: Final = 4_000
TOPICS_MAX: Final = 300
TOPIC_CHARS_MAX: Final = 300

Topic = Annotated[list[Annotated[str, Query(max_length=TOPIC_CHARS_MAX)]], Query(max_length=TOPICS_MAX)]


@dataclass(slots=True)
class Pieces:
    """Renders messages as rows of tables, with the facts by which a page filters them."""

    site: Site
    _rendered: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def piece(self, message: Message) -> str:
        """Return the message to a page, as JSON; an object that is in no table is only named."""
        known = self._rendered.get(message.key)
        if known is None:
            known = msgspec.json.encode(self._render(message)).decode()
            self._rendered[message.key] = known
            while len(self._rendered) > RENDERED_MAX:
                self._rendered.popitem(last=False)
        return known

    def _render(self, message: Message) -> Mapping[str, Any]:
        head = {"topics": message.topics}
        data = message.data
        match data:
            case RunRow() if data.class_key and data.title:
                html = self.site.pages.piece("run_row", data)
                return {**head, "id": f"r-{data.id}", "facts": facts_of(data), "html": html}
            case LoggedEvent():
                facts = {"type": data.type, "level": level(data)}
                html = self.site.pages.piece("event_row", data)
                return {**head, "id": f"e-{data.position}", "facts": facts, "html": html}
            case _:
                return {**head, "id": data.id}


def facts_of(run: RunRow) -> Mapping[str, Any]:
    """Return the facts by which a page filters new rows."""
    return {
        "status": run.status,
        "kind": run.kind,
        "pod": _places(run.claimed_by),
        "by": run.submitted_by,
        "hypothesis": run.hypothesis_id,
        "region": read_class(run.class_key).region,
        "project": read_class(run.class_key).project,
        "label": [f"{name}={value}" for name, value in (run.labels or {}).items()],
    }


def _places(worker: str | None) -> list[str]:
    """Return by which names of its pod a run is found: the pod's, and those of its start and slot."""
    parts = (worker or "").split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def router(site: Site) -> APIRouter:
    """Return the route `/live`."""
    routes = Routes(include_in_schema=False)
    pieces = Pieces(site)

    def check_capacity() -> None:
        for feed in (site.deps.feed, site.deps.log_feed):
            feed.require_capacity()

    @routes.get("/live", response_class=StreamingResponse, dependencies=[Depends(check_capacity)])
    async def live(
        request: Request, _: MayRead, topic: Topic, since: str | None = None, last_event_id: Since = None
    ) -> EventSourceResponse:
        return streamed(encoded(site.deps, request, frozenset(topic), last_event_id or since, pieces.piece))

    return routes
