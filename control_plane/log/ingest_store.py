"""The calls of ingest to the store: for one request, or batched over concurrent requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bson.raw_bson import RawBSONDocument

from control_plane.concurrency.batching import Batcher
from control_plane.log.projector import Projector, Stretch
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import Found, Runs
from events.text.attempt_id import AttemptId

Names = frozenset[str]
Documents = Sequence[RawBSONDocument]


@dataclass(frozen=True, slots=True)
class IngestStore:
    """Finds runs, appends documents, and applies events; `append` returns the indexes of ids that were taken.

    `follow` applies a stretch that was just stored. It returns the cursor, or None where `apply` has to read.
    """

    find: Callable[[Names], Awaitable[Mapping[str, Found]]]
    append: Callable[[Documents], Awaitable[set[int]]]
    follow: Callable[[Stretch], Awaitable[int | None]]
    apply: Callable[[AttemptId], Awaitable[int]]


def alone(runs: Runs, events: Events, projector: Projector) -> IngestStore:
    """Return the calls as one request makes them."""

    async def follow(stretch: Stretch) -> int | None:
        return (await projector.follow([stretch]))[0]

    return IngestStore(runs.find_all, events.append, follow, projector.apply)


def together(runs: Runs, events: Events, projector: Projector) -> IngestStore:
    """Return the calls batched over concurrent requests: a group commit."""

    async def find(names: Sequence[Names]) -> Sequence[Mapping[str, Found]]:
        found = await runs.find_all(frozenset().union(*names))
        return [found] * len(names)

    return IngestStore(
        find=Batcher(find, len),
        append=Batcher(events.append_all, len),
        follow=Batcher(projector.follow, lambda _: 1),
        apply=projector.apply,
    )
