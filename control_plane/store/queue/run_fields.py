"""Queries for fields of runs that people choose: of the newest runs that fit, and of some runs.

Law: an index gives the newest runs of the leading condition, `pages.SCAN_MAX` of them at most; the other
conditions sieve those. Only the chosen fields are read, `BYTES_MAX` of the runs and of their specifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import decode

from control_plane.model.views.boards.run_fields import RunField
from control_plane.model.views.boards.values import bounded
from control_plane.store import pages
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import NEWEST, raw, weight
from control_plane.store.reads import divided, with_workers
from control_plane.store.schema import SUCCEEDED, SUCCEEDED_INDEX

BYTES_MAX: Final = 8 * 1024 * 1024
SPECS_AT_ONCE: Final = 500
DECODED_AT_ONCE: Final = 100  # then others go on
_SUCCESS: Final = ({"status": {"$in": [*SUCCEEDED]}}, *({"status": each} for each in SUCCEEDED))


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run, its title, when it ended, and its values in the order of the fields that were asked for."""

    id: str
    title: str
    finished_at: Any
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class NewestRuns:
    """Runs, the newest first; of a partial answer there may be older ones, which were not looked at."""

    runs: Sequence[FoundRun]
    is_partial: bool


@dataclass(frozen=True, slots=True)
class RunFieldReads:
    """Bounded reads of chosen fields."""

    db: Database

    @answers()
    async def newest(
        self, conditions: Mapping[str, Any], search: str | None, fields: Sequence[RunField]
    ) -> NewestRuns:
        """Return the values of the newest runs that meet the conditions."""
        leading, sieves = await with_workers(self.db, *divided(conditions, search))
        hint = None
        if leading in _SUCCESS and {"kind": conditions.get("kind")} in sieves:
            # one index for both: what is narrower sieves
            sieves = [*sieves, leading]
            leading, hint = {"kind": conditions["kind"], "status": {"$in": [*SUCCEEDED]}}, SUCCEEDED_INDEX
        ids = self.db.runs.find(leading, {"_id": 1}, hint=hint).sort(list(NEWEST))
        last = await ids.skip(pages.SCAN_MAX - 1).limit(1).to_list()
        bound = [{"_id": {"$gte": each["_id"]}} for each in last]
        budget = _Budget(self.db, BYTES_MAX)
        runs = await budget.read("runs", {"$and": [leading, *sieves, *bound]}, _of_run(fields), hint)
        found = await self._joined(runs, fields)
        return NewestRuns(found, bool(last) or budget.is_spent or len(found) < len(runs))

    @answers()
    async def of(self, run_ids: Sequence[str], fields: Sequence[RunField]) -> Mapping[str, FoundRun]:
        """Return the values of some runs, by id; what is beyond the bytes of an answer is left out."""
        query = {"_id": {"$in": list(run_ids)}}
        runs = await _Budget(self.db, BYTES_MAX).read("runs", query, _of_run(fields))
        return {each.id: each for each in await self._joined(runs, fields)}

    async def _joined(self, runs: Sequence[Document], fields: Sequence[RunField]) -> list[FoundRun]:
        """Return runs with the values of their specifications; where bytes run out, without the rest."""
        paths, budget = _of_spec(fields), _Budget(self.db, BYTES_MAX)
        found: list[FoundRun] = []
        for start in range(0, len(runs), SPECS_AT_ONCE):
            batch = runs[start : start + SPECS_AT_ONCE]
            specs: dict[str, Any] = {}
            if paths:
                query = {"_id": {"$in": [each["_id"] for each in batch]}}
                stored = await budget.read("run_specs", query, paths)
                specs = {each["_id"]: each.get("spec") for each in stored}
            for run in batch:
                if paths and budget.is_spent and run["_id"] not in specs:
                    return found
                values = [each.of(run, specs.get(run["_id"])) for each in fields]
                found.append(FoundRun(run["_id"], _title(run), run.get("finishedAt"), values))
        return found


@dataclass(slots=True)
class _Budget:
    """The bytes that may still be read."""

    db: Database
    left: int
    is_spent: bool = False

    async def read(
        self, collection: str, query: Document, wanted: Document, hint: str | None = None
    ) -> list[Document]:
        """Return documents, the newest first, while there are bytes left."""
        found: list[Document] = []
        cursor = raw(self.db, collection).find(query, wanted, hint=hint).sort(list(NEWEST))
        async with cursor:
            async for each in cursor:
                self.left -= weight(bytes(each.raw))
                if self.left < 0:
                    self.is_spent = True
                    break
                found.append(decode(each.raw, self.db.codec_options))
                if len(found) % DECODED_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return found


def _title(run: Document) -> str:
    """Return what a run is called, of a bounded length; its id where nothing else is told."""
    title = run.get("title")
    return bounded(title if isinstance(title, str) and title.strip() else str(run["_id"]))


def _of_run(fields: Sequence[RunField]) -> Document:
    stored = {each.stored for each in fields if each.place != "spec"}
    return dict.fromkeys(("finishedAt", "title", *sorted(stored)), 1)


def _of_spec(fields: Sequence[RunField]) -> Document:
    """Return the paths to read; one inside another is read with it: the store takes no two that overlap."""
    paths = sorted({each.stored for each in fields if each.place == "spec"})
    return {each: 1 for each in paths if not any(each.startswith(f"{other}.") for other in paths)}
