"""One campaign: a fleet under load and under faults, then peace, then what it left behind."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from control_plane.model.groups.status import CLOSED
from events.lifecycle import FINAL
from events.queue.faults import LEFT_FIRST_S
from events.runtime.clock import Clock, Ids
from testing.chaos.bugs import NO_BUG
from testing.chaos.faults.injector import Injector
from testing.chaos.faults.plan import LANES, Fault, Lane, hurried, plan
from testing.chaos.group_load import GroupUser
from testing.chaos.load import User
from testing.chaos.proxies.balancer import MISHAPS
from testing.chaos.proxies.door import Door
from testing.chaos.proxies.network import LOOPBACK
from testing.chaos.records import ledger
from testing.chaos.records.journal import Journal
from testing.chaos.system.fleet import Fleet, Size

TURN_S: Final = 0.05
LATE_S: Final = 12.0  # how long a fault waits for somebody whom it can strike
PEACE_TURN_S: Final = 0.5
ASK_MS: Final = 5_000
DISK_FULL: Final = "disk full"
HURRY: Final = {"workers": 0.7, "cluster": 0.4, "control planes": 0.45, "storage": 0.6, "people": 0.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a campaign is made of."""

    seed: int
    seconds: float
    home: Path
    size: Size = field(default_factory=Size)
    lanes: tuple[Lane, ...] = LANES
    rate: float = 0.12
    backlog: int = 12
    events: int = 500
    experiments: int = 3
    longest_run_s: float = 4.0
    group_pause_s: float = 10.0
    peace_s: float = 600.0  # a run that kills its pod's program is left for a minute each time
    overtime_s: float = 60.0
    bug: str = NO_BUG


