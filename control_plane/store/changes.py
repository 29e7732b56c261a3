"""Follows the database by one change stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from string import hexdigits
from typing import Any, Final

from bson import Timestamp
from pymongo.asynchronous.change_stream import AsyncDatabaseChangeStream
from pymongo.errors import OperationFailure

from control_plane.store.database import Database, Document, answers
from control_plane.store.log import live_texts
from events.kinds import NOUNS
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import FINAL, Status
from events.queue.matching import WaitingClass

# What belongs to a run is written before the run's own cursor moves: that tells of all of it.
STATES: Final = (*QUEUES, *(noun.collection for noun in NOUNS), "pods", "schedules", "groups")
STATES_AND_EVENTS: Final = (*STATES, "events")
LIVE_TEXTS: Final = (live_texts.COLLECTION,)
KINDS: Final = ("insert", "update", "replace", "delete")
BATCH_MAX: Final = 1_000
AWAIT_MS: Final = 1_000
# The log begins later than the place, or, in an older store that was restored, does not know it.
HISTORY_LOST: Final = frozenset({286, 280})
_FINAL: Final = frozenset(status.value for status in FINAL)
# An insert has the whole document, an update the fields that it changed.
_QUEUED: Final = {
    "status": {"$ifNull": ["$updateDescription.updatedFields.status", "$fullDocument.status"]},
    "classKey": {"$ifNull": ["$updateDescription.updatedFields.classKey", "$fullDocument.classKey"]},
}


@dataclass(frozen=True, slots=True)
class Change:
    """One document that changed; `token` is where in the log, the same at every replica, and sorts.

    `is_queued` of a run that began to wait for a pod, or waits in another class now; its class where the log
    tells that; `has_ended` of one whose status is final now. `document` is the whole of it, where that was
    asked for.
    """

    token: str
    collection: str
    id: str
    is_queued: bool = False
    has_ended: bool = field(default=False, kw_only=True)
    class_key: str | None = None
    document: Document | None = field(default=None, compare=False, repr=False)

    @property
    def waiting(self) -> list[WaitingClass]:
        """The class in which a run waits by it, where the log tells that; the run's priority is not known."""
        is_told = self.is_queued and self.class_key is not None
        return [WaitingClass(self.collection, str(self.class_key), 0)] if is_told else []


@dataclass(frozen=True, slots=True)
class Step:
    """The way from one place in the log to the next, by a change or by time; places are tokens."""

    begin: str
    end: str
    change: Change | None


class HistoryLost(Exception):
    """The log no longer reaches back to where a reader was."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Reads the log of changes; each document's new state is for the reader to look up.

    Of collections whose documents never change it tells each `whole`, when it is made.
    """

    db: Database
    followed: Sequence[str] = STATES_AND_EVENTS
    whole: bool = False

    async def steps(self, since: str | None, back_s: int) -> AsyncGenerator[Step]:
        """Yield every change behind the token `since` at once, until closed; a step without one now and then.

        Without a token from `back_s` seconds ago on, or from now where the log does not reach so far.
        Raises `HistoryLost` where it no longer reaches back to `since`, `Transient` when the store is away.
        """
        async with answers():
            started: Timestamp = (await self.db.command("hello"))["operationTime"]
            earlier = Timestamp(max(1, started.time - back_s), 1)
            try:
                if since is not None:
                    begin, stream = since, await self._open(resume_after={"_data": since})
                elif await self._reaches(earlier):
                    begin, stream = beginning(earlier), await self._open(start_at_operation_time=earlier)
                else:
                    begin, stream = beginning(started), await self._open(start_at_operation_time=started)
                async with stream:
                    while stream.alive:
                        step = await _step(stream, begin)
                        yield step
                        begin = step.end
            except OperationFailure as error:
                if error.code in HISTORY_LOST:
                    raise HistoryLost from error
                raise

    async def _reaches(self, moment: Timestamp) -> bool:
        """Say whether the log still knows what happened at `moment`."""
        try:
            async with await self._open(start_at_operation_time=moment):
                return True
        except OperationFailure as error:
            if error.code in HISTORY_LOST:
                return False
            raise

    async def _open(self, **since: Any) -> AsyncDatabaseChangeStream[Document]:
        kinds = ["insert"] if self.whole else list(KINDS)
        wanted = {"ns.coll": {"$in": list(self.followed)}, "operationType": {"$in": kinds}}
        told = {"fullDocument": 1} if self.whole else _QUEUED
        return await self.db.watch(
            [{"$match": wanted}, {"$project": {"ns.coll": 1, "documentKey": 1, **told}}],
            batch_size=BATCH_MAX,
            max_await_time_ms=AWAIT_MS,
            **since,
        )


def beginning(moment: Timestamp) -> str:
    """Return what sorts before every token of a change at `moment` or later, and behind all before it.

    A token is the hexadecimal form of a key that begins with the type of a timestamp and the timestamp.
    """
    return f"82{moment.time:08X}{moment.inc:08X}"


def moment_s(token: str) -> int | None:
    """Return the moment in a token, in seconds since 1970; None where it is no token."""
    digits = token[2:10]
    is_token = token.startswith("82") and len(digits) == 8 and set(digits) <= set(hexdigits)
    return int(digits, 16) if is_token else None


async def _step(stream: AsyncDatabaseChangeStream[Document], begin: str) -> Step:
    """Return the next step: as soon as something changes, without a change after a second."""
    document = await stream.try_next()
    token = stream.resume_token
    assert token is not None, "a stream that was read knows where it stands"
    end = str(token["_data"])
    if document is None:
        return Step(begin, end, None)
    status, class_key = document.get("status"), document.get("classKey")
    is_queued = status == Status.QUEUED.value or (status is None and class_key is not None)
    name = str(document["documentKey"]["_id"])
    collection, whole = document["ns"]["coll"], document.get("fullDocument")
    waits_in = class_key if is_queued else None
    change = Change(end, collection, name, is_queued, waits_in, whole, has_ended=status in _FINAL)
    return Step(begin, end, change)
