"""Looks up what changed, once for all who read of it at the same time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.live import NOUNS, QUEUES, News, topics
from control_plane.presentation import event, shown
from control_plane.store.changes import Change
from control_plane.store.reads import RunReads

Json = dict[str, Any]

KNOWN_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one thing: `run` or `event` with its new state, or the name of another with its id."""

    name: str
    key: str  # the same for the same state of the same thing
    topics: Sequence[str]
    data: Json


@dataclass(slots=True)
class Reporter:
    """Turns changes into reports; what was looked up lately is not looked up again."""

    run_reads: RunReads
    _known: OrderedDict[Change, Report | None] = field(default_factory=OrderedDict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def say(self, news: News) -> list[Report]:
        """Return a report of each change in its order; of one thing that changed often, the last."""
        latest = {(each.collection, each.id): each for each in news.changes}
        changes = sorted(latest.values(), key=lambda each: each.token)
        async with self._turn:
            await self._learn([each for each in changes if each not in self._known])
            reports = [self._known.get(each) for each in changes]
        return [report for report in reports if report is not None]

    async def _learn(self, changes: Sequence[Change]) -> None:
        found: dict[str, Json] = {}
        runs = [each.id for each in changes if each.collection in QUEUES]
        events = [each.id for each in changes if each.collection == "events"]
        if runs:
            found |= {each["_id"]: shown(each) for each in await self.run_reads.of_ids(runs)}
        if events:
            found |= {each["_id"]: event(each) for each in await self.run_reads.events_of_ids(events)}
        for each in changes:
            self._known[each] = _report(each, found)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def _report(change: Change, found: dict[str, Json]) -> Report | None:
    """Return what is said of a change; None of one whose document is gone."""
    name = NOUNS.get(change.collection) or ("event" if change.collection == "events" else "run")
    data = {"id": change.id} if change.collection in NOUNS else found.get(change.id)
    return None if data is None else Report(name, change.token, topics(change), data)
