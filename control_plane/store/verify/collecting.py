"""Collects a run's evidence from its documents one by one; events without effect become a stretch.

Law: the evidence of one run has a bound, however much is stored. A larger run is reported, not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from control_plane.model.ownership import strangers
from control_plane.model.projection import EFFECTIVE
from control_plane.store.verify.evidence import Document, Quiet, readable
from control_plane.store.verify.shapes import name, problem
from events.catalog import ResultRecorded, StageProgress, type_of
from events.envelope import content_hash
from events.record_digest import NO_LINES, Roots

HELD_BYTES_MAX: Final = 16 * 1024 * 1024  # of BSON; objects take several times that
STRETCH_BYTES: Final = 500  # what a stretch takes, in the same measure
BROKEN_MAX: Final = 1_000
LETTERS: Final = "dead_letters"
PROGRESS: Final = type_of(StageProgress)
RECORDED: Final = type_of(ResultRecorded)
# What working with stored values of any kind may raise.
HAND_MADE: Final = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Unjudged(Exception):
    """A run that cannot be verified: the name of the finding, and the reason."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(message)
        self.invariant = invariant
        self.message = message


@dataclass(slots=True)
class Collected:
    """The collected evidence of one run. Raises `Unjudged` (`too-large`) beyond the bound of an audit."""

    run: Document
    beside: dict[str, list[Document]] = field(default_factory=dict)
    log: list[Document] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    misshapen: dict[str, list[Document]] = field(default_factory=dict)
    is_log_read: bool = True
    kept_ids: set[str] = field(default_factory=set)
    sealed: Roots = NO_LINES  # of the lines that a person's verdict rests on
    settled: Roots = NO_LINES  # of those that the attempt settled with
    has_rows: bool = False  # of results, or events that record some
    _held_bytes: int = 0
    # The latest report, not held yet, its size, and the last position that follows it without a gap.
    _progress: tuple[Document, int, int] | None = None

    def add(self, collection: str, document: Document, size: int) -> None:
        """Add a document beside the run; a broken one is reported, and added if events make it."""
        is_sound = self._is_sound(collection, document)
        if is_sound or collection != LETTERS:
            self._hold(size)
            kept = self.beside if is_sound else self.misshapen
            kept.setdefault(collection, []).append(document)

    def add_decision(self, document: Document, size: int) -> None:
        """Add a decision of the log."""
        if self._is_sound_line(document):
            self._hold(size)
            self.log.append(document)

    def add_event(self, document: Document, size: int) -> None:
        """Add the next event in the order of attempts and positions."""
        self.has_rows = self.has_rows or document.get("type") == RECORDED
        if not self._is_sound_line(document):
            return
        self._chain(document)
        is_plain = self._is_plain(document)
        if is_plain and document["type"] == PROGRESS:
            # Of reports on one stage that follow each other without a gap only the last one has an effect.
            if not (self._follows(document) and self._is_same_stage(document)):
                self.close()
            self._progress = (document, size, document["sequence"])
            self._note(document)
        elif is_plain and document["type"] not in EFFECTIVE:
            if self._progress is not None and self._follows(document):
                self._progress = (*self._progress[:2], document["sequence"])
            self._note(document)
        else:
            self.close()
            self._hold(size)
            self.log.append(document)

    def _chain(self, document: Document) -> None:
        """Add a line to the roots of the record that it belongs to."""
        attempt, sequence = document["attempt"], document["sequence"]
        line = (document["type"], document["data"], document["hash"])
        sealed, settled = self.run.get("sealed"), self.run["settled"]
        if sealed and attempt == sealed["attempt"] and sequence <= sealed["last"]:
            self.sealed = self.sealed.then(*line)
        if settled and attempt == self.run["attempt"] and sequence <= settled["last"]:
            self.settled = self.settled.then(*line)

    @property
    def held_bytes(self) -> int:
        """How much is held by now."""
        return self._held_bytes

    def close(self) -> None:
        """Add the events that were deferred."""
        if self._progress is not None:
            document, size, _ = self._progress
            self._progress = None
            self._hold(size)
            self.log.append(document)

    def _is_sound_line(self, document: Document) -> bool:
        is_sound = self._is_sound("events", document)
        self.is_log_read = self.is_log_read and is_sound
        return is_sound

    def _is_sound(self, collection: str, document: Document) -> bool:
        wrong = problem(collection, document)
        if wrong is None:
            return True
        if len(self.broken) < BROKEN_MAX:
            self.broken.append(f"{collection} {name(document)}: {wrong}")
        elif len(self.broken) == BROKEN_MAX:
            self.broken.append("and more")
        return False

    def _is_plain(self, document: Document) -> bool:
        """Say whether an event is valid and not needed for the check of a refusal."""
        is_next = document["attempt"] == self.run["attempt"]
        is_next = is_next and document["sequence"] == self.run["lastEventSeq"] + 1
        if is_next or document["_id"] in self.kept_ids or strangers("events", document):
            return False
        event = readable(document)
        return event is not None and (not document["hash"] or content_hash(event) == document["hash"])

    def _note(self, document: Document) -> None:
        """Record a position."""
        attempt, sequence, at = document["attempt"], document["sequence"], document["receivedAt"]
        last = self.quiet[-1] if self.quiet else None
        if last is not None and (last.attempt, last.last + 1) == (attempt, sequence):
            times = (min(last.oldest, at), max(last.newest, at))
            self.quiet[-1] = Quiet(attempt, last.first, sequence, *times)
        else:
            self._hold(STRETCH_BYTES)
            self.quiet.append(Quiet(attempt, sequence, sequence, at, at))

    def _follows(self, document: Document) -> bool:
        if self._progress is None:
            return False
        known, _, last = self._progress
        return (known["attempt"], last + 1) == (document["attempt"], document["sequence"])

    def _is_same_stage(self, document: Document) -> bool:
        assert self._progress is not None
        return bool(self._progress[0]["data"].get("stage") == document["data"].get("stage"))

    def _hold(self, size: int) -> None:
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES_MAX:
            raise Unjudged(
                "too-large", f"more than {HELD_BYTES_MAX:,} bytes of its documents would have to be held"
            )
