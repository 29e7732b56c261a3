"""Reads the results of runs: pages of a set, all rows of one for an export, and runs beside each other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import msgspec

from control_plane.model.presentation import plain
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads import paging
from control_plane.reads.comparison import chosen as compared_runs
from control_plane.reads.reading import Reading, listing
from control_plane.reads.results.filters import Chosen, chosen, sortable
from control_plane.reads.results.pairs import METHOD, Changed, Side, named, paired
from control_plane.store.pages import Slice
from control_plane.store.results import Place, ResultReads, RowPage, WantedRows
from events.answers.kinds.kind import ColumnAnswer
from events.answers.kinds.results import (
    ChangedItem,
    ComparedRow,
    ComparedRows,
    ItemPairs,
    ResultPage,
    ResultRow,
    SetName,
)
from events.kinds import KINDS
from events.kinds.results import (
    COLUMNS_MAX,
    ROWS_MAX,
    SET_NAME,
    WHOLE_MAX,
    Column,
    Outcome,
    ResultSet,
    Value,
    is_of,
    set_named,
)
from events.runtime.errors import NotFound, Rejected

SAMPLE_MAX: Final = 50  # rows at each end by which the columns of a set are found that nobody declares
EXPORT_PAGE: Final = 1_000
PAIR: Final = 2
NEAREST_PAGES: Final = 6  # that are looked through for a neighbour
NO_OUTCOME: Final = "no_outcome"
UNKNOWN_SET: Final = "unknown_set"
NO_ROWS: Final = "no rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultQuery:
    """Which rows are wanted: those of one set that meet every filter, in an order."""

    set: str | None = None
    sort: str | None = None
    filters: Sequence[str] = ()
    q: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """One set of a run, as its newest attempt has it, and how its rows are chosen."""

    run_id: str
    attempt: int | None
    declared: ResultSet
    sets: Sequence[ResultSet]
    chosen: Chosen
    list_name: str

    def wanted(self, attempt: int, after: Place | None, limit: int) -> WantedRows:
        """Return the query of a page."""
        return WantedRows(
            run_id=self.run_id,
            attempt=attempt,
            set=self.declared.name,
            sorted_by=self.chosen.sorted_by,
            residual=self.chosen.residual,
            is_descending=self.chosen.is_descending,
            after=after,
            limit=limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBeside:
    """A row of a list, and the keys of its neighbours there; None at an end."""

    opened: Opened
    attempt: int
    row: ResultRow
    before: str | None
    behind: str | None


@dataclass(frozen=True, slots=True)
class Results:
    """The results of runs. Raises `NotFound`, and `Rejected` that names the sets or columns there are."""

    reads: ResultReads
    reading: Reading

    async def page(
        self,
        run_id: str,
        query: ResultQuery,
        *,
        limit: int = paging.LIMIT_DEFAULT,
        after: str | None = None,
    ) -> ResultPage:
        """Return a page of a set; the first that the kind declares where none is named."""
        opened = await self.open(run_id, query)
        limit = paging.limited(limit)
        attempt, place = opened.attempt, None
        if after is not None:
            attempt, place = _placed(opened, after)
        found = RowPage((), None)
        if attempt is not None:
            found = await self.reads.page(opened.wanted(attempt, place, limit))
        # a row that a hand has damaged is named, and the others are shown
        rows = listing("results", Slice(found.rows, None), _row)
        return ResultPage(
            run_id=run_id,
            attempt=attempt,
            set=opened.declared.name,
            title=opened.declared.title,
            sets=[SetName(name=each.name, title=each.title) for each in opened.sets],
            columns=answered(opened.declared.columns),
            sortable=sortable(opened.declared),
            items=rows.items,
            unreadable=rows.unreadable,
            next=_cursor(opened, attempt, found.stopped_at),
            refused=await self.reads.refused(run_id),
            outcome=None if opened.declared.outcome is None else opened.declared.outcome.column,
        )

    async def open(
        self, run_id: str, query: ResultQuery, *, is_whole: bool = False, may_lack: bool = False
    ) -> Opened:
        """Return a set of a run, ready to be read.

        Columns that no kind declares are looked for in every row where it `is_whole`, else in the first and
        the last ones. A run of an open kind `may_lack` a set: then it has no rows.
        """
        run = await self.reading.require(run_id)
        attempt = await self.reads.newest_attempt(run_id)
        sets = await self._sets(run, attempt)
        names = ", ".join(each.name for each in sets) or "none"
        is_lacking = may_lack and _records_freely(run)
        if query.set is None and not sets and not is_lacking:
            raise Rejected(UNKNOWN_SET, f"run {run_id} has recorded no rows")
        declared = set_named(sets, query.set or (sets[0].name if sets else ""))
        if declared is None and is_lacking:
            declared = ResultSet(query.set or NO_ROWS, query.set or NO_ROWS, (), is_declared=False)
        if declared is None:
            raise Rejected(UNKNOWN_SET, f"run {run_id} has no result set {query.set!r}; it has {names}")
        if is_whole and attempt is not None and not declared.is_declared:
            declared = await self._found(run_id, attempt, declared.name, is_whole=True)
        how = chosen(declared, query.sort or None, query.filters, (query.q or "").strip() or None)
        asked = msgspec.json.encode([declared.name, query.sort, sorted(query.filters)]).decode()
        return Opened(run_id, attempt, declared, sets, how, f"results {asked[:400]}")

    async def set_names(self, run_id: str) -> list[str]:
        """Return the names of the sets that a run has, the declared ones first. Raises `NotFound`."""
        run = await self.reading.require(run_id)
        sets = await self._sets(run, await self.reads.newest_attempt(run_id))
        return [each.name for each in sets if re.fullmatch(SET_NAME, each.name)]

    async def rows(self, opened: Opened) -> AsyncIterator[Sequence[ResultRow]]:
        """Yield all rows of a set that are chosen, page by page, so that no more than a page is held."""
        place: Place | None = None
        while opened.attempt is not None:
            found = await self.reads.page(opened.wanted(opened.attempt, place, EXPORT_PAGE))
            if found.rows:
                yield [_row(each) for each in found.rows]
            if found.stopped_at is None:
                return
            place = found.stopped_at

    async def compared(
        self, run_ids: Sequence[str], set_name: str | None, *, limit: int, after: str | None
    ) -> ComparedRows:
        """Return the rows of several runs beside each other, in the order of their keys."""
        distinct = compared_runs(run_ids)
        query = ResultQuery(set=set_name or await self._first_set(distinct))
        opened = [await self.open(each, query, may_lack=True) for each in distinct]
        first = next((each for each in opened if each.declared.columns), opened[0])
        columns = {each.name: each for one in (*opened, first) for each in one.declared.columns}
        list_name = f"compared results {first.declared.name}"
        place = None if after is None else Place(str(paging.decode(list_name, after, str)[0]))
        limit = paging.limited(limit)
        pages = [await self._after(each, place, limit) for each in opened]
        values = [{row["key"]: _values(row) for row in page.rows} for page in pages]
        keys = sorted({key for each in values for key in each}, key=_in_bytes)
        # behind the end of a page that is not its run's last nothing is known of that run
        ends = [_in_bytes(page.stopped_at.key) for page in pages if page.stopped_at is not None]
        told = [key for key in keys if not ends or _in_bytes(key) <= min(ends)][:limit]
        has_more = bool(ends) or len(told) < len(keys)
        return ComparedRows(
            runs=distinct,
            attempts=[each.attempt for each in opened],
            set=first.declared.name,
            columns=answered(list(columns.values())),
            items=[_compared(key, [each.get(key) for each in values]) for key in told],
            next=paging.encode(list_name, told[-1]) if has_more and told else None,
        )

    async def beside(self, run_id: str, query: ResultQuery, key: str) -> RowBeside:
        """Return one row, and which rows stand before and behind it in a list. Raises `NotFound`."""
        opened = await self.open(run_id, query)
        attempt, found = opened.attempt, None
        if attempt is not None:
            found = await self.reads.row(run_id, attempt, opened.declared.name, key)
        if attempt is None or found is None:
            raise NotFound("unknown_row", f"run {run_id} has no row {key[:80]!r} in {opened.declared.name}")
        by = opened.chosen.sorted_by
        place = Place(key, None if by is None else found.get(by.name))
        wanted = opened.wanted(attempt, place, 1)
        return RowBeside(
            opened=opened,
            attempt=attempt,
            row=_row(found),
            before=await self._nearest(replace(wanted, is_backward=True)),
            behind=await self._nearest(wanted),
        )

    async def _nearest(self, wanted: WantedRows) -> str | None:
        """Return the key of the next row that filters let through, among the nearest."""
        for _ in range(NEAREST_PAGES):
            found = await self.reads.page(wanted)
            if found.rows:
                return str(found.rows[0].get("key"))
            if found.stopped_at is None:
                return None
            wanted = replace(wanted, after=found.stopped_at)
        return None

    async def outcomes(self, run_id: str, set_name: str) -> Mapping[str, int]:
        """Return how many rows of a set end how; none where no outcome is declared, or no index has it."""
        opened = await self.open(run_id, ResultQuery(set=set_name))
        outcome, attempt = opened.declared.outcome, opened.attempt
        if outcome is None or attempt is None or opened.declared.sort_name(outcome.column) is None:
            return {}
        counts: dict[str, int] = {}
        for value in outcome.values:
            how = chosen(opened.declared, None, [f"{outcome.column}={value}"], None)
            wanted = replace(opened, chosen=how).wanted(attempt, None, 1)
            counts[value] = await self.reads.count(wanted, ROWS_MAX)
        return counts

    async def pairs(
        self, run_ids: Sequence[str], set_name: str | None, *, limit: int, after: str | None
    ) -> ItemPairs:
        """Return two runs item by item. Raises `NotFound`, `Rejected` where rows have no outcome."""
        distinct = compared_runs(run_ids)
        if len(distinct) != PAIR:
            raise Rejected("bad_selection", f"{PAIR} runs are compared item by item, not {len(distinct)}")
        query = ResultQuery(set=set_name)
        opened = [await self.open(each, query, may_lack=True) for each in distinct]
        outcome = opened[0].declared.outcome
        if outcome is None or outcome != opened[1].declared.outcome:
            names = " and ".join(dict.fromkeys(each.declared.name for each in opened))
            raise Rejected(NO_OUTCOME, f"no outcome is declared of the rows of {names}")
        sides = [await self._side(each, outcome) for each in opened]
        found = await asyncio.to_thread(paired, *sides)
        list_name, limit = f"pairs {distinct}", paging.limited(limit)
        start = 0 if after is None else int(paging.decode(list_name, after, int)[0])
        shown = found.changed[max(0, start) : max(0, start) + limit]
        end = start + len(shown)
        return ItemPairs(
            runs=distinct,
            attempts=[each.attempt for each in opened],
            set=opened[0].declared.name,
            both_right=found.both_right,
            only_first=found.only_first,
            only_second=found.only_second,
            both_wrong=found.both_wrong,
            in_first_alone=found.in_first_alone,
            in_second_alone=found.in_second_alone,
            other_question=found.other_question,
            unanswered=found.unanswered,
            p_value=found.p_value,
            method=METHOD,
            items=[_changed(each) for each in shown],
            next=paging.encode(list_name, end) if end < len(found.changed) else None,
        )

    async def _side(self, opened: Opened, outcome: Outcome) -> Side:
        side = Side(outcome)
        async for page in self.rows(opened):
            for row in page:
                side.add(row.key, row.values)
        return side

    async def _after(self, opened: Opened, place: Place | None, limit: int) -> RowPage:
        if opened.attempt is None:
            return RowPage((), None)
        return await self.reads.page(opened.wanted(opened.attempt, place, limit))

    async def _sets(self, run: Mapping[str, Any], attempt: int | None) -> Sequence[ResultSet]:
        """Return the sets that the kind of a run declares, then those that it has rows of besides."""
        declared = list(KINDS[run["kind"]].results) if run["kind"] in KINDS else []
        if attempt is None:
            return declared
        stored = await self.reads.sets(run["_id"], attempt)
        others = [name for name in stored if set_named(declared, name) is None]
        return [*declared, *[await self._found(run["_id"], attempt, name) for name in others]]

    async def _first_set(self, run_ids: Sequence[str]) -> str | None:
        """Return the name of the first set of the first run that has any."""
        for run_id in run_ids:
            run = await self.reading.require(run_id)
            if sets := await self._sets(run, await self.reads.newest_attempt(run_id)):
                return sets[0].name
        return None

    async def _found(self, run_id: str, attempt: int, name: str, *, is_whole: bool = False) -> ResultSet:
        """Return a set that no kind declares here, with the columns that its rows have."""
        columns: dict[str, Column] = {}
        wanted = WantedRows(run_id=run_id, attempt=attempt, set=name, limit=SAMPLE_MAX)
        if is_whole:
            place: Place | None = None
            wanted = replace(wanted, limit=EXPORT_PAGE)
            while True:
                page = await self.reads.page(replace(wanted, after=place))
                await asyncio.to_thread(_add_columns, columns, page.rows)
                place = page.stopped_at
                if place is None or len(columns) >= COLUMNS_MAX:
                    break
        else:
            for is_descending in (False, True):
                page = await self.reads.page(replace(wanted, is_descending=is_descending))
                _add_columns(columns, page.rows)
                if page.stopped_at is None:
                    break
        return ResultSet(name, name, tuple(columns.values()), is_declared=False)


def _records_freely(run: Mapping[str, Any]) -> bool:
    kind = KINDS.get(run["kind"])
    return kind is not None and kind.records_freely


def _add_columns(columns: dict[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the columns that stored rows have, each with the type of its first value."""
    for row in rows:
        values = row.get("values")
        for column, value in values.items() if isinstance(values, Mapping) else ():
            if value is not None and len(columns) < COLUMNS_MAX:
                columns.setdefault(column, Column(column, type=_type_of(value)))


