"""Answers what pods spent their time on: reads lives and attempts of a window, and adds them up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol

from control_plane.model.presentation import plain
from control_plane.model.run import Entry
from control_plane.reads.ledger.documents import (
    cost_before,
    held_of,
    is_saved,
    life_of,
    milliseconds,
    project_of,
    saved_of,
)
from control_plane.reads.ledger.segments import Held, Life, Segment, lived, segments, within
from control_plane.reads.ledger.sums import Sums, summed, summed_by_day
from control_plane.store.log.documents import attempt_fields
from control_plane.store.log.held_times import HELD_MAX, WORKERS_MAX
from events.answers.fleet import Ledger
from events.queue.rules import pod_name
from events.runtime.clock import Clock
from events.runtime.errors import Rejected

By = Literal["day", "pod", "run", "project"]
DAYS: Final = 7
DAYS_MAX: Final = 92
ROWS: Final = 100
ROWS_MAX: Final = 1_000

Documents = Sequence[Mapping[str, Any]]


class Times(Protocol):
    """The times of pods, as they are stored."""

    async def workers(self, since: datetime, until: datetime) -> Documents: ...

    async def held(self, since: datetime, until: datetime) -> Documents: ...

    async def later(self, runs: Collection[str]) -> Documents: ...

    async def attempts_of(self, run_id: str) -> tuple[dict[int, dict[str, Any]], Sequence[Entry]]: ...

    async def prices(self, workers: Collection[str]) -> Mapping[str, object]: ...

    async def fields(self, runs: Collection[str], *names: str) -> Mapping[str, Mapping[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Ledgers:
    """Reads the ledger."""

    times: Times
    clock: Clock
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # one at a time holds its attempts in memory

    async def read(
        self,
        by: By = "day",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = ROWS,
    ) -> Ledger:
        """Return the ledger of a window: by default of the last seven days. Raises `Rejected`."""
        since, until = self._window(since, until)
        async with self._turn:
            return await self._read(by, since, until, limit)

    async def _read(self, by: By, since: datetime, until: datetime, limit: int) -> Ledger:
        workers, held = await asyncio.gather(self.times.workers(since, until), self.times.held(since, until))
        saved = {each["runId"] for each in held if is_saved(each) and isinstance(each.get("runId"), str)}
        later = await self.times.later(saved) if saved else ()
        window = milliseconds(since), milliseconds(until)
        projects: Mapping[str, str] = {}
        if by == "project":
            projects = await self._projects(held)
        sums = await asyncio.to_thread(_sums, by, workers, held, later, window, projects)
        rows = _ordered(by, sums)
        titles = await self._titles(rows[:limit]) if by == "run" else {}
        return Ledger(
            by=by,
            since=plain(since),
            until=plain(until),
            items=[sums.rows[key].answer(key, titles.get(key)) for key in rows[:limit]],
            total=sums.total.answer("total"),
            left_out=max(0, len(rows) - limit),
            is_partial=len(held) >= HELD_MAX or len(workers) >= WORKERS_MAX,
            next=None,
        )

    async def spent(self, run_id: str, before: int) -> float | None:
        """Return what the attempts of a run before this one have cost, None where an end is not known."""
        attempts, waiting = await self.times.attempts_of(run_id)
        for entry in waiting:
            number, told = attempt_fields(run_id, entry)
            attempts.setdefault(number, {}).update(told)
        workers = {each["pod"] for each in attempts.values() if isinstance(each.get("pod"), str)}
        prices = await self.times.prices(workers)
        return cost_before(before, attempts, prices)

    def _window(self, since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
        now = self.clock.now()
        until = min(until or now, now)
        if since is None:
            last = until - timedelta(microseconds=1)
            since = last.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
        if since >= until:
            raise Rejected("ledger_window", "`from` has to be before `to`, and before now")
        if until - since > timedelta(days=DAYS_MAX):
            raise Rejected("ledger_window", f"at most {DAYS_MAX} days at once: move `from` or `to`")
        return since, until

    async def _projects(self, held: Documents) -> dict[str, str]:
        runs = {each["runId"] for each in held if isinstance(each.get("runId"), str)}
        found = await self.times.fields(runs, "classKey")
        return {id_: project_of(each.get("classKey")) for id_, each in found.items()}

    async def _titles(self, runs: Sequence[str]) -> dict[str, str]:
        found = await self.times.fields(runs, "title")
        return {id_: title for id_, each in found.items() if isinstance(title := each.get("title"), str)}


def _sums(
    by: By,
    workers: Documents,
    held: Documents,
    later: Documents,
    window: tuple[int, int],
    projects: Mapping[str, str],
) -> Sums:
    found = _segments(workers, held, later, window)
    match by:
        case "day":
            return summed_by_day(found)
        case "pod":
            return summed(found, lambda segment: pod_name(segment.life.id))
        case "run":
            return summed(found, lambda segment: "" if segment.held is None else segment.held.run_id)
        case "project":
            return summed(
                found, lambda segment: "" if segment.held is None else projects.get(segment.held.run_id, "")
            )


def _segments(
    workers: Documents, held: Documents, later: Documents, window: tuple[int, int]
) -> Iterator[Segment]:
    """Yield the segments of all lives in a window; a worker that is not listed lived for its attempts."""
    saved = saved_of(later)
    by_worker: dict[str, list[Held]] = {}
    for document in held:
        if (each := held_of(document, saved)) is not None:
            by_worker.setdefault(each.worker, []).append(each)
    lives = {life.id: life for life in map(life_of, workers) if life is not None}
    for worker, own in by_worker.items():
        first = min(each.since for each in own)
        lives[worker] = lived(lives.get(worker) or Life(worker, first, first), own)
    for life in lives.values():
        if (part := within(life, *window)) is not None:
            yield from segments(part, by_worker.get(life.id, ()))


def _ordered(by: By, sums: Sums) -> list[str]:
    """Return the keys of the rows: days from the newest, else what took the most GPU time first."""
    if by == "day":
        return sorted(sums.rows, reverse=True)
    return sorted(sums.rows, key=lambda key: (sums.rows[key].weight, key), reverse=True)
