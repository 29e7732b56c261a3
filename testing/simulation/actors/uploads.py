"""Files on their way to object storage, simulated: they take time, fail at times, stand still on order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from events.catalog import ArtifactFailed, ArtifactRegistered
from events.delivery.outbox import Outbox
from events.delivery.pipe import Checkpoint, Kept, Made
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.runtime.errors import Conflict, Transient
from events.text.attempt_id import AttemptId
from pod_worker.files.fetch_result import Fetched
from pod_worker.files.uploads import NotStored
from testing.simulation.actors.replicas import Balancer
from testing.simulation.kernel import Kernel, Node, NodeClock
from testing.simulation.ledger import Ledger

FAILS: Final = 0.05
RETRY_S: Final = 1.0
LEAVING_TURN_S: Final = 0.5
NEVER_S: Final = 1e9


@dataclass(slots=True)
class _Batch:
    waiting: int = 0
    problems: list[str] = field(default_factory=list)
    idle: Event = field(default_factory=Event)
    is_dropped: bool = False


@dataclass(slots=True)
class SimulatedUploads:
    """Keeps the promises of the real uploader, without a network."""

    kernel: Kernel
    node: Node
    clock: NodeClock
    outbox: Outbox
    ledger: Ledger
    _batches: dict[AttemptId, _Batch] = field(default_factory=dict)
    _may_send: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._may_send.set()

    def add(self, claim: Claim, made: Made) -> None:
        """Take a file; it is sent beside everything else."""
        batch = self._batches.setdefault(claim.attempt_id, _Batch())
        batch.waiting += 1
        batch.idle.clear()
        self.kernel.spawn("upload", self.node, lambda: self._send(claim, made, batch))

    def add_checkpoint(self, claim: Claim, checkpoint: Checkpoint, answer: Callable[[Kept], None]) -> None:
        """Take a checkpoint; `answer` hears when ingest knows of all its files."""
        batch = self._batches.setdefault(claim.attempt_id, _Batch())
        batch.waiting += 1
        batch.idle.clear()
        self.kernel.spawn("checkpoint", self.node, lambda: self._keep(claim, checkpoint, answer, batch))

    def drain(self, claim: Claim, *, deadline_s: float) -> NotStored | None:
        """Wait until the deadline; return why a file is not kept, None when every file is."""
        name = claim.attempt_id
        batch = self._batches.get(name)
        if batch is None:
            return None
        self.clock.wait(batch.idle, max(0.0, deadline_s - self.clock.monotonic_s()))
        if batch.waiting:
            return NotStored(f"{batch.waiting} files are not uploaded yet")
        self._batches.pop(name, None)
        return NotStored("; ".join(batch.problems)) if batch.problems else None

    def has_waiting(self, claim: Claim) -> bool:
        """Say whether `drain` has still to answer for a file of the attempt."""
        return claim.attempt_id in self._batches

    def suspend(self) -> None:
        """Send nothing more."""
        self._may_send.clear()

    def resume(self) -> None:
        """Go on."""
        self._may_send.set()

    def forget(self, claim: Claim) -> None:
        """Give an attempt's files up."""
        batch = self._batches.pop(claim.attempt_id, None)
        if batch is not None:
            batch.is_dropped = True

    def _keep(
        self, claim: Claim, checkpoint: Checkpoint, answer: Callable[[Kept], None], batch: _Batch
    ) -> None:
        last = 0
        for made in checkpoint.files:
            self.kernel.wait(None, 1.0 * self.kernel.chance.random())
            self.clock.wait(self._may_send, NEVER_S)
            if batch.is_dropped:
                return
            last = self._register(claim, _registered(claim, made))
        while not batch.is_dropped and not self.outbox.has_left(claim.attempt_id, last):
            self.kernel.wait(None, LEAVING_TURN_S)
        answer(Kept(checkpoint.number, "the attempt is over" if batch.is_dropped else None))
        self._done(batch)

    def _send(self, claim: Claim, made: Made, batch: _Batch) -> None:
        self.kernel.wait(None, 1.5 * self.kernel.chance.random())
        self.clock.wait(self._may_send, NEVER_S)
        if batch.is_dropped:
            return
        self.kernel.note(f"upload {made.name}")
        if self.kernel.chance.random() < FAILS:
            self.ledger.faults["upload: failed"] += 1
            self.ledger.failed.add(claim.attempt_id)
            batch.problems.append(f"{made.name}: storage refuses it")
            self._register(claim, ArtifactFailed(name=made.name, code="UPLOAD_FAILED", message="refused"))
        else:
            self._register(claim, _registered(claim, made))
        self._done(batch)

    def _done(self, batch: _Batch) -> None:
        batch.waiting -= 1
        if not batch.waiting:
            batch.idle.set()

    def _register(self, claim: Claim, fact: Fact) -> int:
        while True:
            try:
                return self.outbox.append(claim.attempt_id, [fact])
            except Conflict:
                return 0  # the attempt ended without waiting for this file
            except Transient:
                self.kernel.wait(None, RETRY_S)


def _registered(claim: Claim, made: Made) -> ArtifactRegistered:
    key = f"runs/{claim.run_id}/a{claim.attempt}/0123456789abcdef/{made.name}"
    return ArtifactRegistered(name=made.name, key=key, size=3, sha256="0" * 64)


@dataclass(frozen=True, slots=True)
class SimulatedCheckpoints:
    """What earlier attempts left: it takes a while to learn that the simulated child needs none of it."""

    kernel: Kernel
    balancer: Balancer

    def fetch(self, claim: Claim, folder: Path) -> Fetched:
        """Ask, as the real one does before a second attempt begins."""
        self.kernel.note(f"checkpoints of {claim.run_id}")
        self.kernel.wait(None, 0.5 * self.kernel.chance.random())
        if self.balancer.is_away:
            raise Transient("control_plane_unreachable", "nobody answers")
        return Fetched()
