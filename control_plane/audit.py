"""Holds a live database against its own log: replays every run and compares, changing nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from control_plane.projection import attempt_id
from control_plane.replay import Replayed, replay
from control_plane.store.audit import AuditReads
from control_plane.store.database import Document
from control_plane.store.events import decode
from control_plane.store.runs import decode_entry


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between the log and what is stored."""

    run_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Auditor:
    """Reads only; a run that moves between two reads is read again."""

    reads: AuditReads

    async def rebuild(self) -> AsyncIterator[Finding]:
        """Yield every difference of every run, in id order."""
        async for collection, run_id in self.reads.run_ids():
            for finding in await self.examine(collection, run_id):
                yield finding

    async def examine(self, collection: str, run_id: str) -> list[Finding]:
        """Return the differences of one run."""
        while True:
            before = await self.reads.run(collection, run_id)
            if before is None:
                return []
            told, messages = await self._compare(run_id, before)
            after = await self.reads.run(collection, run_id)
            if after is not None and _position(after) == _position(before):
                return [Finding(run_id, message) for message in [*told.problems, *messages]]

    async def _compare(self, run_id: str, stored: Document) -> tuple[Replayed, list[str]]:
        history = await self.reads.history(run_id)
        logged = {each["revision"] for each in history if "revision" in each}
        entries = [decode_entry(each["data"]) for each in history if "revision" in each]
        # What still waits in the journal is part of the history, and moves into the log soon.
        entries += [decode_entry(each) for each in stored["journal"] if each["n"] not in logged]
        told = replay(run_id, entries, [decode(each) for each in history if "sequence" in each])
        messages = _differences("the run", told.fields, stored)
        for write in told.writes.values():
            document = await self.reads.document(write.collection, write.id)
            messages += _differences(f"{write.collection} {write.id}", write.fields, document)
        for attempt, folded in told.attempts.items():
            document = await self.reads.document("attempts", attempt_id(run_id, attempt))
            expected = {"lastEventSeq": folded.seq, "endSeq": folded.view.end_seq, "error": folded.view.error}
            messages += _differences(f"attempt {attempt}", expected, document)
        return told, messages


def _differences(what: str, expected: Any, stored: Document | None) -> list[str]:
    if stored is None:
        return [f"{what} is not stored"]
    return [
        f"{what}: {name} is {stored.get(name)!r}, the log says {value!r}"
        for name, value in expected.items()
        if stored.get(name) != value
    ]


def _position(run: Document) -> tuple[int, int]:
    return run["revision"], run["lastEventSeq"]
