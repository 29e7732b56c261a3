"""What an outbox was given, written into the outbox itself by triggers.

The rows of an outbox leave with their verdicts; the ledger's stay. They are written in the
very transaction that gives an event its sequence, so that neither can be without the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from events.delivery.outbox import Outbox
from events.runtime.clock import Clock, Ids
from events.runtime.errors import ConfigError

TRIGGERS: Final = """
CREATE TABLE IF NOT EXISTS ledger (
  run_id TEXT NOT NULL, attempt INTEGER NOT NULL, sequence INTEGER NOT NULL, id TEXT NOT NULL,
  type TEXT NOT NULL, is_refusal INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS given AFTER INSERT ON events BEGIN
  INSERT INTO ledger SELECT run_id, attempt, NEW.sequence, NEW.id, NEW.type, 0
  FROM attempts WHERE key = NEW.attempt_key; END;
CREATE TRIGGER IF NOT EXISTS replaced AFTER UPDATE ON events BEGIN
  INSERT INTO ledger SELECT run_id, attempt, NEW.sequence, NEW.id, NEW.type, 1
  FROM attempts WHERE key = NEW.attempt_key; END;
"""


@dataclass(frozen=True, slots=True)
class Given:
    """One event that an outbox took; `is_refusal` where it stands for one that ingest refused."""

    run_id: str
    attempt: int
    sequence: int
    id: str
    type: str
    is_refusal: bool


def install(outbox: Path, clock: Clock, ids: Ids) -> None:
    """Create the outbox where it is missing, and let it keep a ledger. Raises `ConfigError`."""
    with Outbox(outbox, clock=clock, ids=ids):
        pass
    db = sqlite3.connect(outbox)
    try:
        db.executescript(f"BEGIN; {TRIGGERS} COMMIT")
    except sqlite3.Error as error:
        raise ConfigError([f"{outbox} cannot keep a ledger: {error}"]) from error
    finally:
        db.close()


def given(outbox: Path) -> Iterator[Given]:
    """Yield what an outbox was given, oldest first."""
    query = "SELECT run_id, attempt, sequence, id, type, is_refusal FROM ledger ORDER BY rowid"
    for run_id, attempt, sequence, identity, name, is_refusal in _rows(outbox, query):
        yield Given(run_id, attempt, sequence, identity, name, bool(is_refusal))


def waiting(outbox: Path) -> Iterator[tuple[str, int, int]]:
    """Yield run, attempt and sequence of the events that are still in an outbox."""
    query = (
        "SELECT a.run_id, a.attempt, e.sequence FROM events AS e JOIN attempts AS a ON a.key = e.attempt_key"
    )
    yield from _rows(outbox, query)


def _rows(outbox: Path, query: str) -> list[Any]:
    # Not read-only: a write-ahead log that a kill left behind is taken in first.
    db = sqlite3.connect(outbox)
    try:
        if _is_unused(db):
            return []
        return db.execute(query).fetchall()
    finally:
        db.close()


def _is_unused(db: sqlite3.Connection) -> bool:
    """Tell whether a kill came before the ledger was made, and so before anything was given."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "ledger" in tables:
        return False
    return "attempts" not in tables or db.execute("SELECT 1 FROM attempts").fetchone() is None
