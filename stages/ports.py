"""What a pipeline needs from outside, in the pipeline's own words."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from events.catalog import Fact


class Reporter(Protocol):
    """Takes what a pipeline says and makes; returns at once."""

    def say(self, fact: Fact) -> None: ...

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        """Hand over a finished file; nobody may write to it afterwards."""
        ...
