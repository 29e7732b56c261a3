"""A scheduler that a seed repeats: actors take turns in one thread, and time is a number.

Law: an actor gives way only where it waits, or calls something that takes time. Who goes on
is drawn from the seed; when nobody can, the clock jumps to the next moment at which somebody
can. Nothing that an actor does may depend on anything else of this machine.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import Final

import greenlet

from events.testing import EPOCH

TRACE_MAX: Final = 4_000
STEPS_MAX: Final = 100_000  # a history this long goes round in circles
WAIT_MIN_S: Final = 1e-6  # no call takes no time; a sum of fractions would never come to its end


class Stuck(Exception):
    """The history does not end."""


@dataclass(slots=True, eq=False)
class Node:
    """A machine, or a process on it: what dies, stands still and tells the time together.

    `doom` counts down at each call of the node; at zero `fate` is called. `shaken_s` is when its time last
    moved as no measurement of it can know: a machine was paused, or the store's clock was set.
    """

    name: str
    wall_ahead_s: float = 0.0
    monotonic_behind_s: float = 0.0
    is_frozen: bool = False
    is_up: bool = True
    shaken_s: float = float("-inf")
    doom: int | None = None
    fate: Callable[[], None] = lambda: None


@dataclass(slots=True, eq=False)
class Actor:
    """One line of work."""

    name: str
    node: Node
    work: greenlet.greenlet
    wake_s: float
    flag: Event | None = None


@dataclass(slots=True)
class Kernel:
    """Runs the actors of one history."""

    seed: int
    trace_max: int = TRACE_MAX
    now_s: float = 0.0
    steps: int = 0
    digest: int = 0
    is_over: bool = False
    chance: random.Random = field(init=False)
    trace: deque[tuple[float, str, str]] = field(init=False)
    on_time: Callable[[], None] = lambda: None
    crashed: Callable[[Actor, BaseException], None] = lambda _, error: None
    _actors: list[Actor] = field(default_factory=list)
    _graveyard: list[Actor] = field(default_factory=list)
    _current: Actor | None = None
    _main: greenlet.greenlet = field(default_factory=greenlet.getcurrent)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.trace = deque(maxlen=self.trace_max)

    @property
    def current(self) -> Actor:
        """The actor whose turn it is."""
        assert self._current is not None
        return self._current

    def spawn(self, name: str, node: Node, work: Callable[[], object]) -> Actor:
        """Start work beside the others."""

        def body() -> None:
            try:
                work()
            except greenlet.GreenletExit:
                raise
            except Exception as error:  # noqa: BLE001 - the end of a line of work: the judge decides
                if not self.is_over:
                    self.crashed(actor, error)

        actor = Actor(f"{node.name}/{name}", node, greenlet.greenlet(body, self._main), self.now_s)
        self._actors.append(actor)
        return actor

    def wait(self, flag: Event | None, seconds: float) -> bool:
        """Give way until `flag` is set or the time is over; return whether it is set."""
        if self.is_over:
            raise greenlet.GreenletExit
        actor = self.current
        actor.flag, actor.wake_s = flag, self.now_s + max(WAIT_MIN_S, seconds)
        self._give_way()
        return flag is not None and flag.is_set()

    def note(self, what: str) -> None:
        """Write a step of the current actor down; a node that is doomed may meet its fate here."""
        if self.is_over:
            raise greenlet.GreenletExit
        actor = self.current
        self.tell(actor.name, what)
        node = actor.node
        if node.doom is not None:
            node.doom -= 1
            if node.doom <= 0:
                node.doom = None
                node.fate()
                if not node.is_up:
                    self._give_way()

    def _give_way(self) -> None:
        # The running loop belongs to the thread, which all actors share; also on the way out.
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            self._main.switch()
        finally:
            asyncio._set_running_loop(loop)

    def tell(self, who: str, what: str) -> None:
        """Write a step down."""
        self.trace.append((self.now_s, who, what))
        self.digest = zlib.crc32(f"{self.now_s:.6f} {who} {what}".encode(), self.digest)

    def kill(self, node: Node) -> None:
        """End a node as `kill -9` does: nothing of it runs again, not even what cleans up."""
        node.is_up = False
        self._graveyard += [each for each in self._actors if each.node is node]
        self._actors = [each for each in self._actors if each.node is not node]

    def freeze(self, node: Node) -> None:
        """Let a node stand still."""
        node.is_frozen = True

    def thaw(self, node: Node, *, lost_s: float = 0.0) -> None:
        """Let a node go on; `lost_s` of its own time did not pass, as for a paused virtual machine."""
        node.is_frozen = False
        node.monotonic_behind_s += lost_s
        if lost_s:
            node.shaken_s = self.now_s
        for each in self._actors:
            if each.node is node and each.wake_s > self.now_s - lost_s:
                each.wake_s += lost_s

    def run(self, is_done: Callable[[], bool], *, limit_s: float) -> bool:
        """Run until `is_done`, asked whenever time moves; False when `limit_s` came first."""
        draw = self.chance.random
        while True:
            ready, next_s = self._ready()
            if not ready:
                if is_done():
                    return True
                if next_s >= limit_s:
                    self.now_s = limit_s
                    return False
                self.now_s = next_s
                self.on_time()
                continue
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Stuck(f"more than {STEPS_MAX} steps")
            actor = ready[int(draw() * len(ready))]
            self._current = actor
            actor.work.switch()
            self._current = None
            if actor.work.dead and actor in self._actors:
                self._actors.remove(actor)

    def _ready(self) -> tuple[list[Actor], float]:
        """Return who can go on now, and when the next of the others can."""
        now_s, next_s = self.now_s, float("inf")
        ready = []
        for actor in self._actors:
            if actor.node.is_frozen:
                continue
            if actor.wake_s <= now_s or (actor.flag is not None and actor.flag.is_set()):
                ready.append(actor)
            elif actor.wake_s < next_s:
                next_s = actor.wake_s
        return ready, next_s

    def close(self) -> None:
        """Let go of every actor; whatever it does on its way out reaches nothing any more."""
        self.is_over = True
        for each in [*self._actors, *self._graveyard]:
            if not each.work.dead:
                with suppress(BaseException):
                    each.work.throw(greenlet.GreenletExit)
        self._actors.clear()
        self._graveyard.clear()


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The clocks of one node, and its way to wait."""

    kernel: Kernel
    node: Node

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.kernel.now_s + self.node.wall_ahead_s)

    def monotonic_s(self) -> float:
        return self.kernel.now_s - self.node.monotonic_behind_s

    def wait(self, flag: Event, seconds: float) -> bool:
        return flag.is_set() or self.kernel.wait(flag, seconds)


class TurnLock:
    """A lock that lets others run while it is waited for."""

    def __init__(self, kernel: Kernel) -> None:
        self._hub = kernel
        self._is_free = Event()
        self._is_free.set()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; as `threading.Lock` does."""
        deadline_s = self._hub.now_s + (timeout if timeout >= 0 else float("inf"))
        while not self._is_free.is_set():
            if not blocking or self._hub.now_s >= deadline_s:
                return False
            self._hub.wait(self._is_free, deadline_s - self._hub.now_s)
        self._is_free.clear()
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._is_free.set()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
