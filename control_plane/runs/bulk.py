"""Cancels, retries or changes many runs: those that are named, or all that match filters.

Law: a request does a bounded part, newest first, and returns where the next request continues. Runs that
were submitted after the first request are left alone. A bulk has a name, by which a part that is sent twice
makes no second retry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from control_plane.reads import paging
from control_plane.reads.reading import RunFilters
from control_plane.runs.decisions import Decider
from control_plane.runs.options import NO_CHANGES, OptionChanges
from control_plane.runs.submission import Submitter
from control_plane.store.reads import RunReads
from events.lifecycle import Status
from events.runtime.errors import Conflict, NotFound, Rejected

Action = Literal["cancel", "retry", "change"]
Outcome = Literal["done", "already", "refused", "unknown"]

PART_MAX: Final = 1_000  # runs of one request
PAGES_MAX: Final = 40  # looked at in one request, where filters leave most of them out
AT_ONCE: Final = 16
NAME_CHARS_MAX: Final = 100
STANDING: Final = (Status.CANCELING, Status.CANCELED)


@dataclass(frozen=True, slots=True)
class Part:
    """Runs to act on, as they were read, and the cursor behind them; None where there are no more."""

    runs: Sequence[Mapping[str, Any]]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one run; `run_id` of a retry is the new run."""

    id: str
    outcome: Outcome
    message: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Bulk:
    """Acts on runs, some at a time. Raises `Rejected`, `Transient`."""

    reads: RunReads
    decider: Decider
    submitter: Submitter

    async def named(self, run_ids: Sequence[str]) -> Part:
        """Return the runs of these ids, each once, in the order in which they are named."""
        found = {run["_id"]: run for run in await self.reads.of_ids(run_ids)}
        return Part([found.get(each, {"_id": each}) for each in dict.fromkeys(run_ids)], None)

    async def matching(
        self, filters: RunFilters, asked_at: datetime, after: str | None = None, limit: int = PART_MAX
    ) -> Part:
        """Return the next runs that match and were there at `asked_at`, newest first."""
        key = None if after is None else paging.decode("runs", after, str)
        conditions, search = filters.conditions(), filters.search()
        runs: list[Mapping[str, Any]] = []
        for _ in range(PAGES_MAX):
            size = min(paging.LIMIT_MAX, limit - len(runs))
            page = await self.reads.page(conditions, search, key, size)
            runs += [run for run in page.documents if run["createdAt"] <= asked_at]
            key = None if page.stopped_at is None else list(page.stopped_at)
            if key is None or len(runs) >= limit:
                break
        return Part(runs, None if key is None else paging.encode("runs", *key))

    async def act(
        self,
        action: Action,
        part: Part,
        *,
        by: str,
        name: str,
        changes: OptionChanges = NO_CHANGES,
        named_by: str | None = None,
    ) -> list[Result]:
        """Apply the action to each run of the part; a refusal is a result, not an error.

        `changes` are of a change, and of a retry against the options of its parent. `named_by` is the name of
        the key that asks, by which secrets may be named again.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def one(run: Mapping[str, Any]) -> Result:
            async with room:
                return await self._act(action, run, changes, by=by, name=name, named_by=named_by)

        return list(await asyncio.gather(*map(one, part.runs)))

    async def _act(
        self,
        action: Action,
        run: Mapping[str, Any],
        changes: OptionChanges,
        *,
        by: str,
        name: str,
        named_by: str | None,
    ) -> Result:
        run_id = run["_id"]
        if "status" not in run:
            return Result(id=run_id, outcome="unknown", message="there is no such run")
        try:
            if action == "cancel":
                await self.decider.cancel(run_id, by=f"user:{by}")
                return Result(id=run_id, outcome="already" if run["status"] in STANDING else "done")
            if action == "change":
                changed = await self.decider.change(run_id, changes, by=f"user:{by}")
                is_new = changed.revision != run["revision"]
                return Result(id=run_id, outcome="done" if is_new else "already")
            key = f"bulk/{name}/{run_id}"
            again = await self.submitter.retry(run_id, by=by, changes=changes, key=key, named_by=named_by)
        except NotFound as error:
            return Result(id=run_id, outcome="unknown", message=error.message)
        except (Conflict, Rejected) as error:
            return Result(id=run_id, outcome="refused", message=error.message)
        return Result(id=run_id, outcome="done" if again.is_new else "already", run_id=again.run_id)


def counted(results: Sequence[Result]) -> dict[str, int]:
    """Return the number of runs by outcome."""
    counts = Counter(each.outcome for each in results)
    return {outcome: counts[outcome] for outcome in ("done", "already", "refused", "unknown")}
