"""Everything that is stored about one run, as the verifier reads it.

Events that change only the position are kept as stretches, because a run may have any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from control_plane.model.lease_watch import Watch
from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.run import Entry
from control_plane.store.log.events import decode
from control_plane.store.queue.runs import decode_entry
from events.envelope import Event
from events.record_digest import NOTHING

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quiet:
    """A stretch of events without an effect, from position `first` to `last`, and when they came in."""

    attempt: int
    first: int
    last: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True)
class Evidence:
    """One run's documents; `now` is the store's clock, `log` the decisions and events as stored.

    `quiet` are the other events. `broken` describes the documents that could not be read, `misshapen` those
    among them that events make; `is_log_read` is False if one of them is a line of the log. `sealed_root` is
    the root of the stored lines that a person's verdict covers, `settled_root` that of the lines that the
    last attempt settled with, as its worker recorded them. `unnumbered` are the digests of events without a
    number, which are needed to check refusals. `lease_watch` is what control planes have seen of the leases.
    Without `has_rows` the run has no row of results, and its log records none.
    """

    collection: str
    run: Document
    log: Sequence[Document]
    attempts: Sequence[Document]
    stages: Sequence[Document]
    artifacts: Sequence[Document]
    validations: Sequence[Document]
    dead_letters: Sequence[Document]
    now: datetime
    of_kinds: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    quiet: Sequence[Quiet] = ()
    broken: Sequence[str] = ()
    misshapen: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    is_log_read: bool = True
    sealed_root: str = NOTHING
    settled_root: str = NOTHING
    unnumbered: Mapping[str, str] = field(default_factory=dict)
    lease_watch: Watch | None = None
    has_rows: bool = True

    @property
    def run_id(self) -> str:
        return str(self.run["_id"])

    @property
    def beside(self) -> Mapping[str, Sequence[Document]]:
        """The documents beside the run that events and verdicts of people write."""
        return {
            "stages": self.stages,
            "artifacts": self.artifacts,
            "validations": self.validations,
            **self.of_kinds,
        }

    @cached_property
    def logged(self) -> list[Entry]:
        """The decisions in the log, by number."""
        found = [decode_entry(each["data"]) for each in self.log if "revision" in each]
        return sorted(found, key=lambda entry: entry.n)

    @cached_property
    def waiting(self) -> list[Entry]:
        """The decisions that are only in the run's journal so far."""
        known = {entry.n for entry in self.logged}
        return [decode_entry(each) for each in self.run["journal"] if each["n"] not in known]

    @cached_property
    def decisions(self) -> list[Entry]:
        """Every decision, by number."""
        return sorted([*self.logged, *self.waiting], key=lambda entry: entry.n)

    @cached_property
    def numbered(self) -> list[Document]:
        """The events with a sequence that are kept whole, as stored, in order."""
        found = [each for each in self.log if "sequence" in each]
        return sorted(found, key=lambda each: (each["attempt"], each["sequence"]))

    @cached_property
    def events(self) -> list[Event]:
        """Those of them that can be read."""
        return [event for each in self.numbered if (event := readable(each)) is not None]

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """The digests of the events that are kept whole, and of those in `unnumbered`, by id."""
        return {**self.unnumbered, **{each["_id"]: each["hash"] for each in self.log}}

    @cached_property
    def positions(self) -> Mapping[int, IntervalSet]:
        """The positions that the log of each attempt holds."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for each in self.numbered:
            spans.setdefault(each["attempt"], []).append((each["sequence"], each["sequence"]))
        for stretch in self.quiet:
            spans.setdefault(stretch.attempt, []).append((stretch.first, stretch.last))
        return {attempt: IntervalSet.of(found) for attempt, found in spans.items()}


def readable(document: Document) -> Event | None:
    """Return a stored event with its typed fact; None if its data does not fit its type."""
    try:
        return decode(document)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
