"""Everything that is stored about one run, as an audit reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from control_plane.run import Entry
from control_plane.store.events import decode
from control_plane.store.runs import decode_entry
from events.envelope import Event

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """One run's documents; `now` is the store's clock, `log` decisions and events as they are stored."""

    collection: str
    run: Document
    log: Sequence[Document]
    attempts: Sequence[Document]
    stages: Sequence[Document]
    artifacts: Sequence[Document]
    validations: Sequence[Document]
    letters: Sequence[Document]
    now: datetime
    ideas: Sequence[Document] = ()

    @property
    def run_id(self) -> str:
        return str(self.run["_id"])

    @cached_property
    def logged(self) -> list[Entry]:
        """The decisions in the log, by number."""
        found = [decode_entry(each["data"]) for each in self.log if "revision" in each]
        return sorted(found, key=lambda entry: entry.n)

    @cached_property
    def waiting(self) -> list[Entry]:
        """The decisions that are still in the run's journal only."""
        known = {entry.n for entry in self.logged}
        return [decode_entry(each) for each in self.run["journal"] if each["n"] not in known]

    @cached_property
    def decisions(self) -> list[Entry]:
        """Every decision, by number."""
        return sorted([*self.logged, *self.waiting], key=lambda entry: entry.n)

    @cached_property
    def numbered(self) -> list[Document]:
        """The events with a sequence, as they are stored, in order."""
        found = [each for each in self.log if "sequence" in each]
        return sorted(found, key=lambda each: (each["attempt"], each["sequence"]))

    @cached_property
    def unreadable(self) -> list[Document]:
        """The events whose data is not what was taken in."""
        return [each for each in self.numbered if readable(each) is None]

    @cached_property
    def events(self) -> list[Event]:
        """The events with a sequence that can be read."""
        return [event for each in self.numbered if (event := readable(each)) is not None]

    def sequences(self, attempt: int) -> list[int]:
        """Return the positions that the log of an attempt holds."""
        return [each["sequence"] for each in self.numbered if each["attempt"] == attempt]


def readable(document: Document) -> Event | None:
    """Return a stored event in types; None where its data does not fit its type."""
    try:
        return decode(document)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
