"""Broadcasts changes: looks up what changed, and encodes it, once for all concurrent readers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from control_plane.live.change_feed import SINGULARS, News, topics
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.runs import logged
from control_plane.store.changes import Change
from control_plane.store.reads import RunReads
from events.answers.answer import Reference
from events.answers.logs import LoggedEvent
from events.answers.runs import RunRow
from events.kinds.declaring.queues import QUEUES

KNOWN_MAX: Final = 4_000
BATCH_MAX: Final = 500  # of what is looked up and sent at once; far less than what is cached


@dataclass(frozen=True, slots=True)
class Message:
    """The state of a thing after a change: `run` or `event` with its content, or an id with its kind."""

    name: str
    key: str  # the same for the same state of the same thing
    topics: Sequence[str]
    data: RunRow | LoggedEvent | Reference
    text: str  # the data as JSON, encoded once for all readers


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Some messages, and the place behind them from which a reader may resume."""

    messages: Sequence[Message]
    place: str


@dataclass(slots=True)
class Broadcaster:
    """Turns changes into messages; what was looked up lately is not looked up again."""

    run_reads: RunReads
    _known: OrderedDict[Change, Message | None] = field(default_factory=OrderedDict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def batches(self, news: News) -> AsyncIterator[MessageBatch]:
        """Yield a message for each change, in order; of one thing that changed often, only the last.

        In batches, of which there is at least one: a reader that was away for long has many to receive.
        """
        latest = {(each.collection, each.id): each for each in news.changes}
        changes = sorted(latest.values(), key=lambda each: each.token)
        for first in range(0, max(1, len(changes)), BATCH_MAX):
            batch = changes[first : first + BATCH_MAX]
            async with self._turn:
                found = {each: self._known[each] for each in batch if each in self._known}
                found |= await self._learn([each for each in batch if each not in found])
            messages = [found[each] for each in batch]
            is_last = first + BATCH_MAX >= len(changes)
            place = news.token if is_last else batch[-1].token
            yield MessageBatch([message for message in messages if message is not None], place)

    async def _learn(self, changes: Sequence[Change]) -> Mapping[Change, Message | None]:
        """Look up changes and cache the messages; the oldest are evicted."""
        found: dict[str, RunRow | LoggedEvent] = {}
        events = [each.id for each in changes if each.collection == "events"]
        for queue in QUEUES:
            runs = [each.id for each in changes if each.collection == queue]
            if runs:
                brief = await self.run_reads.of_ids(runs, [queue])
                found |= {each["_id"]: from_document(RunRow, each) for each in brief}
        if events:
            found |= {each["_id"]: logged(each) for each in await self.run_reads.events_of_ids(events)}
        learned = {each: _message(each, found) for each in changes}
        self._known |= learned
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return learned


def _message(change: Change, found: Mapping[str, RunRow | LoggedEvent]) -> Message | None:
    """Return the message of a change; None if its document is gone."""
    name = SINGULARS.get(change.collection) or ("event" if change.collection == "events" else "run")
    data = Reference(id=change.id) if change.collection in SINGULARS else found.get(change.id)
    if data is None:
        return None
    return Message(name, change.token, topics(change), data, msgspec.json.encode(data).decode())
