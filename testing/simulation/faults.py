"""What goes wrong, drawn from the seed before a history begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from testing.simulation.actors.groups import GroupUser
from testing.simulation.actors.people import User
from testing.simulation.actors.pods import Pod
from testing.simulation.actors.replicas import RENEW_EVERY_S, TTL_S, Balancer, HttpOdds, Replica
from testing.simulation.actors.stranger import Stranger
from testing.simulation.kernel import Kernel, Node
from testing.simulation.ledger import Ledger
from testing.simulation.network import Odds, UnreliableNetwork
from testing.simulation.store.replica_set import ReplicaSet

FAULTS_MAX: Final = 14
DOOM_MAX: Final = 60
RETURN_MAX_S: Final = 30.0
OUTAGE_MAX_S: Final = 35.0
STORE_JUMP_MAX_S: Final = 90.0
MACHINE_JUMP_MAX_S: Final = 3_700.0
REVIVE_EVERY_S: Final = 2.0


@dataclass(slots=True)
class World:
    """Everything that can go wrong."""

    kernel: Kernel
    nature: Node
    ledger: Ledger
    servers: ReplicaSet
    store_clock: Node
    network: UnreliableNetwork
    balancer: Balancer
    pods: list[Pod]
    replicas: list[Replica]
    user: User
    stranger: Stranger
    group_user: GroupUser


@dataclass(slots=True)
class Nature:
    """Strikes at the drawn moments, and mends everything at the end."""

    world: World
    until_s: float
    repertoire: Sequence[str]
    is_calm: bool = False

    def work(self) -> None:
        """Let everything that was drawn happen, in its order."""
        chance = self.world.kernel.chance
        moments = sorted(self.until_s * chance.random() for _ in range(chance.randint(3, FAULTS_MAX)))
        for moment_s in moments:
            self.world.kernel.wait(None, moment_s - self.world.kernel.now_s)
            STRIKES[chance.choice(self.repertoire)](self)
        self.world.kernel.wait(None, self.until_s - self.world.kernel.now_s)
        self.mend()

    def mend(self) -> None:
        """Let nothing more go wrong, and start everything that is down."""
        world = self.world
        self.is_calm = True
        world.kernel.note("all is mended")
        world.network.odds, world.balancer.odds = Odds(), HttpOdds()
        world.network.unreachable.clear()
        world.network.sluggish.clear()
        world.network.rescue_ambushes.clear()
        world.network.strike = None
        for pod in world.pods:
            pod.ambushes.clear()
        world.balancer.is_away = False
        for node in [each.node for each in world.replicas] + [
            node for each in world.pods for node in (each.node, each.child_node)
        ]:
            node.doom = None
            if node.is_frozen:
                world.kernel.thaw(node)
        for replica in world.replicas:
            if not replica.node.is_up:
                replica.boot()
        while True:
            for pod in world.pods:
                self.revive(pod)
            for left in world.servers.collection("cordons").newest({}):  # by a request that came late
                if left.document["_id"] not in world.ledger.cordons:
                    world.user.uncordon(left.document["_id"])
            world.kernel.wait(None, REVIVE_EVERY_S)

    def revive(self, pod: Pod) -> None:
        """Start a pod's program, where it does not run."""
        if pod.now is None:
            pod.boot()

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        """Do something after a while, unless everything was mended meanwhile."""

        def wait() -> None:
            self.world.kernel.wait(None, seconds)
            if not self.is_calm:
                step()

        self.world.kernel.spawn("later", self.world.nature, wait)

    def strikes(self, what: str, node: Node) -> None:
        """Count a fault at the moment at which it happens."""
        self.world.ledger.faults[what] += 1
        self.world.kernel.tell(node.name, what)

    def some_pod(self) -> Pod:
        """Draw a pod."""
        return self.world.kernel.chance.choice(self.world.pods)

    def some_replica(self) -> Replica:
        """Draw a replica."""
        return self.world.kernel.chance.choice(self.world.replicas)

    def draw_s(self, most_s: float) -> float:
        """Draw a duration."""
        return most_s * self.world.kernel.chance.random()


def _kill_pod(nature: Nature, *, loses_disk: bool = False) -> None:
    pod = nature.some_pod()

    def back() -> None:
        if pod.now is not None:
            return
        if loses_disk:
            pod.lose_disk()
        pod.boot()

    def die() -> None:
        nature.strikes("pod: killed, disk lost" if loses_disk else "pod: killed", pod.node)
        pod.kill()
        nature.later(nature.draw_s(RETURN_MAX_S), back)

    _doom(nature, pod.node, die)


