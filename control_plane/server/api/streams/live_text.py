"""Live text to its readers: server-sent events of what a run, or every run of a group, shows now.

Law: a reader that comes gets what the present attempts have shown lately, then each piece once. It resumes by
Last-Event-ID at any replica; where that is too long ago, a `reset` says so, and it is told from the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, format_sse_event

from control_plane.access.auth import is_still_admitted
from control_plane.live.change_feed import News
from control_plane.reads.reading import required
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead
from control_plane.server.api.streams.changes import IDLE_S, RETRY_MS, STREAM, Since, streamed
from control_plane.server.deps import Deps
from control_plane.store.log.live_texts import StoredPiece, group_topic, pieces_of, run_topic
from events.answers.worker.live_text import TEXT_CHARS_MAX, LiveText

LANE_CHARS_MAX: Final = 64 * 1024  # of the text of an attempt that a reader gets that comes later
READ_CHARS_MAX: Final = 64 * LANE_CHARS_MAX  # of all attempts, those that are left out too
PIECE_CHARS: Final = 100  # that each piece counts as besides: many have numbers alone
TEXTS_MAX: Final = 200  # of one event
ADMITTED_S: Final = 1.0
BACKLOGS_MAX: Final = 4  # that are read at once
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)


def router(deps: Deps) -> APIRouter:
    """Return the routes of live text."""
    routes = Routes(tags=["stream"])
    backlogs = asyncio.Semaphore(BACKLOGS_MAX)

    def check_capacity() -> None:
        deps.live.feed.require_capacity()

    options: dict[str, Any] = {
        "response_class": StreamingResponse,
        "responses": STREAM,
        "dependencies": [Depends(check_capacity)],
    }

    @routes.get("/api/groups/{group_id}/live", **options)
    async def of_group(
        group_id: str, request: Request, _: MayRead, last_event_id: Since = None
    ) -> EventSourceResponse:
        """Send `text`: a list of pieces of what the runs of the group's present round show, as they come.

        A `reset` says that pieces were lost: what follows begins anew. `at` is where to resume.
        """
        group = required(await deps.groups.reading.groups.find(group_id), "group", group_id)
        since = group["since"] if isinstance(group.get("since"), datetime) else LONG_AGO
        return streamed(Reader(deps, request, group_topic(group_id), since, backlogs).events(last_event_id))

    @routes.get("/api/runs/{run_id}/live", **options)
    async def of_run(
        run_id: str, request: Request, _: MayRead, last_event_id: Since = None
    ) -> EventSourceResponse:
        """Send `text`: a list of pieces of what the run shows, as they come; as of a group."""
        await deps.reading.require(run_id)
        return streamed(Reader(deps, request, run_topic(run_id), LONG_AGO, backlogs).events(last_event_id))

    return routes


class Reader:
    """One reader of a topic."""

    def __init__(
        self, deps: Deps, request: Request, topic: str, since: datetime, backlogs: asyncio.Semaphore
    ) -> None:
        self._deps = deps
        self._request = request
        self._headers = dict(request.headers)
        self._topic = topic
        self._since = since
        self._backlogs = backlogs
        self._told: frozenset[str] = (
            frozenset()
        )  # documents that the backlog had, which the news may have too
        self._admitted_s = 0.0

    async def events(self, last_event_id: str | None) -> AsyncIterator[bytes]:
        """Yield events until the reader goes, or may not read any more."""
        is_new = last_event_id is None
        feed = self._deps.live.feed
        async for news in feed.follow(frozenset({self._topic}), last_event_id, pause_s=0.0, idle_s=IDLE_S):
            if not await self._is_admitted():
                return
            if news.is_reset:
                yield event("reset", "{}", news.token)
            if news.is_reset or is_new:
                is_new = False
                async for text in self._backlog(news.token):
                    yield text
            yield self._news(news)

    async def _is_admitted(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._admitted_s < ADMITTED_S:
            return True
        self._admitted_s = now_s
        return await is_still_admitted(self._request, self._headers, "read")

    async def _backlog(self, place: str) -> AsyncIterator[bytes]:
        events = await self._read_backlog()
        last = len(events) - 1
        for number, data in enumerate(events):
            # What ends in the middle of it has no place yet: whoever comes back is told all of it again.
            yield event("text", data, place if number == last else None)

    async def _read_backlog(self) -> list[str]:
        """Return the data of the events of what was shown lately; nothing else of it is kept."""
        found = Backlog(self._topic)
        async with self._backlogs, aclosing(self._deps.live.store.latest(self._topic, self._since)) as read:
            async for documents in read:
                await asyncio.to_thread(found.add, documents)  # beside the event loop: pods decide how much
                if found.is_full:
                    break
            self._told = frozenset(found.documents)
            return await asyncio.to_thread(found.encoded)

    def _news(self, news: News) -> bytes:
        """Return the text of news, which is made once for all readers of a topic."""
        if self._told.isdisjoint(each.id for each in news.changes):
            if self._topic not in news.encoded:
                news.encoded[self._topic] = self._encode(news)
            return news.encoded[self._topic]
        return self._encode(news)

    def _encode(self, news: News) -> bytes:
        documents = [each.document for each in news.changes if each.id not in self._told]
        texts = [piece.shown for each in documents for piece in pieces_of(each, self._topic)]
        if not texts:
            return event("at", "{}", news.token)
        return event("text", _encoded(texts), news.token)


def event(name: str, data: str, place: str | None) -> bytes:
    """Return a server-sent event, after which a reader may resume at `place`."""
    return format_sse_event(event=name, data_str=data, id=place, retry=RETRY_MS)


def _encoded(texts: Iterable[LiveText]) -> str:
    return msgspec.json.encode(list(texts)).decode()


@dataclass(slots=True)
class Backlog:
    """What the present attempt of each run has shown lately, within bounds; the newest come first."""

    topic: str
    documents: list[str] = field(default_factory=list)
    is_full: bool = False
    _present: dict[str, int] = field(default_factory=dict)
    _chars: dict[str, int] = field(default_factory=dict)
    _read_chars: int = 0
    _kept: list[StoredPiece] = field(default_factory=list)

    def add(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Keep what is of use in further documents."""
        for document in documents:
            self.documents.append(str(document["_id"]))
            for piece in reversed(pieces_of(document, self.topic)):
                self._add(piece)
        is_of_run = self.topic in map(run_topic, self._present)
        is_whole = is_of_run and min(self._chars.values(), default=0) >= LANE_CHARS_MAX
        self.is_full = is_whole or self._read_chars >= READ_CHARS_MAX

    def _add(self, piece: StoredPiece) -> None:
        self._read_chars += len(piece.text) + PIECE_CHARS
        if self._present.setdefault(piece.run, piece.attempt) != piece.attempt:
            return  # an attempt that came before, or one that was given up and speaks all the same
        self._chars[piece.run] = self._chars.get(piece.run, 0) + len(piece.text)
        if self._chars[piece.run] <= LANE_CHARS_MAX:
            self._kept.append(piece)

    def encoded(self) -> list[str]:
        """Return the data of the events that tell it, the oldest first."""
        texts = joined(piece.shown for piece in reversed(self._kept))
        return [_encoded(texts[first : first + TEXTS_MAX]) for first in range(0, len(texts), TEXTS_MAX)]


def joined(texts: Iterable[LiveText]) -> list[LiveText]:
    """Return the texts with what follows without a gap in one, in the order of their ends."""
    made: dict[str, LiveText] = {}  # by run: the last one, to which its next may be added
    whole: list[LiveText] = []
    for text in texts:
        last = made.get(text.run)
        if last is not None and _follows(last, text):
            made[text.run] = LiveText(
                last.run, last.attempt, last.lap, last.offset, last.text + text.text, _newer(last, text)
            )
            continue
        if last is not None:
            whole.append(last)
        made[text.run] = text
    return [*whole, *made.values()]


def _follows(last: LiveText, text: LiveText) -> bool:
    is_next = (last.attempt, last.lap, last.offset + len(last.text)) == (text.attempt, text.lap, text.offset)
    return is_next and len(last.text) + len(text.text) <= TEXT_CHARS_MAX


def _newer(last: LiveText, text: LiveText) -> dict[str, float]:
    values: Mapping[str, float] = {**last.values, **text.values}
    return dict(values)
