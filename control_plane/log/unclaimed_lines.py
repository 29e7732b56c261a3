"""Numbered events of unclaimed attempts: kept apart until the claim, dead letters after it.

Law: only the holder of an attempt numbers its events. Events of other senders from before the claim never
enter its log, so no line of the holder can collide with them. A claim may be made in the database, without
a control plane. So a loop looks for claimed attempts, and a repeated look does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bson.raw_bson import RawBSONDocument

from control_plane.store.database import Document
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import CONTROL_PLANE_SOURCE, Arrival, Events, storable
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.queue.runs import BATCH_MAX, Runs
from events.catalog import RunLog, data_of, type_of
from events.envelope import Event
from events.runtime.clock import Clock, Ids, timestamp

LETTER_LIFE: Final = timedelta(days=30)
UNCLAIMED: Final = "unclaimed"
LETTER_PREFIX: Final = "early/"


@dataclass(frozen=True, slots=True)
class UnclaimedLines:
    """Turns lines that arrived before their attempt's claim into dead letters."""

    store: UnclaimedStore
    runs: Runs
    events: Events
    documents: Documents
    clock: Clock
    ids: Ids

    async def run_once(self) -> int:
        """Do one round; return how many lines became dead letters. Several replicas may run it at once."""
        closed, after = 0, ""
        while page := await self.store.attempts(after):
            found = await self.runs.find_all({run_id for _, run_id, _ in page})
            over = [
                identity
                for identity, run_id, attempt in page
                if run_id in found and attempt <= found[run_id].run.attempt
            ]
            if over:
                await self._close(await self.store.read(over))
            closed += len(over)
            after = page[-1][0]
            if len(page) < BATCH_MAX:
                break
        return closed

    async def _close(self, lines: Sequence[Document]) -> None:
        """Write dead letters and notices, then delete the lines; the next round repeats a broken one."""
        await self.documents.refuse([self._letter(line) for line in lines])
        attempts = sorted({(line["runId"], line["attempt"]) for line in lines})
        await self.events.append([self._notice(*each) for each in attempts])
        await self.store.drop([line["_id"] for line in lines])

    def _letter(self, line: Document) -> Document:
        now = self.clock.now()
        kept = {name: line[name] for name in ("line", "runId", "attempt", "sequence", "principal")}
        message = (
            f"attempt {line['attempt']} was claimed: its numbers are its holder's, this line came before"
        )
        # A sender may say the same id of many attempts.
        letter_id = f"{LETTER_PREFIX}{line['_id']}/a{line['attempt']}"
        letter = {"_id": letter_id, "at": now, "code": UNCLAIMED, "message": message}
        return {**letter, **kept, "expiresAt": now + LETTER_LIFE}

    def _notice(self, run_id: str, attempt: int) -> RawBSONDocument:
        now = self.clock.now()
        fact = RunLog(
            level="warn",
            message=f"numbered events came for attempt {attempt} before anybody had claimed it;"
            " they are no part of its log, and are kept as dead letters",
        )
        event = Event(
            id=f"early-a{attempt}", source=CONTROL_PLANE_SOURCE, type=type_of(RunLog), run_id=run_id,
            attempt=attempt, sequence=None, time=timestamp(now),
            data=data_of(fact), fact=fact,
        )  # fmt: skip
        # An id that is no digest: no sender can take it first.
        return storable(event, Arrival(self.ids.ulid(), now), f"{run_id}/{event.id}")