def _doom(nature: Nature, node: Node, die: Callable[[], None]) -> None:
    node.doom, node.fate = nature.world.kernel.chance.randint(1, DOOM_MAX), die


def _kill_replica(nature: Nature) -> None:
    replica = nature.some_replica()

    def back() -> None:
        if not replica.node.is_up:
            replica.boot()

    def die() -> None:
        nature.strikes("replica: killed", replica.node)
        replica.kill()
        nature.later(nature.draw_s(RETURN_MAX_S), back)

    _doom(nature, replica.node, die)


def _stop_pod(nature: Nature) -> None:
    """Stop the parent only: its child goes on."""
    pod = nature.some_pod()
    nature.strikes("pod: parent stopped", pod.node)
    nature.world.kernel.freeze(pod.node)
    nature.later(nature.draw_s(4 * TTL_S), lambda: nature.world.kernel.thaw(pod.node))


def _pause_machine(nature: Nature) -> None:
    """Pause parent and child; the monotonic clock stands still meanwhile."""
    pod, pause_s = nature.some_pod(), nature.draw_s(4 * TTL_S)
    if pod.node.is_frozen:
        return
    nature.strikes("pod: machine paused", pod.node)
    nodes = (pod.node, pod.child_node)
    for node in nodes:
        nature.world.kernel.freeze(node)

    def go_on() -> None:
        for node in nodes:
            nature.world.kernel.thaw(node, lost_s=pause_s)

    nature.later(pause_s, go_on)


def _stop_replica(nature: Nature) -> None:
    replica = nature.some_replica()
    nature.strikes("replica: stopped", replica.node)
    nature.world.kernel.freeze(replica.node)
    nature.later(nature.draw_s(2 * TTL_S), lambda: nature.world.kernel.thaw(replica.node))


def _preempt(nature: Nature) -> None:
    pod = nature.some_pod()
    if pod.now is not None and not pod.now.stop.is_set():
        nature.strikes("pod: preempted", pod.node)
        pod.now.stop.set()
        nature.later(5.0 + nature.draw_s(RETURN_MAX_S), lambda: nature.revive(pod))


def _strike_at_settle(nature: Nature) -> None:
    """Wait for a pod's next settle; then kill it, stop it, or cut it off, until it may have been rescued."""
    world, pod = nature.world, nature.some_pod()
    absence_s = 2 * TTL_S + nature.draw_s(RETURN_MAX_S)
    how = world.kernel.chance.choice(["kill", "stop", "cut"])

    def strike() -> None:
        nature.strikes(f"pod: struck as it settles ({how})", pod.node)
        if how == "kill":
            pod.kill()
            nature.later(absence_s, lambda: nature.revive(pod))
        elif how == "stop":
            world.kernel.freeze(pod.node)
            nature.later(absence_s, lambda: world.kernel.thaw(pod.node))
        else:
            world.network.unreachable.add(pod.node.name)
            nature.later(absence_s, lambda: world.network.unreachable.discard(pod.node.name))

    pod.ambushes.append(strike)


def _back_as_it_is_rescued(nature: Nature) -> None:
    """Stop a busy pod, and each replica between what it reads of the lost lease and what it writes.

    Meanwhile the pod comes back, renews or settles.
    """
    world = nature.world
    busy = [pod for pod in world.pods if pod.is_busy() and not pod.node.is_frozen]
    if not busy:
        return
    pod = world.kernel.chance.choice(busy)
    world.kernel.freeze(pod.node)

    def back() -> None:
        if pod.node.is_frozen:
            world.kernel.thaw(pod.node)

    def ambush(node: Node) -> Callable[[], None]:
        def strike() -> None:
            nature.strikes("pod: back as it is rescued", node)
            world.kernel.freeze(node)
            back()
            nature.later(RENEW_EVERY_S + nature.draw_s(TTL_S / 2), lambda: world.kernel.thaw(node))

        return strike

    nature.later(4 * TTL_S, back)
    for replica in world.replicas:
        world.network.rescue_ambushes[replica.node.name] = ambush(replica.node)


