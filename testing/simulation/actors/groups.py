"""A user of groups: makes them, pauses, cancels and repeats them, and runs their members again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from control_plane.model.groups.pruning import Stop
from control_plane.model.groups.status import CLOSED
from control_plane.runs.groups.service import WantedGroup
from events.lifecycle import FINAL, LIVE
from events.queue.rules import pod_name
from events.runtime.errors import Conflict, Transient
from events.text.attempt_id import AttemptId
from testing.simulation.actors.people import BY, PATIENCE_S
from testing.simulation.actors.replicas import Balancer, Parts
from testing.simulation.kernel import Kernel, Node
from testing.simulation.ledger import Ledger
from testing.simulation.store.replica_set import Document, ReplicaSet

ROWS_MAX: Final = 5
RACES: Final = 0.4  # of the groups
REPORTED_S: Final = 10.0
RACED: Final = ("pod-1", "pod-2")  # they are in every history
RACE: Final[Mapping[str, Any]] = {
    "kind": "race",
    "lanes": [{"pod": name, "parameters": {"events": 1}} for name in RACED],
    "ready_s": 20.0,
    "limit_s": 300.0,
}
STOP: Final = Stop(metric="value", step=1, value=2.0, bound=1.0, members=5)


@dataclass(slots=True)
class GroupUser:
    """One person with sweeps; what is acknowledged to him is written down."""

    kernel: Kernel
    node: Node
    servers: ReplicaSet
    balancer: Balancer
    ledger: Ledger
    wanted: int = 0

    def work(self) -> None:
        """Make a group in every second history; others come with the misfortunes."""
        if self.kernel.chance.random() < 0.5:
            self.strike()

    def strike(self) -> None:
        """Make a group, or do something with one that there is."""
        made = sorted(self.ledger.groups)
        if made and self.kernel.chance.random() < 0.6:
            name = self.kernel.chance.choice(made)
            steps = [self.pause_for_a_while, self.cancel, self.again, self.retry, self.prune]
            step = self.kernel.chance.choice(steps)
            self.kernel.spawn("group", self.node, lambda: step(name))
        else:
            name = f"group-{self.wanted}"
            self.wanted += 1
            self.kernel.spawn("group", self.node, lambda: self.make(name))

    def make(self, name: str) -> None:
        """Make a group until it is acknowledged, let it rest for a while, and lose patience at times."""
        chance = self.kernel.chance
        plan: Mapping[str, Any] = {
            "kind": "matrix",
            "values": {"events": list(range(chance.randint(1, ROWS_MAX)))},
            "parallel": chance.randint(1, 3),
            "stop_after_failures": chance.choice([None, 1, 2]),
        }
        run = {"kind": "probe", "spec": {}, "max_attempts": chance.randint(1, 2)}
        # drawn apart: histories without races stay what they were
        if Random(f"{self.kernel.seed}/{name}").random() < RACES and self._wait_for(*RACED):
            plan = RACE
            self.ledger.counts["races"] += 1
        wanted = WantedGroup(id=name, run=run, plan=plan, by=BY, idempotency_key=name)
        self._insist(lambda parts: parts.groups.create(wanted))
        self.ledger.groups.add(name)
        self.ledger.counts["groups"] += 1
        follow = chance.random()
        if follow < 0.6:
            self.kernel.wait(None, 5.0 * chance.random())
            self.pause_for_a_while(name)
        if follow < 0.3:
            self.kernel.wait(None, 20.0 * chance.random())
            self.cancel(name)
        if follow > 0.4:
            self.kernel.wait(None, 10.0 * chance.random())
            self.prune(name)
        if 0.2 < follow < 0.8:
            self.kernel.wait(None, 40.0 * chance.random())
            self.retry(name)

    def pause_for_a_while(self, name: str) -> None:
        """Pause a group, and resume it some time later."""
        if self._insist(lambda parts: parts.groups.pause(name, by=BY)):
            self.ledger.counts["groups paused"] += 1
            self.kernel.wait(None, 15.0 * self.kernel.chance.random())
        # Also where the answer was a refusal: the pause whose answer was lost may stand.
        self._insist(lambda parts: parts.groups.resume(name, by=BY))

    def cancel(self, name: str) -> None:
        """Cancel a group until it is acknowledged, or refused."""
        if self._insist(lambda parts: parts.groups.cancel(name, by=BY)):
            self.ledger.counts["groups canceled"] += 1

    def again(self, name: str) -> None:
        """Begin a new round, if the group has closed."""
        if self._insist(lambda parts: parts.groups.again(name, revision=None, by=BY)):
            self.ledger.counts["rounds"] += 1

    def retry(self, name: str) -> None:
        """Run a member again that has ended."""
        ended = [run["_id"] for run in self._members(name) if run["status"] in FINAL]
        if ended:
            run_id = self.kernel.chance.choice(ended)
            if self._insist(lambda parts: parts.submitter.retry(run_id, by=BY)):
                self.ledger.counts["members retried"] += 1

    def prune(self, name: str) -> None:
        """Do as a replica's pruner: end a member that an attempt works on, for its metrics."""
        working = [run for run in self._members(name) if run["status"] in LIVE]
        if working:
            run = self.kernel.chance.choice(working)
            attempt_id = AttemptId(run["_id"], run["attempt"])
            by = f"group:{name}"
            if self._insist(lambda parts: parts.decider.prune(attempt_id, STOP, by=by)):
                self.ledger.counts["members looked at by the pruner"] += 1

    def is_done(self) -> bool:
        """Say whether every group is closed."""
        return all(
            each.document["status"] in CLOSED for each in self.servers.collection("groups").majority({})
        )

    def _wait_for(self, *pods: str) -> bool:
        """Wait a while for the first reports of pods; return whether they came."""
        until_s = self.kernel.now_s + REPORTED_S
        while self.kernel.now_s < until_s:
            found = self.servers.collection("pods").majority({})
            if {pod_name(each.document["_id"]) for each in found} >= {*pods}:
                return True
            self.kernel.wait(None, PATIENCE_S)
        return False

    def _members(self, name: str) -> list[Document]:
        found = self.servers.collection("runs").majority({})
        return [each.document for each in found if each.document.get("groupId") == name]

    def _insist(self, step: Callable[[Parts], Awaitable[object]]) -> bool:
        """Ask until it is acknowledged; False where it is refused."""
        while True:
            try:
                self.balancer.ask(step)
            except Transient:
                self.kernel.wait(None, PATIENCE_S)
            except Conflict:
                return False
            else:
                return True
