"""The list of runs with columns of choice, in the order of time or of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from control_plane.model.views.boards.run_fields import RunField, read_field
from control_plane.model.views.boards.values import NONE, value_of
from control_plane.reads import paging
from control_plane.reads.reading import Reading, RunFilters
from control_plane.store.queue.run_fields import FoundRun, RunFieldReads
from events.answers.runs import RunPage, RunRow
from events.runtime.errors import Rejected

AGAINST: Final = "-"  # before a column: its order turned round


@dataclass(frozen=True, slots=True)
class RunTable:
    """Pages of runs. Raises `Rejected`."""

    reading: Reading
    reads: RunFieldReads

    async def page(
        self,
        filters: RunFilters,
        limit: int,
        after: str | None,
        columns: Sequence[RunField],
        sort: str | None = None,
    ) -> RunPage:
        """Return a page with the values of the columns.

        Without `sort` the newest run is first. With the name of a field, or `-` and the name, the newest runs
        that fit are sorted by it; those without a value are last. The answer says how many they are.
        """
        if sort is not None:
            return await self._sorted(filters, limit, after, columns, sort)
        page = await self.reading.runs(filters, limit, after)
        return RunPage(items=await self._filled(page.items, columns), next=page.next)

    async def _sorted(
        self,
        filters: RunFilters,
        limit: int,
        after: str | None,
        columns: Sequence[RunField],
        sort: str,
    ) -> RunPage:
        field = read_field(sort.removeprefix(AGAINST))
        name, limit = f"runs by {sort}", paging.limited(limit)
        last = None if after is None else str(paging.decode(name, after, str)[0])
        found = await self.reads.newest(filters.conditions(), filters.search(), [field])
        # beside the event loop: they are thousands
        ids = await asyncio.to_thread(in_order, found.runs, is_against=sort.startswith(AGAINST))
        if last is not None and last not in ids:
            raise Rejected("bad_cursor", "the run that the next page follows is no longer among these")
        start = 0 if last is None else ids.index(last) + 1
        chosen = ids[start : start + limit]
        rows = {each.id: each for each in await self.reading.runs_of_ids(chosen)}
        items = [rows[each] for each in chosen if each in rows]
        is_last = start + limit >= len(ids)
        return RunPage(
            items=await self._filled(items, columns if field in columns else [*columns, field]),
            next=None if is_last else paging.encode(name, chosen[-1]),
            looked_at=len(ids),
            is_partial=found.is_partial,
        )

    async def _filled(self, rows: Sequence[RunRow], columns: Sequence[RunField]) -> list[RunRow]:
        if not columns or not rows:
            return [*rows]
        found = await self.reads.of([each.id for each in rows], columns)
        return [_with(each, found.get(each.id), columns) for each in rows]


def in_order(runs: Sequence[FoundRun], *, is_against: bool) -> list[str]:
    """Return the ids of runs in the order of their first value; equal ones stay as they are, none is last."""
    valued = [(value_of(each.values[0]), each.id) for each in runs]
    some = sorted((each for each in valued if each[0] != NONE), key=lambda each: each[0], reverse=is_against)
    return [each for _, each in some] + [each for value, each in valued if value == NONE]


def _with(row: RunRow, found: FoundRun | None, columns: Sequence[RunField]) -> RunRow:
    values = [None] * len(columns) if found is None else found.values
    told = {str(each): value_of(value).shown for each, value in zip(columns, values, strict=True)}
    return replace(row, columns=told)
