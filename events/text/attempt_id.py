"""The identity of an attempt: its run and its number, as a value and as text, pure."""

from __future__ import annotations

from typing import NamedTuple, Self


class AttemptId(NamedTuple):
    """An attempt of a run; as text, `<run>/<attempt>`."""

    run_id: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.run_id}/{self.attempt}"

    @property
    def words(self) -> str:
        """The attempt as a message names it."""
        return f"attempt {self.attempt} of run {self.run_id}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the attempt that a text names; None where it names none."""
        run_id, _, attempt = text.rpartition("/")
        return cls(run_id, int(attempt)) if run_id and attempt.isascii() and attempt.isdigit() else None
