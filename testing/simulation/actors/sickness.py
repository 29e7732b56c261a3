"""A sickness of pods: some fail every run by themselves, are put in quarantine, and are let go again.

It comes twice: among other faults, and when these are over, so that how many pods are in quarantine can be
looked at where nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from testing.simulation.actors.people import User
from testing.simulation.actors.pods import Pod
from testing.simulation.kernel import Kernel, Node
from testing.simulation.ledger import Ledger
from testing.simulation.quarantines import held
from testing.simulation.store.replica_set import Document, ReplicaSet

RUNS: Final = 3
EVERY_S: Final = 4.0
SPELL_S: Final = 20.0
CALM_S: Final = 30.0  # after this long without faults every pod has reported, and every look is a new one
FAULTS: Final = ("Xid 79",)
RELEASED: Final = 0.15  # of the looks at a pod in quarantine a person lets it go


@dataclass(slots=True)
class Sickness:
    """Makes pods sick and well again; `chance` is its own, so that other histories stay what they are."""

    kernel: Kernel
    node: Node
    chance: Random
    servers: ReplicaSet
    pods: Sequence[Pod]
    user: User
    ledger: Ledger
    is_over: bool = False

    def work(self, is_calm: Callable[[], bool]) -> None:
        """Let it come twice."""
        self._come("early")
        while not is_calm():
            self.kernel.wait(None, EVERY_S)
        self.kernel.wait(None, CALM_S)
        self.ledger.is_calm = True
        self._come("late")
        self.is_over = True

    def _come(self, name: str) -> None:
        sick = self.chance.sample(self.pods, self.chance.randint(1, len(self.pods)))
        self.kernel.note(f"sick: {', '.join(pod.node.name for pod in sick)}")
        self.ledger.counts["pods sick"] += len(sick)
        for number in range(RUNS):
            key = f"{name}-{number}"
            self.kernel.spawn("submit", self.node, partial(self.user.submit, key, max_attempts=3))
        for pod in sick:
            pod.is_sick = True
            pod.faults = FAULTS if self.chance.random() < 0.5 else ()
        well_s = self.kernel.now_s + SPELL_S * (0.5 + self.chance.random())
        while self.kernel.now_s < well_s:
            self.kernel.wait(None, EVERY_S)
            for each in held(self.quarantines()):
                if self.chance.random() < RELEASED:
                    self.user.release(each)
        for pod in sick:
            pod.is_sick, pod.faults = False, ()

    def quarantines(self) -> list[Document]:
        """Return the quarantines that a majority has."""
        found = self.servers.collection("quarantines").majority({})
        return [pod for each in found for pod in each.document["pods"]]
