"""The child's side of notes: notes of people to the run, as far as the parent has passed them on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from events.queue.notes import Note


@dataclass(slots=True)
class ChildNotes:
    """Filled by the thread that hears the parent, read by the pipeline."""

    _notes: tuple[Note, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, note: Note) -> None:
        """Add a note; one with a known number is dropped."""
        with self._lock:
            if all(note.number != known.number for known in self._notes):
                self._notes = (*self._notes, note)

    def all(self) -> Sequence[Note]:
        """Return every note so far, the oldest first."""
        return self._notes
