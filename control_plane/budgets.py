"""How many bytes of events an attempt may leave in the log: who sends them decides how long they are.

Law: only what was stored is charged, so a repeated line costs nothing. Each process adds what it stored to
the attempt's count every few seconds, and looks as often: replicas together may store some seconds more
than the budget. The notices of refused lines and the end of an attempt still have room behind it, so that a
log over its budget stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from events.catalog import ENDS, EventRefused, type_of
from events.clock import Clock
from events.envelope import Event

TICK_S: Final = 5.0
KNOWN_S: Final = 5.0
KNOWN_MAX: Final = 20_000
EVENT_BYTES_DEFAULT: Final = 1 << 30
RESERVE_BYTES: Final = 64 << 20
OVER_BUDGET: Final = "over_budget"
RESERVED: Final = ENDS | {type_of(EventRefused)}

Name = tuple[str, int]  # run and attempt


class ByteCounts(Protocol):
    """Where the bytes of attempts are counted."""

    async def event_bytes(self, names: Collection[Name]) -> Mapping[Name, int]: ...

    async def add_event_bytes(self, added: Mapping[Name, int]) -> None: ...


@dataclass(slots=True, eq=False)
class Budgets:
    """The count of one process, for all requests that it serves."""

    counts: ByteCounts
    clock: Clock
    event_bytes_max: int = EVENT_BYTES_DEFAULT
    _known: dict[Name, tuple[int, float]] = field(default_factory=dict)  # bytes, and when they were read
    _owed: dict[Name, int] = field(default_factory=dict)

    async def look(self, names: Collection[Name]) -> None:
        """Learn what these attempts have stored. Raises `Transient`."""
        now_s = self.clock.monotonic_s()
        asked = {each for each in names if self._known.get(each, (0, -KNOWN_S))[1] <= now_s - KNOWN_S}
        if not asked:
            return
        stored = await self.counts.event_bytes(asked)
        for each in asked:
            self._known.pop(each, None)  # the last that were read are the last that are forgotten
            self._known[each] = (stored.get(each, 0) + self._owed.get(each, 0), now_s)
        for oldest in list(self._known)[: max(0, len(self._known) - KNOWN_MAX)]:
            del self._known[oldest]

    def refusal(self, event: Event) -> str | None:
        """Return why an event cannot be taken any more; its attempt was looked at before."""
        stored, _ = self._known.get((event.run_id, event.attempt), (0, 0.0))
        most = self.event_bytes_max + (RESERVE_BYTES if event.type in RESERVED else 0)
        if stored < most:
            return None
        return (
            f"attempt {event.attempt} has left {stored:,} bytes of events, and may leave "
            f"{self.event_bytes_max:,}: say less, or set PODFLEET_EVENT_BYTES_MAX higher"
        )

    def charge(self, event: Event, size: int) -> None:
        """Note that an event of `size` bytes was stored that was not there."""
        name = (event.run_id, event.attempt)
        self._owed[name] = self._owed.get(name, 0) + size
        stored, read_s = self._known.get(name, (0, -KNOWN_S))
        self._known[name] = (stored + size, read_s)

    async def run_once(self) -> int:
        """Return to how many attempts something was added; what could not be is added the next time."""
        owed, self._owed = self._owed, {}
        if not owed:
            return 0
        try:
            await self.counts.add_event_bytes(owed)
        except BaseException:
            for name, size in owed.items():
                self._owed[name] = self._owed.get(name, 0) + size
            raise
        return len(owed)
