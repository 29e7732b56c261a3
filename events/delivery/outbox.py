"""The outbox: a worker's durable queue of events that are not acknowledged yet.

Law: an event gets its id, time and sequence here, in the one SQLite transaction that stores it. The
transaction of an end event also stores how the attempt shall be settled and with which token, so that a
crash after it leaves an intention to settle. A row is deleted only by a verdict of its own.

A database that stands behind its high-water mark was changed from outside: it gives no sequence twice, and
what it lost is told in the log of the run.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from events.catalog import ENDS, RunLog
from events.delivery.durable_sqlite import commit, lock_file, open_database
from events.delivery.event_encoder import MESSAGE_MAX, Row, bounded, cut, fact_frame, refusal_of, with_line
from events.delivery.high_water_mark import Mark, MarkFile
from events.delivery.pipe import FactFrame
from events.kinds.declaring.fact import Fact
from events.queue.settlement import End
from events.record_digest import NOTHING, chained
from events.runtime.clock import Clock, Ids, timestamp
from events.runtime.errors import ConfigError, Conflict, Rejected, Transient
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

OUTBOX_BYTES_MAX: Final = 1 << 30
RESERVE_BYTES: Final = 1 << 20  # kept free on the disk so that an end, or a verdict, always finds room
DUE_EVENTS: Final = 50  # so many waiting events are worth a request at once
SCHEMA_VERSION: Final = 3
UPGRADES: Final = {
    1: "ALTER TABLE attempts ADD COLUMN traceparent TEXT;",
    2: "ALTER TABLE attempts ADD COLUMN root TEXT;",
}
SCHEMA: Final = """
CREATE TABLE attempts (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  token TEXT NOT NULL,
  source TEXT NOT NULL,
  collection TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'ended', 'over')),
  last INTEGER NOT NULL DEFAULT 0,
  how TEXT,
  traceparent TEXT,
  root TEXT,
  UNIQUE (run_id, attempt)
);
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  attempt_key INTEGER NOT NULL REFERENCES attempts (key),
  sequence INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  line BLOB NOT NULL,
  UNIQUE (attempt_key, sequence)
);
"""
ATTEMPTS: Final = """
SELECT key, state, how, run_id, attempt, token, source, collection, last, traceparent, root FROM attempts
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that this worker holds or has held.

    `last` is the highest sequence given, `root` that of the lines 1 to `last` (`record_digest.py`); None for
    an attempt that an earlier version opened.
    """

    run_id: str
    attempt: int
    token: str = field(repr=False)
    source: str
    collection: str
    last: int
    traceparent: str | None = None
    root: str | None = None

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt of which run it belongs to."""
        return AttemptId(self.run_id, self.attempt)


@dataclass(frozen=True, slots=True)
class Intention:
    """An attempt that ended here and is still to be settled; its `last` is the end's own sequence."""

    attempt: Attempt
    how: End


CHANGED: Final = (
    "the disk of the pod was changed under it: its outbox has lost the events {first} to {last}"
    " of this attempt; some may not have been delivered"
)


class _Said(msgspec.Struct):
    time: str | None = None


