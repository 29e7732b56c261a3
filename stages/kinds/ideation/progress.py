"""The progress of ideation, as a number and in words; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where the work is: which idea of how many, which round of how many (0: its draft)."""

    idea: int
    ideas: int
    turn: int
    turns: int

    @property
    def fraction(self) -> float:
        """Return how much of everything is behind this place, from 0 to 1."""
        return (self.idea - 1 + self.turn / (self.turns + 1)) / self.ideas

    @property
    def activity(self) -> str:
        """Return what is done here, for people."""
        if self.turn == 0:
            return f"drafting idea {self.idea} of {self.ideas}"
        return f"reflecting on idea {self.idea} of {self.ideas}, round {self.turn} of {self.turns}"
