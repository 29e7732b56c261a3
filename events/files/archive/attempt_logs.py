"""The logs of a run's attempts, line by line: their gaps, and their roots; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from events.files.archive.manifest import GAPS_MAX, AttemptLog
from events.record_digest import NO_LINES, Roots
from events.runtime.errors import Rejected


@dataclass(slots=True)
class AttemptLogs:
    """Folds numbered events, which come in the order of attempts and sequences.

    `marks` are the positions at which the roots are wanted, too: `(attempt, last)` and the roots there.
    """

    marks: dict[tuple[int, int], Roots] = field(default_factory=dict)
    done: list[AttemptLog] = field(default_factory=list)
    _attempt: int = 0
    _lines: int = 0
    _last: int = 0
    _gaps: list[tuple[int, int]] = field(default_factory=list)
    _roots: Roots = NO_LINES

    def add(self, event: Mapping[str, Any]) -> None:
        """Add the next line. Raises `Rejected` where it is not the next."""
        attempt, sequence = event["attempt"], event["sequence"]
        if attempt != self._attempt:
            self._begin(attempt)
        if sequence <= self._last:
            raise Rejected("bad_order", f"event {sequence} of attempt {attempt} is not in its place")
        if sequence > self._last + 1:
            if len(self._gaps) == GAPS_MAX:
                raise Rejected("too_many_gaps", f"the log of attempt {attempt} has over {GAPS_MAX:,} gaps")
            self._note_before(sequence)
            self._gaps.append((self._last + 1, sequence - 1))
        self._roots = self._roots.then(event["type"], event["data"], event["hash"])
        self._lines += 1
        self._last = sequence
        if (attempt, sequence) in self.marks:
            self.marks[attempt, sequence] = self._roots

    def closed(self) -> list[AttemptLog]:
        """Return the logs of all attempts that have any line."""
        self._begin(0)
        return self.done

    def _begin(self, attempt: int) -> None:
        if attempt and attempt < self._attempt:
            raise Rejected("bad_order", f"the log of attempt {attempt} is not in its place")
        if self._lines:
            self._note_before(None)
            self.done.append(
                AttemptLog(
                    self._attempt, self._lines, self._last, self._gaps, self._roots.stored, self._roots.said
                )
            )
        self._attempt, self._lines, self._last, self._gaps = attempt, 0, 0, []
        self._roots = NO_LINES

    def _note_before(self, sequence: int | None) -> None:
        """Note the roots at marks that no line stands at: those of the lines before them."""
        for attempt, last in self.marks:
            is_passed = last > self._last and (sequence is None or last < sequence)
            if attempt == self._attempt and is_passed:
                self.marks[attempt, last] = self._roots
