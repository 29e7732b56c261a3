"""One history: a fleet, its people and its misfortunes, from one seed."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from events.testing import EPOCH, SeededIds
from testing.simulation.actors.groups import GroupUser
from testing.simulation.actors.people import User
from testing.simulation.actors.pods import Pod
from testing.simulation.actors.replicas import Balancer, HttpOdds, Replica
from testing.simulation.actors.sickness import Sickness
from testing.simulation.actors.stranger import Stranger
from testing.simulation.faults import STRIKES, Nature, World
from testing.simulation.invariants import EVENTUALLY_S, InvariantChecker
from testing.simulation.kernel import TRACE_MAX, Actor, Kernel, Node, Stuck
from testing.simulation.ledger import Ledger
from testing.simulation.network import Odds, UnreliableNetwork
from testing.simulation.product import Product
from testing.simulation.store.replica_set import ReliableNetwork
from testing.simulation.themes import SICKNESS, own_themes

TROUBLE_MAX_S: Final = 60.0
MEMORY_DISK: Final = Path("/dev/shm")  # noqa: S108 - a disk that costs no time, where there is one


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one seed."""

    seed: int
    violations: tuple[str, ...]
    digest: int
    steps: int
    virtual_s: float
    counts: Counter[str]
    faults: Counter[str]
    trace: tuple[tuple[float, str, str], ...]


def play(
    seed: int,
    product: Product | None = None,
    *,
    strikes: Sequence[str] = tuple(STRIKES),
    themes: Collection[str] = (),
    trace_max: int = TRACE_MAX,
) -> Outcome:
    """Play the history of a seed to its end, and check it; only `strikes` are drawn as misfortunes.

    What it is about besides are the `themes`, and those that its seed has by itself.
    """
    themes = {*themes, *own_themes(seed)}
    kernel = Kernel(seed, trace_max)
    ledger = Ledger()
    with _disks() as home, _silence():
        try:
            checker = _play(
                kernel, ledger, _world(kernel, ledger, home, product or Product(), themes), strikes, themes
            )
            runs = [each.document for each in checker.servers.collection("runs").majority({})]
            ledger.counts["runs"] = len(runs)
            ledger.counts["attempts"] = sum(run["attempt"] for run in runs)
            ledger.counts["writes rolled back"] = checker.servers.rolled_back
        finally:
            kernel.close()
    return Outcome(
        seed,
        tuple(ledger.violations),
        kernel.digest,
        kernel.steps,
        kernel.now_s,
        ledger.counts,
        ledger.faults,
        tuple(kernel.trace),
    )


def _play(
    kernel: Kernel, ledger: Ledger, world: World, strikes: Sequence[str], themes: Collection[str]
) -> InvariantChecker:
    checker = InvariantChecker(world.servers, ledger)
    world.servers.witness = checker.saw
    kernel.on_time = ledger.look
    nature = Nature(world, until_s=TROUBLE_MAX_S * (0.4 + 0.6 * kernel.chance.random()), repertoire=strikes)

    def crashed(actor: Actor, error: BaseException) -> None:
        ledger.blame(f"{actor.name} raises {type(error).__name__}: {error}")

    kernel.crashed = crashed
    for replica in world.replicas:
        replica.boot()
    for pod in world.pods:
        pod.boot()
    kernel.spawn("user", world.user.node, world.user.work)
    kernel.spawn("group user", world.group_user.node, world.group_user.work)
    kernel.spawn("nature", world.nature, nature.work)
    sickness = None
    if SICKNESS in themes:
        own = Random(f"{kernel.seed}/sickness")
        sickness = Sickness(kernel, Node("sickness"), own, world.servers, world.pods, world.user, ledger)
        kernel.spawn("sickness", sickness.node, partial(sickness.work, lambda: nature.is_calm))

    def is_done() -> bool:
        if sickness is not None and not sickness.is_over:
            return False
        if not nature.is_calm or not checker.is_settled() or not world.group_user.is_done():
            return False
        return all(pod.now is not None and not pod.pending() for pod in world.pods)

    try:
        kernel.run(is_done, limit_s=nature.until_s + EVENTUALLY_S)
    except Stuck as error:
        ledger.blame(str(error))
    waiting = sum(pod.pending() for pod in world.pods)
    if waiting:
        ledger.blame(f"{waiting} events are still in an outbox")
    world.servers.network = ReliableNetwork()
    checker.verdict()
    return checker


def _world(kernel: Kernel, ledger: Ledger, home: Path, product: Product, themes: Collection[str]) -> World:
    chance = kernel.chance
    store_clock, nature = Node("store"), Node("nature")

    def store_now() -> datetime:
        return EPOCH + timedelta(seconds=kernel.now_s + store_clock.wall_ahead_s)

    network = UnreliableNetwork(kernel, Node("network"), ledger.faults, _odds(chance.random()))
    servers = product.servers(store_now, network)
    replicas = [
        Replica(
            kernel,
            Node(f"replica-{number}"),
            servers,
            SeededIds(kernel.seed * 100 + number),
            ledger,
            product,
            SICKNESS in themes,
        )
        for number in (1, 2)
    ]
    http = chance.choice(
        [HttpOdds(), HttpOdds(0.05, 0.05, 0.1, 0.1, 0.05), HttpOdds(0.2, 0.2, 0.3, 0.3, 0.1)]
    )
    balancer = Balancer(kernel, replicas, ledger, http)
    pods = [
        Pod(
            kernel,
            Node(f"pod-{number}"),
            Node(f"pod-{number}-child"),
            store_clock,
            servers,
            balancer,
            SeededIds(kernel.seed * 100 + 10 + number),
            ledger,
            product,
            home,
            themes,
        )
        for number in range(1, 1 + chance.randint(2, 4))
    ]
    whims = Random(kernel.seed)
    user = User(
        kernel,
        Node("user"),
        balancer,
        ledger,
        runs=chance.randint(2, 7),
        hurry_s=chance.choice([0.5, 5.0]),
        cancels=chance.choice([0.0, 0.2, 0.5]),
        changes=whims.choice([0.0, 0.0, 0.5]),
        whims=whims,
    )
    ids = SeededIds(kernel.seed * 100 + 99)
    stranger = Stranger(kernel, Node("stranger"), servers, balancer, ids, ledger)
    group_user = GroupUser(kernel, Node("group-user"), servers, balancer, ledger)
    ledger.pods = len(pods)
    return World(
        kernel, nature, ledger, servers, store_clock, network, balancer, pods, replicas, user, stranger,
        group_user,
    )  # fmt: skip


def _odds(draw: float) -> Odds:
    if draw < 0.2:
        return Odds()
    if draw < 0.7:
        return Odds(lost=0.02, eaten=0.03, late=0.01, cut=0.02, slow=0.01)
    return Odds(lost=0.08, eaten=0.1, late=0.03, cut=0.1, slow=0.03)


@contextmanager
def _disks() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="simulation-", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None))
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the product's logs out: they are as long as the trace, and say less."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
