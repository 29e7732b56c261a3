"""Adds up what projects use, and tells pods whose turn it is.

The sums follow the ends of attempts, and the costs that runs tell, a minute behind: by then what was decided
is written beside the runs. What is younger, and what runs now, is added anew in each round.
Law: a damaged project or run counts for nothing, and holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.views.readable import UnreadableDocument, reading_of
from control_plane.store.access.projects import BATCH_MAX, Projects
from events.queue.fair.usage import (
    HALF_LIFE_S,
    Held,
    Project,
    ProjectSums,
    Quotas,
    Used,
    at_moment,
    month_of,
    shares,
    with_costs,
    with_held,
)
from events.queue.requirements import NO_KIND, RunClass, read_class

log = logging.getLogger(__name__)

TICK_S: Final = 2.0
# Replicas look in turn: whoever finds a younger look of another leaves it.
LOOKED: Final = timedelta(seconds=0.75 * TICK_S)
BEHIND: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class FairSharer:
    """Writes the shares. Several replicas may run it at once: the sums are a compare-and-set."""

    projects: Projects
    half_life_s: float = HALF_LIFE_S
    unreadable: set[str] = field(default_factory=set)  # projects of which the log has told

    async def run_once(self) -> int:
        """Do one round; return of how many projects it told, 0 where nobody has made one."""
        told, now = await self.projects.shares(), await self.projects.now()
        at = None if told is None else told.get("at")
        if isinstance(at, datetime) and timedelta(0) <= now - at < LOOKED:
            return 0
        known = self._read(await self.projects.all())
        if not known and told is None:
            return 0
        sums, since, costs_since = await self._kept(now)
        young = await self._held_in(await self.projects.ended(since, now))
        told_costs = await self._costs_in(await self.projects.costs(costs_since, now), month_of(now))
        running = await self._running()
        sums = with_costs(
            with_held(at_moment(sums, now, self.half_life_s), [*young, *running], self.half_life_s),
            told_costs,
        )
        gpus: dict[str, int] = {}
        for each in running:
            gpus[each.project] = gpus.get(each.project, 0) + each.gpus
        found = shares(known, sums, gpus)
        await self.projects.tell(found, now)
        return len(found)

    def _read(self, stored: Sequence[Mapping[str, Any]]) -> list[Project]:
        found: list[Project] = []
        for each in stored:
            try:
                with reading_of("project", each["_id"]):
                    found.append(project_in(each))
            except UnreadableDocument as error:
                if error.identity not in self.unreadable:
                    self.unreadable.add(error.identity)
                    log.warning("project.unreadable", extra={"why": error.message})
        return found

    async def _kept(self, now: datetime) -> tuple[ProjectSums, datetime, datetime]:
        """Bring the stored sums to a minute ago, a batch at a time; return them and up to when they go."""
        until = now - BEHIND
        stored = await self.projects.usage()
        begun = month_of(now) - timedelta(microseconds=1000)
        revision, since, costs_since = 0, begun, begun
        sums = ProjectSums(begun)
        if stored is not None:
            revision, since, costs_since = stored["revision"], stored["since"], stored["costsSince"]
            sums = ProjectSums(stored["at"], {name: _used(each) for name, each in stored["used"].items()})
        if until <= since:
            return sums, since, costs_since
        ended, new_since = _cut(await self.projects.ended(since, until), "endedAt", until)
        costs, new_costs = _cut(await self.projects.costs(costs_since, until), "receivedAt", until)
        held = await self._held_in(ended)
        sums = with_held(at_moment(sums, new_since, self.half_life_s), held, self.half_life_s)
        sums = with_costs(sums, await self._costs_in(costs, sums.month))
        fields = {
            "at": sums.at,
            "since": new_since,
            "costsSince": new_costs,
            "used": {name: {"decayed": each.decayed, "gpuS": each.gpu_s, "usd": each.usd}
                     for name, each in sums.used.items()},
        }  # fmt: skip
        if await self.projects.keep(revision, fields):
            return sums, new_since, new_costs
        return await self._kept(now)  # another replica was faster, and has moved on

    async def _held_in(self, ended: Sequence[Mapping[str, Any]]) -> list[Held]:
        classes = await self._classes({each["runId"] for each in ended})
        cards = await self._cards(each.get("pod") for each in ended)
        return [
            _held(classes[each["runId"]], cards.get(each.get("pod"), 0), each["claimedAt"], each["endedAt"])
            for each in ended
            # an end that is told before its claim lacks the beginning for a moment
            if each["runId"] in classes and isinstance(each.get("claimedAt"), datetime)
        ]

    async def _costs_in(self, told: Sequence[Mapping[str, Any]], month: datetime) -> list[tuple[str, float]]:
        classes = await self._classes({each["runId"] for each in told})
        found = [(each, each["data"].get("cost_usd")) for each in told if each["receivedAt"] >= month]
        return [
            (classes[each["runId"]].project, float(usd))
            for each, usd in found
            if each["runId"] in classes and isinstance(usd, int | float)
        ]

    async def _classes(self, run_ids: set[str]) -> dict[str, RunClass]:
        keys = await self.projects.classes(run_ids) if run_ids else {}
        return {id_: found for id_, key in keys.items() if (found := class_in(key)) is not None}

    async def _cards(self, pods: Iterable[object]) -> Mapping[object, int]:
        """Return how many GPUs each of these pods has, or slots of one: a run holds all of them."""
        named = {each for each in pods if isinstance(each, str)}
        return await self.projects.cards(named) if named else {}

    async def _running(self) -> list[Held]:
        running = await self.projects.held()
        cards = await self._cards(each.get("claimedBy") for each in running)
        return [
            _held(found, cards.get(each.get("claimedBy"), 0), each["claimedAt"])
            for each in running
            if (found := class_in(each.get("classKey"))) is not None
            and isinstance(each.get("claimedAt"), datetime)
        ]


def _cut(found: list[Any], name: str, until: datetime) -> tuple[list[Any], datetime]:
    """Return what a round adds, and up to when that goes: its last moment not where it is full."""
    if len(found) < BATCH_MAX:
        return found, until
    last = found[-1][name]
    whole = [each for each in found if each[name] < last]
    return (whole, whole[-1][name]) if whole else (found, last)


def _held(wanted: RunClass, cards: int, claimed_at: datetime, ended_at: datetime | None = None) -> Held:
    return Held(wanted.project, max(wanted.gpus, cards), claimed_at, ended_at)


def class_in(stored: object) -> RunClass | None:
    """Return the class that a run has, None where that is none."""
    found = read_class(stored) if isinstance(stored, str) else None
    return None if found is None or found.kind == NO_KIND else found


def _used(stored: Mapping[str, Any]) -> Used:
    return Used(float(stored["decayed"]), float(stored["gpuS"]), float(stored["usd"]))


def project_in(stored: Mapping[str, Any]) -> Project:
    """Return the project of a document."""
    quotas = stored["quotas"]
    return Project(
        name=stored["_id"],
        weight=float(stored["weight"]),
        quotas=Quotas(gpus=quotas["gpus"], gpu_hours=quotas["gpuHours"], usd=quotas["usd"]),
    )
