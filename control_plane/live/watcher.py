"""Follows the database's change stream for live pages and waiting pods, as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from control_plane.live.change_feed import ChangeFeed
from control_plane.live.notifier import Notifier
from control_plane.store.changes import Change, Changes, HistoryLost

TICK_S: Final = 1.0
LINGER_S: Final = 60.0  # longer than a reader takes to come back
BACK_S: Final = 120  # a reader that was cut off by a restart finds what it missed


@dataclass(frozen=True, slots=True)
class LogWatcher:
    """Follows what is much, but only while somebody in this process reads some of it: logs, live texts.

    A busy fleet stores thousands of events a second; each control plane would read all of them for nobody.
    """

    changes: Changes
    feed: ChangeFeed
    linger_s: float = LINGER_S
    back_s: int = BACK_S

    async def run_once(self) -> None:
        """Wait for a reader, and follow the log until the last one has been gone for a while."""
        await self.feed.wanted()
        try:
            async with aclosing(self.changes.steps(self.feed.token, self.back_s)) as steps:
                async for step in steps:
                    self.feed.publish(step)
                    if not self.feed.is_wanted(self.linger_s):
                        break
        except HistoryLost:
            pass  # whoever reads is told to look anew
        self.feed.forget()


@dataclass(frozen=True, slots=True)
class Watcher:
    """Follows one change stream for the whole process: one per reader would cost 200 times as much."""

    changes: Changes
    feed: ChangeFeed
    notifier: Notifier
    others: Sequence[Callable[[Change], None]] = ()  # who hear of each change, too

    async def run_once(self) -> None:
        """Follow the change stream until it fails; the next call resumes there. Raises `Transient`."""
        try:
            async for step in self.changes.steps(self.feed.token, BACK_S):
                self.feed.publish(step)
                if step.change is not None:
                    self.notifier.hear(step.change)
                    for hear in self.others:
                        hear(step.change)
        except HistoryLost:
            self.feed.forget()
