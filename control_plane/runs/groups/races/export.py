"""Writes the export of a race: its laps as CSV, or a signed ZIP with its events and what its lanes measured.

Law: of the events no more than a page of each lane is held; the manifest comes last, with all hashes.
"""

from __future__ import annotations

import asyncio
import csv
import heapq
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import msgspec

from control_plane.reads.reading import Reading
from control_plane.reads.results.archive import Signer, Writing
from events.answers.logs import LoggedEvent
from events.answers.plans.races import Race, RacedLane
from events.files.export_zip import MANIFEST, SIGNATURE, Key, Manifest
from events.text.escaping import spreadsheet_cell

EVENTS_PAGE: Final = 200  # of each lane
PIECE_EVENTS: Final = 200
BEFORE: Final = ("round", "slot", "pod", "run_id", "state", "status", "place", "lap")


@dataclass(frozen=True, slots=True)
class RaceArchive:
    """The archive of a round of a race, ready to be written."""

    race: Race
    key: Key
    made_at: datetime


def opened(race: Race, signer: Signer, made_at: datetime) -> RaceArchive:
    """Return the archive of a round. Raises `Conflict` where no key signs."""
    return RaceArchive(race, signer.require(), made_at)


async def archived(archive: RaceArchive, reading: Reading, signer: Signer) -> AsyncIterator[bytes]:
    """Yield the archive piece by piece."""
    race, writing = archive.race, Writing()
    yield _file(writing, "metadata.json", _json(metadata(race)))
    yield b"".join(writing.begun("events.ndjson"))
    count = 0
    async for lines in _events(reading, race):
        count += len(lines)
        yield b"".join(writing.added(b"".join(lines)))
    yield b"".join(writing.ended(count))
    for name, made in (("summary.json", lambda: _json(summary(race))), ("laps.csv", lambda: laps_csv(race))):
        yield _file(
            writing, name, await asyncio.to_thread(made)
        )  # beside the event loop: pods decide how much
    manifest = Manifest(
        run_id=race.id,
        kind=race.kind[:200],
        attempt=race.round,
        made_at=archive.made_at.isoformat(),
        key=archive.key,
        files=writing.files,
    )
    raw = _json(manifest)
    for name, last in ((MANIFEST, raw), (SIGNATURE, signer.sign(raw))):
        yield b"".join([writing.zip.begun(name), writing.zip.added(last), writing.zip.ended()])
    yield writing.zip.closed()


def metadata(race: Race) -> dict[str, Any]:
    """Return what was asked, of which machines, with which settings."""
    texts = {name: value for name, value in race.spec.items() if isinstance(value, str)}
    settings = {name: value for name, value in race.spec.items() if name not in texts}
    return {
        **texts,
        "run_id": race.id,
        "round": race.round,
        "kind": race.kind,
        "started_at": race.start_at,
        "machines": [
            {"pod": each.pod, "run_id": each.run_id, "parameters": each.parameters, "machine": each.machine}
            for each in race.lanes
        ],
        "settings": {
            **settings,
            "measure": race.measure,
            "ready_s": race.ready_s,
            "limit_s": race.limit_s,
        },
        "skew_s": race.skew_s,
        "verdict": race.verdict,
    }


def summary(race: Race) -> dict[str, Any]:
    """Return of each machine its numbers, by the name of its pod, or its slot where that is not known."""
    return {
        each.pod or f"slot {each.slot}": {
            "state": each.state,
            "status": each.status,
            "place": each.place,
            "late_s": each.late_s,
            "finish_s": each.finish_s,
            "laps": len(each.laps),
            "metrics": {name: figure.mean for name, figure in each.figures.items()},
            "figures": each.figures,
        }
        for each in race.lanes
    }


def laps_csv(race: Race) -> bytes:
    """Return a line for each lap; of a lane without laps one line, with the numbers of its run."""
    measured = [list(lap.values) for lane in race.lanes for lap in lane.laps]
    names = list(dict.fromkeys(chain(*measured, *(lane.figures for lane in race.lanes))))
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([*BEFORE, *names])
    for lane in race.lanes:
        for lap, values in _laps(lane):
            told: list[Any] = [
                race.round,
                lane.slot,
                lane.pod,
                lane.run_id,
                lane.state,
                lane.status,
                lane.place,
                lap,
            ]
            lines.writerow([spreadsheet_cell(each) for each in [*told, *map(values.get, names)]])
    return text.getvalue().encode("utf-8", "replace")


def _laps(lane: RacedLane) -> Iterator[tuple[int | None, dict[str, Any]]]:
    if not lane.laps:
        yield None, {name: each.mean for name, each in lane.figures.items()}
    for each in lane.laps:
        yield each.lap, each.values


async def _events(reading: Reading, race: Race) -> AsyncIterator[list[bytes]]:
    """Yield the events of all lanes in the order in which they came in, some lines at a time."""
    lanes = [_log(reading, each.run_id) for each in race.lanes if each.run_id is not None]
    heap: list[tuple[str, int, LoggedEvent]] = []
    for place, log in enumerate(lanes):
        if (first := await anext(log, None)) is not None:
            heap.append((first.received_at or "", place, first))
    heapq.heapify(heap)
    lines: list[bytes] = []
    while heap:
        _, place, event = heap[0]
        lines.append(msgspec.json.encode(event) + b"\n")
        following = await anext(lanes[place], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following.received_at or "", place, following))
        if len(lines) >= PIECE_EVENTS:
            yield lines
            lines = []
    if lines:
        yield lines


async def _log(reading: Reading, run_id: str) -> AsyncIterator[LoggedEvent]:
    """Yield the events of a run in the order of its log."""
    after: str | None = None
    while True:
        page = await reading.events(run_id, after=after, limit=EVENTS_PAGE, newest_first=False)
        for each in page.items:
            yield each
        if page.next is None:
            return
        after = page.next


def _file(writing: Writing, name: str, content: bytes) -> bytes:
    return b"".join([*writing.begun(name), *writing.added(content), *writing.ended(None)])


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
