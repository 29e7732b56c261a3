"""Holds the rows of results of an archive against the events that recorded them, pure.

Law: as for stored rows (`verify/result_rows.py`): a row is what the event at its position says, and no event
that was applied is newer than its row. Of each row a digest is held, since a run may have many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.model.projection import RESULTS, result_write
from control_plane.store.verify.evidence import readable
from control_plane.verify.result_rows import Reach
from events.catalog import ResultRecorded, type_of
from events.files.archive import extended_json
from events.runtime.errors import Rejected

ROWS_MAX: Final = 200_000  # twice what a run records: some 60 MB
RECORDED: Final = type_of(ResultRecorded)


@dataclass(slots=True)
class _Row:
    attempt: int
    sequence: int
    digest: bytes
    is_recorded: bool = False
    newer: int | None = None  # the first event beyond it that records the row again


@dataclass(slots=True)
class ImportedRows:
    """The rows of a run of `kind`; all of them come before the events."""

    kind: str
    _rows: dict[str, _Row] = field(default_factory=dict)
    _lacking: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a row. Raises `Rejected`."""
        if len(self._rows) >= ROWS_MAX:
            raise Rejected("too_large", f"it has over {ROWS_MAX:,} rows of results")
        if row["_id"] in self._rows:
            raise Rejected("bad_document", f"{RESULTS} {row['_id']} is in it twice")
        self._rows[row["_id"]] = _Row(row["attempt"], row["seq"], _digest(row))

    def note(self, document: Mapping[str, Any]) -> None:
        """Take a numbered event. Raises `Rejected`."""
        event = readable(document) if document["type"] == RECORDED else None
        if event is None or not isinstance(event.fact, ResultRecorded):
            return
        write = result_write(self.kind, event, event.fact)
        row = self._rows.get(write.id)
        if row is None:
            if len(self._lacking) >= ROWS_MAX:
                raise Rejected("too_large", f"its events record over {ROWS_MAX:,} rows that it lacks")
            self._lacking.setdefault(write.id, (event.attempt, write.seq))
        elif write.seq == row.sequence:
            row.is_recorded = _digest({"_id": write.id, **write.fields, "seq": write.seq}) == row.digest
        elif write.seq > row.sequence and row.newer is None:
            row.newer = write.seq

    def wrong(self, reaches: Mapping[int, Reach]) -> Iterator[str]:
        """Yield how rows differ from the log; `reaches` say how far that was applied."""
        for name, row in self._rows.items():
            reach = reaches.get(row.attempt, Reach(0, None))
            if not row.is_recorded or (reach.last is not None and row.sequence > reach.last):
                yield f"{RESULTS} {name} is not what an event recorded"
            elif row.newer is not None and row.newer <= reach.applied:
                yield f"{RESULTS} {name} is older than event {row.newer} of attempt {row.attempt}"
        for name, (attempt, sequence) in self._lacking.items():
            if sequence <= reaches.get(attempt, Reach(0, None)).applied:
                yield f"{RESULTS} {name} is not in it, event {sequence} of attempt {attempt} records it"


def _digest(row: Mapping[str, Any]) -> bytes:
    named = {name: value for name, value in row.items() if value is not None}
    return hashlib.sha256(extended_json.encoded(named)).digest()
