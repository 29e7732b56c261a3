"""Looks up what changed, once for all concurrent readers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from control_plane.live.change_feed import SINGULARS, News, topics
from control_plane.model.views.filling import filled
from control_plane.model.views.runs import logged
from control_plane.store.changes import Change
from control_plane.store.reads import RunReads
from events.answers.answer import Reference
from events.answers.logs import LoggedEvent
from events.answers.runs import RunRow
from events.kinds.queues import QUEUES

KNOWN_MAX: Final = 4_000
PART_MAX: Final = 500  # of what is looked up and told at once; far less than what is remembered


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one thing: `run` or `event` with its new state, or the name of another with its id."""

    name: str
    key: str  # the same for the same state of the same thing
    topics: Sequence[str]
    data: RunRow | LoggedEvent | Reference
    text: str  # the data as JSON, made once for all who hear it


@dataclass(frozen=True, slots=True)
class Said:
    """Some reports, and the place behind them from which a reader may come back."""

    reports: Sequence[Report]
    place: str


@dataclass(slots=True)
class Reporter:
    """Turns changes into reports; what was looked up lately is not looked up again."""

    run_reads: RunReads
    _known: OrderedDict[Change, Report | None] = field(default_factory=OrderedDict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def say(self, news: News) -> AsyncIterator[Said]:
        """Yield a report of each change in its order; of one thing that changed often, the last.

        In parts, of which there is at least one: a reader that was away for long has much to hear.
        """
        latest = {(each.collection, each.id): each for each in news.changes}
        changes = sorted(latest.values(), key=lambda each: each.token)
        for first in range(0, max(1, len(changes)), PART_MAX):
            part = changes[first : first + PART_MAX]
            async with self._turn:
                found = {each: self._known[each] for each in part if each in self._known}
                found |= await self._learn([each for each in part if each not in found])
            reports = [found[each] for each in part]
            is_last = first + PART_MAX >= len(changes)
            place = news.token if is_last else part[-1].token
            yield Said([report for report in reports if report is not None], place)

    async def _learn(self, changes: Sequence[Change]) -> Mapping[Change, Report | None]:
        """Look up changes and cache the reports; the oldest are evicted."""
        found: dict[str, RunRow | LoggedEvent] = {}
        events = [each.id for each in changes if each.collection == "events"]
        for queue in QUEUES:
            runs = [each.id for each in changes if each.collection == queue]
            if runs:
                brief = await self.run_reads.of_ids(runs, [queue])
                found |= {each["_id"]: filled(RunRow, each) for each in brief}
        if events:
            found |= {each["_id"]: logged(each) for each in await self.run_reads.events_of_ids(events)}
        learned = {each: _report(each, found) for each in changes}
        self._known |= learned
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return learned


def _report(change: Change, found: Mapping[str, RunRow | LoggedEvent]) -> Report | None:
    """Return what is said of a change; None of one whose document is gone."""
    name = SINGULARS.get(change.collection) or ("event" if change.collection == "events" else "run")
    data = Reference(id=change.id) if change.collection in SINGULARS else found.get(change.id)
    if data is None:
        return None
    return Report(name, change.token, topics(change), data, msgspec.json.encode(data).decode())
