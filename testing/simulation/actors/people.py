"""A user who submits runs, loses patience with some of them, and believes only what is acknowledged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from control_plane.runs.options import OptionChanges
from control_plane.runs.submission import Submission
from events.lifecycle import INITIAL, Status
from events.runtime.errors import Conflict, OutOfDate, Transient
from testing.simulation.actors.replicas import Balancer, Parts
from testing.simulation.kernel import Kernel, Node
from testing.simulation.ledger import Ledger

BY: Final = "user"
PATIENCE_S: Final = 1.0
# What runs ask of pods; every history has the first two, of which each is in another rack.
REQUIRED: Final[Sequence[Mapping[str, Any]]] = (
    {}, {}, {}, {}, {"pod": "pod-1"}, {"pod": "pod-2"},
    {"labels": {"rack": "r0"}}, {"labels": {"rack": "r1"}}, {"pod": "pod-2", "labels": {"rack": "r0"}},
)  # fmt: skip
FAR: Final = {"region": "far"}  # where no simulated pod is
FAR_MAX_S: Final = 10.0


@dataclass(slots=True)
class User:
    """One person with a script."""

    kernel: Kernel
    node: Node
    balancer: Balancer
    ledger: Ledger
    runs: int
    hurry_s: float
    cancels: float
    changes: float
    whims: Random  # chance of its own: histories without changes stay what they were

    def work(self) -> None:
        """Submit every run, and cancel some."""
        for number in range(self.runs):
            self.kernel.wait(None, self.hurry_s * self.kernel.chance.random())
            run_id = self._submit(number)
            self.ledger.submitted.append(run_id)
            if self.kernel.chance.random() < self.cancels:
                self.kernel.spawn("cancel", self.node, partial(self._cancel_later, run_id))
            if self.whims.random() < self.changes:
                self.kernel.spawn("change", self.node, partial(self._send_away, run_id))

    def storm(self) -> None:
        """Cancel everything that is known by now."""
        for run_id in list(self.ledger.submitted):
            if self.kernel.chance.random() < 0.5:
                self.kernel.spawn("cancel", self.node, partial(self.cancel, run_id))

    def cancel(self, run_id: str) -> None:
        """Cancel until it is acknowledged, or refused."""
        while True:
            try:
                run = self.balancer.ask(lambda parts: parts.decider.cancel(run_id, by=BY))
            except Transient:
                self.kernel.wait(None, PATIENCE_S)
            except Conflict:
                self.ledger.counts["cancels refused"] += 1
                return
            else:
                assert run.status in (Status.CANCELING, Status.CANCELED)
                self.ledger.counts["cancels"] += 1
                self.ledger.canceled.add(run_id)
                return

    def cordon(self, pod: str) -> None:
        """Cordon a pod until it is acknowledged."""
        lifted = self.ledger.counts["uncordons"]
        self._insist(lambda parts: parts.rules.cordon(pod, "simulated", BY, None, None))
        self.ledger.counts["cordons"] += 1
        if self.ledger.counts["uncordons"] == lifted:  # else it may have been lifted before the answer came
            self.ledger.cordons[pod] = self.ledger.counts["cordons"]

    def uncordon(self, pod: str) -> None:
        """Lift a cordon until it is acknowledged."""
        self.ledger.counts["uncordons"] += 1
        self.ledger.cordons.pop(pod, None)  # from here on nobody knows whether it holds
        self._insist(lambda parts: parts.rules.uncordon(pod))

    def release(self, pod: str) -> None:
        """Let a pod out of quarantine, until that is acknowledged."""
        self._insist(lambda parts: parts.steering.release(pod, by=BY))
        self.ledger.counts["pods released"] += 1

    def submit(self, key: str, *, max_attempts: int) -> None:
        """Submit a run that any pod may take, until it is acknowledged."""
        wanted = Submission(kind="probe", spec={}, by=BY, max_attempts=max_attempts, idempotency_key=key)
        self.ledger.submitted.append(self._acknowledged(wanted))

    def _insist(self, step: Callable[[Parts], Awaitable[object]]) -> None:
        while True:
            try:
                self.balancer.ask(step)
            except Transient:
                self.kernel.wait(None, PATIENCE_S)
            else:
                return

    def _send_away(self, run_id: str) -> None:
        """Change a run so that no pod may take it, and after a while back."""
        if self._require(run_id, FAR):
            self.ledger.away.add(run_id)
            self.ledger.counts["runs sent away"] += 1
            self.kernel.wait(None, FAR_MAX_S * self.whims.random())
            self.ledger.away.discard(run_id)  # from here on nobody knows
            self._require(run_id, {})

    def _require(self, run_id: str, requires: dict[str, str]) -> bool:
        """Change the requirements of a run until that is acknowledged; return whether it waits with them.

        Each try names the revision that was looked at: one that arrives late changes nothing.
        """
        wanted = OptionChanges(requires=requires, priority=self.whims.randint(-1, 1))
        while True:
            try:
                found = self.balancer.ask(lambda parts: parts.decider.runs.find(run_id))
                if found is None or found.run.status not in INITIAL:
                    return False
                seen = found.run.revision
                change = partial(self._changed, run_id, wanted, seen)
                self.balancer.ask(change)
            except (Transient, OutOfDate):
                self.kernel.wait(None, PATIENCE_S)
            except Conflict:
                return False
            else:
                return True

    @staticmethod
    def _changed(run_id: str, wanted: OptionChanges, seen: int, parts: Parts) -> Awaitable[object]:
        return parts.decider.change(run_id, wanted, by=BY, revision=seen)

    def _cancel_later(self, run_id: str) -> None:
        self.kernel.wait(None, 15.0 * self.kernel.chance.random())
        self.cancel(run_id)

    def _submit(self, number: int) -> str:
        # drawn apart, so that what is asked of pods disturbs no other draw of the history
        requires = Random(f"{self.kernel.seed}/{number}").choice(REQUIRED)
        wanted = Submission(
            kind="probe",
            requires=requires,
            spec={"review": "human"} if self.kernel.chance.random() < 0.1 else {},
            by=BY,
            priority=self.kernel.chance.randint(-1, 1),
            max_attempts=self.kernel.chance.randint(1, 3),
            idempotency_key=f"run-{number}",
        )
        return self._acknowledged(wanted)

    def _acknowledged(self, wanted: Submission) -> str:
        while True:
            try:
                return self.balancer.ask(lambda parts: parts.submitter.submit(wanted)).run_id
            except Transient:
                self.kernel.wait(None, PATIENCE_S)
