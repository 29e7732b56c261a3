"""The network between the fleet and its store: slow, lossy, sometimes gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pymongo.errors import AutoReconnect, NetworkTimeout, PyMongoError, ServerSelectionTimeoutError

from events.kinds.declaring.queues import QUEUES
from testing.simulation.kernel import Kernel, Node
from testing.simulation.store.replica_set import Call, Duplicate, not_primary

SELECTION_MAX_S: Final = 4.0
SLOW_MAX_S: Final = 5.0
QUICK_S: Final = 0.004
READ_PASSES: Final = 0.5  # the other half of the reads come so soon that nobody else has a turn before
SLUGGISH: Final = 0.3  # so many calls of a node with a bad connection are slow


@dataclass(frozen=True, slots=True)
class Odds:
    """How probable each mishap of one operation is."""

    lost: float = 0.0
    eaten: float = 0.0
    late: float = 0.0
    cut: float = 0.0
    slow: float = 0.0


def _nothing() -> None:
    """Lie in wait for nobody."""


@dataclass(slots=True)
class UnreliableNetwork:
    """What happens around each operation on the store."""

    kernel: Kernel
    network: Node
    faults: Counter[str]
    odds: Odds = field(default_factory=Odds)
    unreachable: set[str] = field(default_factory=set)
    sluggish: set[str] = field(default_factory=set)
    election_ends_s: float = 0.0
    rescue_ambushes: dict[str, Callable[[], None]] = field(default_factory=dict)  # by replica
    strike: Callable[[], None] | None = None  # happens to the next write that no majority has yet

    def before(self, call: Call) -> None:
        self.kernel.note(f"{call.operation} {call.collection}")
        is_decision = call.operation == "find_one_and_update" and call.collection in QUEUES
        if is_decision and self.kernel.current.name == f"{call.client}/rescuer":
            self.rescue_ambushes.pop(call.client, _nothing)()
        if call.is_write or self.kernel.chance.random() < READ_PASSES:
            self._pass()
        if self.kernel.now_s < self.election_ends_s:
            self.kernel.wait(None, self.election_ends_s - self.kernel.now_s)
        if call.client in self.unreachable:
            self.kernel.wait(None, SELECTION_MAX_S * self.kernel.chance.random())
            raise ServerSelectionTimeoutError("no server can be reached")
        if self._strikes(self.odds.lost, "store: request lost"):
            raise self._broken()

    def order(self, count: int) -> Sequence[int]:
        places = list(range(count))
        if self.odds.cut:
            self.kernel.chance.shuffle(places)
        return places

    def between(self, call: Call) -> None:
        if self.odds.cut:
            self.kernel.note(f"between {call.collection}")
            self._pass()
            if self._strikes(self.odds.cut, "store: command cut in the middle"):
                raise not_primary()

    def applied(self, call: Call) -> None:
        self.kernel.note(f"applied {call.collection}")
        self._pass()
        if self.strike is not None:
            strike, self.strike = self.strike, None
            strike()

    def after(self, call: Call) -> None:
        if self._strikes(self.odds.eaten, "store: answer lost"):
            self.kernel.note(f"answer lost {call.collection}")
            self._pass()
            raise self._broken()
        if call.is_write:
            self.kernel.note(f"answered {call.collection}")

    def is_late(self, call: Call, arrive: Callable[[], object]) -> bool:
        if not self._strikes(self.odds.late, "store: write arrives late"):
            return False

        def travel() -> None:
            self.kernel.wait(None, 15.0 * self.kernel.chance.random())
            try:
                arrive()
            except (PyMongoError, Duplicate):
                self.kernel.tell("network", "a late write came to nothing")

        self.kernel.spawn(f"late {call.operation}", self.network, travel)
        self.kernel.wait(None, 2.0 * self.kernel.chance.random())
        return True

    def _pass(self) -> None:
        draw = self.kernel.chance.random()
        is_slow = draw < (SLUGGISH if self.kernel.current.node.name in self.sluggish else self.odds.slow)
        if is_slow:
            self.faults["store: slow call"] += 1
        self.kernel.wait(None, SLOW_MAX_S * self.kernel.chance.random() if is_slow else QUICK_S * draw)

    def _strikes(self, odds: float, what: str) -> bool:
        if not odds or self.kernel.chance.random() >= odds:
            return False
        self.faults[what] += 1
        return True

    def _broken(self) -> PyMongoError:
        kind = AutoReconnect if self.kernel.chance.random() < 0.5 else NetworkTimeout
        return kind("the connection broke")