class Outbox:
    """The spool of one data directory; safe for any number of threads of one process."""

    def __init__(self, path: Path, *, clock: Clock, ids: Ids, bytes_max: int = OUTBOX_BYTES_MAX) -> None:
        """Open or create the spool. Raises `ConfigError` when another process has it, or it is unreadable."""
        self._path = path
        self._clock = clock
        self._ids = ids
        self._bytes_max = bytes_max
        self._lock = threading.RLock()
        self._guard = lock_file(path.with_name(f"{path.name}.lock"))
        try:
            self._db = open_database(path, SCHEMA, version=SCHEMA_VERSION, upgrades=UPGRADES)
        except ConfigError:
            os.close(self._guard)
            raise
        self._reserve = path.with_name(f"{path.name}.reserve")
        self._has_reserve = False
        self._keep_reserve()
        if not self._has_reserve:
            log.warning("outbox.no_reserve", extra={"path": str(self._reserve)})
        self._marks = MarkFile(path.with_name(f"{path.name}.mark"))
        self._mark: Mark | None = None
        self._pending: int = self._db.execute("SELECT count(*) FROM events").fetchone()[0]
        self.due = threading.Event()  # set when a request is worth sending without waiting longer
        self._compare(self._marks.read())
        self._announce()

    def close(self) -> None:
        """Close the files; stored events stay for the next `Outbox`."""
        with self._lock:
            self._db.close()
            self._marks.close()
            os.close(self._guard)

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_attempt(
        self,
        attempt_id: AttemptId,
        *,
        token: str,
        source: str,
        collection: str,
        traceparent: str | None = None,
    ) -> Attempt:
        """Start the log of an attempt; a claim that was found again continues its log."""

        def step(db: sqlite3.Connection) -> tuple[int, Attempt]:
            db.execute(
                "INSERT INTO attempts (run_id, attempt, token, source, collection, traceparent, root)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*attempt_id, token, source, collection, traceparent, NOTHING),
            )
            key, state, known = _find(db, attempt_id)
            if known.token != token or state != "open":
                raise Conflict("attempt_closed", f"{attempt_id.words} was opened and ended before")
            return key, known

        with self._lock:
            key, opened = self._write(step)
            self._mark = _mark_of(key, opened, self._pending)
            self._marks.write(self._mark, durable="now")
        return opened

    def append(self, attempt_id: AttemptId, facts: Sequence[Fact | FactFrame]) -> int:
        """Store all of `facts`, in this order, or none; return the last assigned sequence.

        Raises `Conflict` after the attempt's end, `Transient` with OUTBOX_FULL at the stated limit, with
        DISK_FULL or DISK_FAILED where the disk does not take it.
        """
        frames = [fact_frame(fact) for fact in facts]
        if any(one.type in ENDS for one in frames):
            raise Rejected("end_without_settlement", "an end event is kept by append_end")
        with self._lock:
            if self.is_full():
                raise self._limit_reached()
            last = self._write(lambda db: self._insert(db, attempt_id, frames))
            self._count(len(frames))
            self._note(attempt_id, last=last)
        return last

    def append_end(self, attempt_id: AttemptId, fact: Fact | FactFrame, how: End) -> Intention:
        """Store the attempt's last event together with the intention to settle; no limit refuses it."""
        end = bounded(fact_frame(fact))
        if end.type not in ENDS:
            raise Rejected("not_an_end", f"{end.type} does not end an attempt")
        how = how if how.message is None else replace(how, message=cut(how.message, MESSAGE_MAX))

        def step(db: sqlite3.Connection) -> Intention:
            self._insert(db, attempt_id, [end])
            db.execute(
                "UPDATE attempts SET state = 'ended', how = ? WHERE run_id = ? AND attempt = ?",
                (msgspec.json.encode(how).decode(), *attempt_id),
            )
            return Intention(_find(db, attempt_id)[2], how)

        with self._lock:
            intention = self._write(step, urgent=True)
            self._count(1)
            self._note(attempt_id, last=intention.attempt.last)
            self.due.set()
        return intention

    def find(self, attempt_id: AttemptId) -> Attempt:
        """Return an attempt whose events are kept here. Raises `Conflict`."""
        with self._lock:
            return _find(self._db, attempt_id)[2]

    def unsettled(self) -> list[Intention]:
        """Return the ends whose settlement was not confirmed yet, oldest first."""
        rows = self._read(f"{ATTEMPTS} WHERE state = 'ended' ORDER BY key")
        return [Intention(Attempt(*row), msgspec.json.decode(how, type=End)) for _, _, how, *row in rows]

    def unended(self) -> list[Attempt]:
        """Return the attempts without an end, oldest first: after a crash, those that it cut off."""
        rows = self._read(f"{ATTEMPTS} WHERE state = 'open' ORDER BY key")
        return [Attempt(*row) for _, _, _, *row in rows]

    def mark_settled(self, attempt_id: AttemptId) -> None:
        """Record that the attempt is settled in the store; its stored events are still delivered."""
        self._end(attempt_id, "ended")

    def lose(self, attempt_id: AttemptId, how: End) -> None:
        """Store the intention to settle an open attempt that a crash cut off, without an event of its end."""

        def step(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE attempts SET state = 'ended', how = ?"
                " WHERE run_id = ? AND attempt = ? AND state = 'open'",
                (msgspec.json.encode(how).decode(), *attempt_id),
            )

        self._write(step, urgent=True)

    def abandon(self, attempt_id: AttemptId) -> None:
        """Close an attempt without an end, as after a lost lease; its stored events are still delivered."""
        self._end(attempt_id, "open")

    def batch(self, events_max: int, bytes_max: int, without: Collection[AttemptId] = ()) -> list[Row]:
        """Return the oldest events of one attempt within both limits, and at least one when there is any.

        It is the attempt that was opened first, but for those of `without`.
        """
        rows: list[Row] = []
        size = 0
        with self._lock:
            waiting = self._db.execute(
                "SELECT key, run_id, attempt FROM attempts AS a"
                " WHERE EXISTS (SELECT 1 FROM events WHERE attempt_key = a.key) ORDER BY key"
            ).fetchall()
            first = next((key for key, *name in waiting if tuple(name) not in without), None)
            found = self._db.execute(
                "SELECT e.position, e.id, e.type, a.run_id, a.attempt, e.sequence, a.source, e.line,"
                " a.traceparent, a.token"
                " FROM events AS e JOIN attempts AS a ON a.key = e.attempt_key"
                " WHERE e.attempt_key = ? ORDER BY e.sequence LIMIT ?",
                (first, events_max),
            )
            for values in found:
                row = Row(*values)
                size += len(row.line) + 1
                if rows and size > bytes_max:
                    break
                rows.append(row)
            found.close()
        return rows

    def confirm(self, rows: Sequence[Row]) -> None:
        """Delete events that are stored by ingest or permanently refused; repeating it changes nothing."""
        done = [(row.position, row.id) for row in rows if row.position is not None]
        if not done:
            return

        def step(db: sqlite3.Connection) -> int:
            gone = db.executemany("DELETE FROM events WHERE position = ? AND id = ?", done).rowcount
            _drop_finished(db)
            return gone

        with self._lock:
            self._count(-self._write(step, urgent=True))
            if self._pending == 0 and self._mark is not None:
                self._note(self._mark.attempt_id)
            if not self._has_reserve and self._pending == 0:
                self._keep_reserve()

    def replace_refused(self, row: Row, code: str, message: str) -> None:
        """Put `ai.run.event_refused` with the same sequence in the place of a line refused for good."""
        refusal = refusal_of(row, code, message)
        self._write(
            lambda db: db.execute(
                "UPDATE events SET id = ?, type = ?, line = ? WHERE position = ? AND id = ?",
                (refusal.id, refusal.type, refusal.line, row.position, row.id),
            ),
            urgent=True,
        )

    def pending(self, run_id: str | None = None) -> int:
        """Return how many events wait, of one run or of all."""
        if run_id is None:
            return self._pending
        ((count,),) = self._read(
            "SELECT count(*) FROM events WHERE attempt_key IN (SELECT key FROM attempts WHERE run_id = ?)",
            (run_id,),
        )
        return int(count)

    def oldest_at(self) -> str | None:
        """Return when the oldest waiting event was said, by the pod's clock; None where none waits."""
        for (line,) in self._read("SELECT line FROM events ORDER BY position LIMIT 1"):
            return msgspec.json.decode(line, type=_Said).time
        return None

    def has_left(self, attempt_id: AttemptId, sequence: int) -> bool:
        """Say whether every event of the attempt up to `sequence` has left."""
        waiting = self._read(
            "SELECT 1 FROM events WHERE sequence <= ? AND attempt_key ="
            " (SELECT key FROM attempts WHERE run_id = ? AND attempt = ?) LIMIT 1",
            (sequence, *attempt_id),
        )
        return not waiting

    def size_bytes(self) -> int:
        """Return the bytes in use; freed ones are used again, so the file does not outgrow the limit."""
        with self._lock:
            return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    def check_room(self) -> None:
        """Raise `Transient` (OUTBOX_FULL, DISK_FULL) if a new attempt would soon have to stop."""
        with self._lock:
            if self.is_full():
                raise self._limit_reached()
            if not self._has_reserve:
                self._keep_reserve()
            if not self._has_reserve:
                raise Transient("DISK_FULL", f"the disk of {self._path.parent} has no room for a new attempt")

    def is_full(self) -> bool:
        """Return whether the stated limit is reached: nothing but ends is taken until events have left."""
        return self.size_bytes() >= self._bytes_max

    def _limit_reached(self) -> Transient:
        return Transient("OUTBOX_FULL", f"{self._path} holds its limit of {self._bytes_max} bytes")

    def _insert(self, db: sqlite3.Connection, attempt_id: AttemptId, frames: Sequence[FactFrame]) -> int:
        key, state, known = _find(db, attempt_id)
        if state != "open":
            raise Conflict("attempt_closed", f"{attempt_id.words} has ended")
        time = timestamp(self._clock.now())
        rows = [
            with_line(
                Row(
                    None, self._ids.ulid(), one.type, *attempt_id, n, known.source,
                    traceparent=known.traceparent,
                ),
                one.data,
                time,
            )
            for n, one in enumerate(frames, known.last + 1)
        ]  # fmt: skip
        db.executemany(
            "INSERT INTO events (attempt_key, sequence, id, type, line) VALUES (?, ?, ?, ?, ?)",
            [(key, row.sequence, row.id, row.type, row.line) for row in rows],
        )
        last, root = known.last + len(rows), known.root
        if root is not None:
            for row in rows:
                root = chained(root, row.digest)
        db.execute("UPDATE attempts SET last = ?, root = ? WHERE key = ?", (last, root, key))
        return last

    def _end(self, attempt_id: AttemptId, state: str) -> None:
        def step(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE attempts SET state = 'over' WHERE run_id = ? AND attempt = ? AND state = ?",
                (*attempt_id, state),
            )
            _drop_finished(db)

        with self._lock:
            self._write(step, urgent=True)
            self._note(attempt_id, is_over=True)

    def _note(self, attempt_id: AttemptId, **changed: Any) -> None:
        """Write what changed of the attempt that was opened last into the mark."""
        if self._mark is not None and self._mark.attempt_id == attempt_id:
            self._mark = msgspec.structs.replace(self._mark, waiting=self._pending, **changed)
            self._marks.write(self._mark)

    def _compare(self, mark: Mark | None) -> None:
        """Compare the database with its mark; where it stands behind, say so, and go on after the mark."""
        self._mark = mark
        if mark is None or (mark.is_over and not mark.waiting):
            return
        known = self._read(f"{ATTEMPTS} WHERE run_id = ? AND attempt = ?", mark.attempt_id)
        ((highest,),) = self._read(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'attempts'"
        )
        stands_at = known[0][8] if known else 0
        if (not known and highest >= mark.key) or stands_at >= mark.last:
            return

        def step(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO attempts (run_id, attempt, token, source, collection, traceparent, last)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last, root = NULL",
                (*mark.attempt_id, mark.token, mark.source, mark.collection, mark.traceparent, mark.last),
            )

        self._write(step, urgent=True)
        first, last = stands_at + 1, mark.last
        log.error(
            "outbox.changed",
            extra={"run": mark.run_id, "attempt": mark.attempt, "path": str(self._path), "first": first,
                   "last": last, "waited": mark.waiting},
        )  # fmt: skip
        key, state, found = _find(self._db, mark.attempt_id)
        self._mark = _mark_of(key, found, self._pending)
        if mark.waiting and state == "open":
            frame = fact_frame(RunLog(message=CHANGED.format(first=first, last=last), level="warning"))
            last = self._write(lambda db: self._insert(db, mark.attempt_id, [frame]), urgent=True)
            self._count(1)
            self._note(mark.attempt_id, last=last)

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _write(self, step: Callable[[sqlite3.Connection], T], *, urgent: bool = False) -> T:
        """Run `step` in one transaction; an urgent one may use up the reserve on a full disk."""
        with self._lock:
            try:
                return commit(self._db, step)
            except Transient:
                if not (urgent and self._has_reserve):
                    raise
                self._reserve.unlink(missing_ok=True)
                self._has_reserve = False
                return commit(self._db, step)

    def _keep_reserve(self) -> None:
        # A disk without room for it is full by now; the next empty outbox tries again.
        with suppress(OSError), self._reserve.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            self._has_reserve = True

    def _count(self, change: int) -> None:
        self._pending += change
        self._announce()

    def _announce(self) -> None:
        if self._pending >= DUE_EVENTS:
            self.due.set()


def _find(db: sqlite3.Connection, attempt_id: AttemptId) -> tuple[int, str, Attempt]:
    found = db.execute(f"{ATTEMPTS} WHERE run_id = ? AND attempt = ?", attempt_id).fetchone()
    if found is None:
        raise Conflict("attempt_closed", f"{attempt_id.words} is not open here")
    key, state, _, *row = found
    return key, state, Attempt(*row)


def _mark_of(key: int, attempt: Attempt, waiting: int) -> Mark:
    return Mark(
        key=key,
        run_id=attempt.run_id,
        attempt=attempt.attempt,
        token=attempt.token,
        source=attempt.source,
        collection=attempt.collection,
        traceparent=attempt.traceparent,
        last=attempt.last,
        waiting=waiting,
    )


def _drop_finished(db: sqlite3.Connection) -> None:
    db.execute(
        "DELETE FROM attempts WHERE state = 'over' AND NOT EXISTS"
        " (SELECT 1 FROM events WHERE events.attempt_key = attempts.key)"
    )
