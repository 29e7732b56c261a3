"""The start of a race as the attempt of a lane sees it: ready, told the moment, started.

Law: the moment is the store's, and the clock that counts to it is the store's as measured here. A lane is
ready once a renewal was asked for after its child was: then its measurement is fresh, and it knows how long
an answer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from events.catalog import SECONDS_MAX, LaneReady, LaneStarted
from events.delivery.pipe import Began, Go, Waiting
from events.kinds.declaring.fact import Fact
from events.queue.claims import Node
from events.runtime.clock import Clock
from events.runtime.measured_clock import MeasuredClock
from pod_worker.attempt.heartbeat import Heartbeat, Pulse

LOOK_EVERY_S: Final = 0.5  # a lane that waits asks so often for the moment


@dataclass(slots=True)
class Barrier:
    """Holds the child of a lane until the moment that is agreed on; that of another run goes on at once."""

    clock: Clock
    stores: MeasuredClock
    heartbeat: Heartbeat
    begin: Callable[[Go], None]
    is_raced: bool
    address: Callable[[], str] = str  # where other pods reach this one
    ready_s: float | None = None  # when the child was, by the monotonic clock
    go: Go | None = None
    agreed: datetime | None = None
    is_told: bool = False  # whether the log has it that the lane is ready
    has_begun: bool = False
    looked_s: float = float("-inf")

    def is_waiting(self) -> bool:
        """Say whether the child waits for something else than itself."""
        if self.ready_s is None or self.has_begun:
            return False
        return self.go is None or self.clock.monotonic_s() < self.go.at_s

    def hear(self, frame: Waiting | Began) -> list[Fact]:
        """Take the child's word, and return what the log is to have of it; a second one is dropped."""
        now_s = self.clock.monotonic_s()
        match frame:
            case Waiting() if self.ready_s is None:
                self.ready_s = now_s
            case Began(at_s=at_s) if self.go is not None and not self.has_begun:
                self.has_begun = True
                return self._started(self.go, min(at_s, now_s))
        return []

    def turn(self) -> list[Fact]:
        """Ask for the moment while the child waits, and tell it; return what the log is to have of it."""
        if self.ready_s is None or self.go is not None:
            return []
        if not self.is_raced:
            self._begin(Go(self.ready_s))
            return []
        pulse = self.heartbeat.pulse
        if not self._is_heard_since(self.ready_s, pulse):
            self._look()
            return []
        said: list[Fact] = [] if self.is_told else [self._ready(pulse)]
        self.is_told = True
        if pulse.start_at is None:
            self._look()
        else:
            self.agreed = pulse.start_at
            left_s = (pulse.start_at - self.stores.now()).total_seconds()
            self._begin(Go(self.clock.monotonic_s() + left_s, variables_of(pulse.node)))
        return said

    def _is_heard_since(self, second: float, pulse: Pulse) -> bool:
        return pulse.took_s is not None and pulse.lease.requested_at.monotonic_s >= second

    def _look(self) -> None:
        now_s = self.clock.monotonic_s()
        if now_s - self.looked_s >= LOOK_EVERY_S:
            self.looked_s = now_s
            self.heartbeat.hurry()

    def _begin(self, go: Go) -> None:
        self.go = go
        self.begin(go)

    def _ready(self, pulse: Pulse) -> LaneReady:
        hears_s = LOOK_EVERY_S + (pulse.took_s or 0.0)
        return LaneReady(
            offset_s=self._offset_s(),
            bound_s=self._bound_s(),
            hears_s=_told(hears_s),
            address=self.address(),
        )

    def _started(self, go: Go, at_s: float) -> list[Fact]:
        if self.agreed is None or self.ready_s is None:  # it is in no race
            return []
        return [
            LaneStarted(
                agreed=self.agreed,
                late_s=_told(at_s - go.at_s),
                ready_late_s=_told(max(0.0, self.ready_s - go.at_s)),
                offset_s=self._offset_s(),
                bound_s=self._bound_s(),
            )
        ]

    def _offset_s(self) -> float:
        return _told(self.stores.machine_ahead_s or 0.0)

    def _bound_s(self) -> float:
        known = self.stores.known
        return SECONDS_MAX if known is None else _told(known.bound_after(self.clock.monotonic_s()))


def variables_of(node: Node | None) -> dict[str, str]:
    """Return what the program of a node finds in its environment.

    `PET_` are the options of `torchrun`, the others are what a program reads that is alone on its node.
    """
    if node is None:
        return {}
    host, _, port = node.address.rpartition(":")
    rank, nodes = str(node.rank), str(node.nodes)
    return {
        "PODFLEET_NODE_RANK": rank,
        "PODFLEET_NODES": nodes,
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": rank,
        "WORLD_SIZE": nodes,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": nodes,
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
    }


def _told(seconds: float) -> float:
    """Return seconds as an event tells them: to the microsecond, within bounds. A child may say any."""
    if not -SECONDS_MAX <= seconds <= SECONDS_MAX:  # also what is no number
        return SECONDS_MAX
    return round(seconds, 6)
