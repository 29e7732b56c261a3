"""Queries on live texts: what runs show while they run, kept for minutes.

Law: no run is written. A document holds what all runs showed at one control plane within a moment, and says
by its topics for whom that is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from control_plane.store.database import Database, Document, answers
from events.answers.worker.live_text import LAP_MAX, OFFSET_MAX, TEXT_CHARS_MAX, LiveText, Values

log = logging.getLogger(__name__)

COLLECTION: Final = "live_texts"
KEPT: Final = timedelta(minutes=10)
PIECES_MAX: Final = 1_000  # of one document
BACKLOG_MAX: Final = 2_000  # documents that are read for one reader
BACKLOG_BATCH: Final = 50  # of them that are held at once
TOPIC_CHARS_MAX: Final = 300

Topic = Annotated[str, msgspec.Meta(max_length=TOPIC_CHARS_MAX)]
Identity = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class StoredPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece with its run, and the run's group, where it is in one."""

    run: Identity
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    lap: Annotated[int, msgspec.Meta(ge=1, le=LAP_MAX)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
    text: Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)] = ""
    values: Values = {}
    group: Identity | None = None

    @property
    def shown(self) -> LiveText:
        """What a reader gets of it."""
        return LiveText(self.run, self.attempt, self.lap, self.offset, self.text, self.values)

    @property
    def topics(self) -> tuple[str, ...]:
        """For whom it is."""
        return (
            (run_topic(self.run),) if self.group is None else (run_topic(self.run), group_topic(self.group))
        )


class _Stored(msgspec.Struct):
    topics: Annotated[list[Topic], msgspec.Meta(max_length=2 * PIECES_MAX)]
    pieces: Annotated[list[StoredPiece], msgspec.Meta(max_length=PIECES_MAX)]


def run_topic(run_id: str) -> str:
    """Return the topic of what a run shows."""
    return f"live/run/{run_id}"


def group_topic(group_id: str) -> str:
    """Return the topic of what the runs of a group show."""
    return f"live/group/{group_id}"


def topics_of(document: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the topics of a stored document; none of one that has another form."""
    try:
        return tuple(msgspec.convert((document or {}).get("topics"), list[Topic]))
    except msgspec.ValidationError:
        return ()


def pieces_of(document: Mapping[str, Any] | None, topic: str) -> list[StoredPiece]:
    """Return the pieces for a topic; none of a document that has another form."""
    try:
        stored = msgspec.convert(document or {}, _Stored)
    except msgspec.ValidationError as error:
        log.warning("live.unreadable", extra={"why": str(error)})
        return []
    return [each for each in stored.pieces if topic in each.topics]


@dataclass(frozen=True, slots=True)
class LiveTextStore:
    """Adds what runs showed, and reads it back for whoever comes later."""

    db: Database

    @answers()
    async def add(self, pieces: Mapping[str, Sequence[StoredPiece]], now: datetime) -> None:
        """Store documents by their ids, in one insert."""
        documents = [
            {
                "_id": name,
                "at": now,
                "expiresAt": now + KEPT,
                "topics": sorted({topic for each in some for topic in each.topics}),
                "pieces": [msgspec.to_builtins(each) for each in some],
            }
            for name, some in pieces.items()
        ]
        await self.db[COLLECTION].insert_many(documents, ordered=False)

    async def latest(self, topic: str, since: datetime) -> AsyncGenerator[list[Document], None]:
        """Yield what was stored for a topic since then, the newest first, some documents at a time."""
        wanted = {"topics": topic, "at": {"$gte": since}}
        found = self.db[COLLECTION].find(wanted, batch_size=BACKLOG_BATCH)
        async with answers(), found.sort([("topics", 1), ("_id", -1)]).limit(BACKLOG_MAX) as cursor:
            while some := await cursor.to_list(BACKLOG_BATCH):
                yield some
