"""A finished figure: its files, the data that drew it, and the sentence below it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FORMS: Final = ("png", "svg", "pdf")
TABLE: Final = "csv"


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure as PNG, SVG and PDF, and the CSV that drew it.

    The caption names numbers and texts by reference (`{seeds.fresh}`), as the paper's words do.
    """

    name: str
    caption: str
    images: tuple[Path, ...]
    table: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """Return every file of the figure."""
        return (*self.images, self.table)
