"""What people see of a run while it runs: text and numbers that nothing waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class LiveView(Protocol):
    """Shows text and numbers to whoever looks; returns at once, and may drop what nobody can take."""

    def show(self, text: str, lap: int, values: Mapping[str, float]) -> None: ...


class NoLiveView:
    """The live view of a run that nobody can look at."""

    def show(self, text: str, lap: int, values: Mapping[str, float]) -> None:
        """Show it to nobody."""