def told(column: Column) -> dict[str, Any]:
    """Return what the interface shows of a column."""
    return {name: value for name, value in asdict(column).items() if name != "share_of"}


def answered(columns: Sequence[Column]) -> list[ColumnAnswer]:
    """Return columns as the interface shows them."""
    return [ColumnAnswer(**told(each)) for each in columns]


def _type_of(value: Value) -> Any:
    return "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _in_bytes(key: str) -> bytes:
    """Return a key as the store sorts it."""
    return key.encode("utf-8", "replace")


def _row(document: Mapping[str, Any]) -> ResultRow:
    key = document.get("key")
    with reading_of("row", document.get("_id") if key is None else key):
        return typed(
            ResultRow(
                key=document["key"],
                values=_values(document),
                status=document.get("status"),
                detail=document.get("detail"),
            )
        )


def _values(document: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = plain(document["values"])
    return values


def _changed(each: Changed) -> ChangedItem:
    is_right = [bool(each.first.is_right), bool(each.second.is_right)]
    return ChangedItem(item=named(each.name), is_right=is_right, keys=[each.first.key, each.second.key])


def _compared(key: str, values: Sequence[Mapping[str, Any] | None]) -> ComparedRow:
    told = [None if each is None else dict(each) for each in values]
    return ComparedRow(key=key, values=told, differs=any(each != told[0] for each in told))


def _cursor(opened: Opened, attempt: int | None, place: Place | None) -> str | None:
    if place is None or attempt is None:
        return None
    value = msgspec.json.encode(plain(place.value)).decode()
    return paging.encode(opened.list_name, attempt, place.key, value)


def _placed(opened: Opened, after: str) -> tuple[int, Place]:
    """Return the attempt and the place in a cursor. Raises `Rejected` for one of another list."""
    attempt, key, encoded = paging.decode(opened.list_name, after, int, str, str)
    by = opened.chosen.sorted_by
    try:
        value = msgspec.json.decode(str(encoded))
    except msgspec.MsgspecError:
        value = []
    column = Column("", type="text" if by is None else by.type)
    is_known = value is None or (by is not None and is_of(column, value))
    if not is_known or (isinstance(value, int) and abs(value) > WHOLE_MAX):
        raise Rejected("bad_cursor", "`after` is not a cursor of this list of results; take it from `next`")
    return int(attempt), Place(str(key), value)