def short(seed: int, home: Path) -> Settings:
    """Return the form that a test suite has time for: fewer pods, shorter runs, each kind of fault."""
    return Settings(
        seed=seed,
        seconds=36.0,
        home=home,
        size=Size(pods=4, studios=0),
        lanes=tuple(hurried(lane, HURRY[lane.name]) for lane in LANES),
        rate=0.25,
        backlog=4,
        events=100,
        experiments=0,
        longest_run_s=1.0,
        group_pause_s=4.0,
        # What kills its process is tried by all pods, and left by each, three times at most.
        peace_s=60.0 + 3 * LEFT_FIRST_S,
        overtime_s=30.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a campaign takes from outside."""

    clock: Clock
    ids: Ids
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What was done to the fleet, and what it did by itself."""

    faults: Counter[str]
    mishaps: Counter[str]
    requests: int
    unplanned: tuple[str, ...]
    impossible: tuple[str, ...]
    peace_s: float | None
    """How long it took until nothing moved any more; None where it never came to that."""


def run(settings: Settings, world: World, examine: Callable[[Fleet, Trouble], None]) -> None:
    """Run a campaign; `examine` sees the quiet fleet before it goes."""
    settings.home.mkdir(parents=True, exist_ok=True)
    journal = Journal.open(settings.home / "campaign.journal", "campaign", world.clock)
    world.say("starting the fleet")
    with (
        Fleet(settings.home, settings.size, settings.seed, settings.bug, world.clock, world.ids) as fleet,
        httpx.Client(base_url=f"http://{LOOPBACK}:{fleet.address}", trust_env=False) as client,
    ):
        door = Door(client, world.clock)
        user = User(
            door,
            fleet.cluster.url(),
            Journal.open(settings.home / "user.journal", "user", world.clock),
            world.clock,
            Random(f"{settings.seed}/user"),
            Random(f"{settings.seed}/whims"),
            pods=settings.size.names,
            backlog=settings.backlog,
            events=settings.events,
            experiments=settings.experiments,
            longest_run_s=settings.longest_run_s,
        )
        group_user = GroupUser(
            door,
            fleet.cluster.url(),
            Journal.open(settings.home / "group-user.journal", "group-user", world.clock),
            Random(f"{settings.seed}/groups"),
            user.recent,
            pods=settings.size.names,
            pause_s=settings.group_pause_s,
        )
        injector = Injector(fleet, user, journal)
        possible = possible_lanes(settings.lanes, fleet)
        world.say(f"the fleet is up; {settings.seconds:g} s of faults begin")
        user.begin()
        group_user.begin()
        try:
            _suffer(settings, world, injector, possible)
        finally:
            user.stop.set()
            group_user.stop.set()
            injector.undo_all()
        world.say("healing")
        fleet.heal()
        group_user.end()
        user.end()
        peace_s = _await_peace(settings, world, fleet)
        late = fleet.dismiss_pods()
        trouble = Trouble(
            faults=injector.struck,
            mishaps=Counter({f"request {kind}": fleet.balancer.mishaps[kind] for kind in MISHAPS}),
            requests=fleet.balancer.requests,
            unplanned=(
                *injector.unplanned,
                *(f"{name} did not leave" for name in late),
                *fleet.left_behind(),
            ),
            impossible=_impossible(settings.lanes, possible),
            peace_s=peace_s,
        )
        examine(fleet, trouble)


def possible_lanes(lanes: Sequence[Lane], fleet: Fleet) -> tuple[Lane, ...]:
    """Return the lanes without the kinds that this machine does not allow."""
    if any(pod.disk.can_be_full for pod in fleet.pods):
        return tuple(lanes)
    return tuple(
        replace(lane, cards=tuple(card for card in lane.cards if card.kind != DISK_FULL)) for lane in lanes
    )


def _impossible(wanted: Sequence[Lane], possible: Sequence[Lane]) -> tuple[str, ...]:
    there = {card.kind for lane in possible for card in lane.cards}
    return tuple(card.kind for lane in wanted for card in lane.cards if card.kind not in there)


def _suffer(settings: Settings, world: World, injector: Injector, lanes: Sequence[Lane]) -> None:
    """Let the plan's faults strike, and end each in its time; then a while longer for kinds that did not."""
    begun_s = world.clock.monotonic_s()
    injector.fleet.balancer.rate = settings.rate
    due = plan(settings.seed, settings.seconds, lanes)
    never = threading.Event()
    while True:
        at_s = world.clock.monotonic_s() - begun_s
        if at_s >= settings.seconds:
            missing = [card for lane in lanes for card in lane.cards if not injector.struck[card.kind]]
            if not missing or at_s >= settings.seconds + settings.overtime_s:
                return
            late = {fault.kind for fault in due}
            due += [
                Fault(at_s, card.kind, card.shortest_s, draw=0.5) for card in missing if card.kind not in late
            ]
        injector.bury_the_doomed()
        injector.restart_the_fallen()  # before a disk is freed that may be the reason
        injector.undo_due()
        ready = [fault for fault in due if fault.at_s <= at_s]
        due = [fault for fault in due if fault.at_s > at_s]
        for fault in ready:
            if not injector.strike(fault) and at_s - fault.at_s < LATE_S:
                due.append(fault)
        world.clock.wait(never, TURN_S)


def _await_peace(settings: Settings, world: World, fleet: Fleet) -> float | None:
    """Wait until every group is closed, every run final, every outbox empty; None if not in time."""
    begun_s = world.clock.monotonic_s()
    never = threading.Event()
    with MongoClient[dict[str, Any]](fleet.cluster.url(), serverSelectionTimeoutMS=ASK_MS) as mongo:
        stored = mongo.get_default_database()
        while (waited_s := world.clock.monotonic_s() - begun_s) < settings.peace_s:
            try:
                moving = stored.runs.count_documents(MOVING, maxTimeMS=ASK_MS)
                moving += stored.groups.count_documents(OPEN, maxTimeMS=ASK_MS)
            except PyMongoError:
                moving = -1
            if moving == 0 and not any(_is_waiting(pod.outbox) for pod in fleet.pods):
                world.say(f"quiet after {waited_s:.1f} s")
                return waited_s
            for pod in fleet.pods:
                pod.program.start()
            world.clock.wait(never, PEACE_TURN_S)
    world.say(f"not quiet after {settings.peace_s:.0f} s")
    return None


MOVING: Final[dict[str, Any]] = {
    "$or": [
        {"status": {"$nin": [status.value for status in FINAL]}},
        {"logOpen": True},
        {"journal.n": {"$gte": 0}},
    ]
}


OPEN: Final[dict[str, Any]] = {"status": {"$nin": sorted(CLOSED)}}


def _is_waiting(outbox: Path) -> bool:
    return outbox.exists() and any(True for _ in ledger.waiting(outbox))
