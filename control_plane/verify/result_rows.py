"""Compares rows of results with the events that recorded them, page by page.

Law: a row is what the event at its `seq` says, and no event that was applied is newer than its row. Both
are looked at one by one, so that a run may have any number of rows. An event that is not applied yet needs no
row, and a row may be ahead of the cursor, because application writes rows first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from control_plane.model.projection import RESULTS, result_write
from control_plane.store.verify.evidence import Document, readable
from control_plane.verify.invariants import Case, applied_to
from control_plane.verify.repair import Change, Insert, Remove, Repair
from events.catalog import ResultRecorded


class Rows(Protocol):
    """The stored rows of a run, and the events that recorded them."""

    def pages(self, run_id: str) -> AsyncIterator[Sequence[Document]]: ...

    def recorded(self, run_id: str) -> AsyncIterator[Sequence[Document]]: ...

    async def rows(self, ids: Sequence[str]) -> Mapping[str, Document]: ...

    async def events_at(
        self, run_id: str, positions: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Document]: ...


@dataclass(frozen=True, slots=True)
class Reach:
    """Of an attempt: up to where its events were applied, and its last position, if it has ended."""

    applied: int
    last: int | None


async def row_repairs(rows: Rows, case: Case) -> AsyncIterator[Repair]:
    """Yield the writes that make the rows of a run equal to its log."""
    evidence = case.evidence
    kind, reaches = str(evidence.run.get("kind")), reaches_of(case)
    async for page in rows.pages(evidence.run_id):
        named = [position for each in page if (position := _position(each)) is not None]
        events = await rows.events_at(evidence.run_id, named)
        for each in page:
            for repair in _of_row(kind, each, events, reaches):
                yield repair
    async for page in rows.recorded(evidence.run_id):
        newest = _newest(kind, page, reaches)
        stored = await rows.rows([*newest])
        for identity, expected in newest.items():
            was = stored.get(identity)
            if was is None:
                yield Insert(RESULTS, expected)
            elif (_number(was.get("seq")) or 0) < expected["seq"]:
                yield _changed(was, expected)


def reaches_of(case: Case) -> Mapping[int, Reach]:
    """Return the reach of each attempt."""
    applied, sealed = applied_to(case.evidence), case.replayed.fields.get("sealed")
    found: dict[int, Reach] = {}
    for attempt, folded in case.replayed.attempts.items():
        last = folded.view.end_seq
        if sealed and sealed["attempt"] == attempt:
            last = sealed["last"] if last is None else min(last, sealed["last"])
        reach = min(applied.get(attempt, 0), folded.seq)
        found[attempt] = Reach(reach if last is None else min(reach, last), last)
    return found


def _of_row(
    kind: str,
    row: Document,
    events: Mapping[tuple[int, int], Document],
    reaches: Mapping[int, Reach],
) -> Iterator[Repair]:
    position = _position(row)
    event = None if position is None else events.get(position)
    expected = None if event is None else _row(kind, event)
    if position is not None and expected is not None:
        reach = reaches.get(position[0], Reach(0, None))
        if reach.last is not None and position[1] > reach.last:
            expected = None
    if expected is None or expected["_id"] != row["_id"]:
        yield Remove(RESULTS, row)
    elif {name: value for name, value in row.items() if value is not None or name in expected} != expected:
        yield _changed(row, expected)


def _newest(kind: str, page: Sequence[Document], reaches: Mapping[int, Reach]) -> dict[str, dict[str, Any]]:
    """Return, by id, the newest rows that applied events of a page make."""
    found: dict[str, dict[str, Any]] = {}
    for event in page:
        position = (_number(event.get("attempt")), _number(event.get("sequence")))
        reach = reaches.get(position[0] or 0)
        if reach is None or position[1] is None or position[1] > reach.applied:
            continue
        row = _row(kind, event)
        if row is not None and row["seq"] > found.get(row["_id"], {"seq": 0})["seq"]:
            found[row["_id"]] = row
    return found


def _row(kind: str, document: Document) -> dict[str, Any] | None:
    """Return the row that a stored event makes; None if it makes none."""
    event = readable(document) if "sequence" in document else None
    if event is None or not isinstance(event.fact, ResultRecorded):
        return None
    write = result_write(kind, event, event.fact)
    return {"_id": write.id, **write.fields, "seq": write.seq}


def _changed(was: Document, expected: Mapping[str, Any]) -> Change:
    sets = {name: value for name, value in expected.items() if was.get(name) != value or name not in was}
    return Change(RESULTS, was, sets, [name for name in was if name not in expected])


def _position(row: Document) -> tuple[int, int] | None:
    attempt, sequence = _number(row.get("attempt")), _number(row.get("seq"))
    return None if attempt is None or sequence is None else (attempt, sequence)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def difference(repair: Repair) -> str:
    """Return in words how stored rows differ from the log."""
    match repair:
        case Insert(document=document):
            return f"{RESULTS} {document['_id']} is not stored"
        case Remove(was=was):
            return f"{RESULTS} {was['_id']} is stored, and no event tells of it"
        case Change():
            return f"{repair}: the log says the latter"