def _sluggish(nature: Nature) -> None:
    world, node = nature.world, nature.some_replica().node
    nature.strikes("replica: sluggish", node)
    name = node.name
    world.network.sluggish.add(name)
    nature.later(nature.draw_s(OUTAGE_MAX_S), lambda: world.network.sluggish.discard(name))


def _step_down(nature: Nature) -> None:
    """Let the primary step down under the next write, which no majority has then."""
    world, election_s = nature.world, nature.draw_s(8.0)

    def step_down() -> None:
        nature.strikes("store: step-down", world.store_clock)
        world.servers.step_down()
        world.network.election_ends_s = world.kernel.now_s + election_s

    world.network.strike = step_down


def _store_clock(nature: Nature) -> None:
    chance = nature.world.kernel.chance
    nature.strikes("store: clock jumps", nature.world.store_clock)
    nature.world.store_clock.wall_ahead_s = STORE_JUMP_MAX_S * (2 * chance.random() - 1)
    nature.world.store_clock.shaken_s = nature.world.kernel.now_s


def _pod_clock(nature: Nature) -> None:
    pod = nature.some_pod()
    if pod.child_node.is_frozen:  # nobody sets the clock of a machine that is paused
        return
    nature.strikes("pod: clock jumps", pod.node)
    pod.node.wall_ahead_s += MACHINE_JUMP_MAX_S * (2 * nature.world.kernel.chance.random() - 1)


def _replica_clock(nature: Nature) -> None:
    node = nature.some_replica().node
    nature.strikes("replica: clock jumps", node)
    node.wall_ahead_s += MACHINE_JUMP_MAX_S * (2 * nature.world.kernel.chance.random() - 1)


def _cut_off(nature: Nature) -> None:
    chance = nature.world.kernel.chance
    nodes = [each.node for each in nature.world.pods] + [each.node for each in nature.world.replicas]
    node = chance.choice(nodes)
    nature.strikes("store: cut off", node)
    name = node.name
    unreachable = nature.world.network.unreachable
    unreachable.add(name)
    nature.later(nature.draw_s(OUTAGE_MAX_S), lambda: unreachable.discard(name))


def _away(nature: Nature) -> None:
    balancer = nature.world.balancer
    nature.strikes("control plane: away", nature.world.nature)
    balancer.is_away = True

    def back() -> None:
        balancer.is_away = False

    nature.later(nature.draw_s(OUTAGE_MAX_S), back)


def _cancel_storm(nature: Nature) -> None:
    nature.strikes("user: cancel storm", nature.world.user.node)
    nature.world.user.storm()


def _cordon(nature: Nature) -> None:
    """Cordon a pod by its name, start its worker again, and lift the cordon some time later."""
    user, pod = nature.world.user, nature.some_pod()
    nature.strikes("user: cordon", user.node)
    name = pod.node.name

    def keep_from_claiming() -> None:
        user.cordon(name)
        pod.kill()
        nature.revive(pod)
        nature.world.kernel.wait(None, nature.draw_s(RETURN_MAX_S))
        user.uncordon(name)

    nature.world.kernel.spawn("cordon", user.node, keep_from_claiming)


def _stranger(nature: Nature) -> None:
    nature.strikes("stranger: sends", nature.world.stranger.node)
    nature.world.stranger.strike()


def _group(nature: Nature) -> None:
    nature.strikes("user: group", nature.world.group_user.node)
    nature.world.group_user.strike()


STRIKES: Final[Mapping[str, Callable[[Nature], None]]] = {
    "pod: killed": _kill_pod,
    "pod: killed, disk lost": lambda nature: _kill_pod(nature, loses_disk=True),
    "pod: parent stopped": _stop_pod,
    "pod: machine paused": _pause_machine,
    "pod: preempted": _preempt,
    "pod: struck as it settles": _strike_at_settle,
    "pod: clock jumps": _pod_clock,
    "replica: killed": _kill_replica,
    "replica: stopped": _stop_replica,
    "replica: sluggish": _sluggish,
    "replica: clock jumps": _replica_clock,
    "pod: back as it is rescued": _back_as_it_is_rescued,
    "store: step-down": _step_down,
    "store: clock jumps": _store_clock,
    "store: cut off": _cut_off,
    "control plane: away": _away,
    "user: cancel storm": _cancel_storm,
    "user: cordon": _cordon,
    "stranger: sends": _stranger,
    "user: group": _group,
}
