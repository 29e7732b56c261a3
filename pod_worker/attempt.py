"""Runs one claimed attempt from start to settle: the parent's side of a pipeline.

Law: one thread records what the child says, in order; it alone reads the clock for the
limits and the lease, so that suspending, stopping and ending happen in one place.
"""

from __future__ import annotations

import logging
import queue
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import msgspec

from events.catalog import ENDS, TYPES, ArtifactDetected, ArtifactFailed, Fact, RunCompleted, RunFailed
from events.clock import Clock, Ids
from events.errors import LeaseLost, Transient
from events.outbox import Outbox
from events.outgoing import end_of
from events.pipe import Made, Said, Start
from events.settlement import End
from pod_worker.child import Child, Exit, Heard
from pod_worker.claim import Claim
from pod_worker.ending import TimedOut
from pod_worker.heartbeat import Heartbeat
from pod_worker.lease import Stand, judge
from pod_worker.settlement import Evidence, Order, final_fact

log = logging.getLogger(__name__)

HEARD_MAX: Final = 1_000  # frames that wait for the disk; more make the child wait
BATCH_MAX: Final = 500
TICK_S: Final = 0.1
FULL_PAUSE_S: Final = 5.0
NAME_MAX: Final = 200
CANCEL_GRACE_S: Final = 30.0
PREEMPT_GRACE_S: Final = 2.0  # one provider gives a pod five seconds in all
UPLOADS_AFTER_PREEMPTION_S: Final = 1.0
UPLOADS_AFTER_FAILURE_S: Final = 60.0
NO_PROGRESS_S: Final = 30 * 60.0
TIME_LIMIT_DEFAULT_S: Final = 3600.0
SETTLE_BACK_OFF_S: Final = 2.0


class Uploads(Protocol):
    """Takes the files that a pipeline made."""

    def add(self, claim: Claim, made: Made) -> None: ...

    def drain(self, claim: Claim, *, deadline_s: float) -> str | None:
        """Wait for the attempt's uploads; return what could not be kept, None when all was."""
        ...

    def has_waiting(self, claim: Claim) -> bool: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def forget(self, claim: Claim) -> None: ...


class Settling(Protocol):
    """The part of the queue that ends an attempt."""

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What every attempt of a worker shares."""

    queue: Settling
    outbox: Outbox
    uploads: Uploads
    clock: Clock
    ids: Ids
    work: Path
    stop: threading.Event


@dataclass(slots=True)
class Attempt:
    """One attempt under way."""

    ports: Ports
    claim: Claim
    child: Child
    heartbeat: Heartbeat
    on_stand: Callable[[Stand], None]
    stand: Stand = "trusted"
    ordered: Order | None = None
    timed_out: TimedOut | None = None
    said: Fact | None = None
    stage: str | None = None
    begun_s: float = 0.0
    heard_s: float = 0.0
    ordered_s: float = 0.0
    _heard: queue.Queue[Heard] = field(default_factory=lambda: queue.Queue(HEARD_MAX))
    _unsaved: list[Said | Fact] = field(default_factory=list)
    _deaf: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run the child to its end and settle; after a lost lease nothing is written any more."""
        workspace = self.ports.work / f"{self.claim.run_id}-a{self.claim.attempt}"
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir(parents=True)
        self.heartbeat.start()
        try:
            self.child.start(self._order(workspace), self._hear)
            self.begun_s = self.heard_s = self.ports.clock.monotonic_s()
            self._finish(self._supervise())
        except LeaseLost:
            self.child.kill()
            self.ports.uploads.forget(self.claim)
            self.ports.outbox.abandon(self.claim.run_id, self.claim.attempt)
            log.warning("run.abandoned", extra={"run": self.claim.run_id, "attempt": self.claim.attempt})
        finally:
            self._deaf.set()
            self.heartbeat.stop()
            shutil.rmtree(workspace, ignore_errors=True)

    def _order(self, workspace: Path) -> Start:
        claim = self.claim
        return Start(
            run_id=claim.run_id,
            attempt=claim.attempt,
            kind=claim.kind,
            spec=dict(claim.spec),
            workspace=str(workspace),
            hypothesis_id=claim.hypothesis_id,
        )

    def _supervise(self) -> Exit:
        while True:
            self._record()
            self._stand()
            self._obey()
            self._limit()
            ended = self.child.join(0)
            if ended is not None:
                self._record_the_rest()
                return ended

    def _record_the_rest(self) -> None:
        while self._unsaved or not self._heard.empty():
            self._stand()
            self._record()
            if self._unsaved and self.ports.stop.is_set():
                # A log with a hole must not end as if it were whole: the rescue takes the run.
                raise LeaseLost(self.claim.run_id, self.claim.attempt)

    def _hear(self, frame: Heard) -> None:
        """Take a frame in the child's reader thread; wait while the disk is behind."""
        while not self._deaf.is_set():
            try:
                self._heard.put(frame, timeout=TICK_S)
            except queue.Full:
                continue
            return

    def _record(self) -> None:
        """Take what was said since the last turn into the outbox, in one transaction.

        A full outbox keeps it here and takes no more, so that the child waits and nothing is lost.
        """
        if not self._unsaved:
            for each in self._next():
                self._take(each)
        if not self._unsaved:
            return
        try:
            self.ports.outbox.append(self.claim.run_id, self.claim.attempt, self._unsaved)
        except Transient as error:
            log.error("outbox.refused", extra={"code": error.code, "why": error.message})
            self.ports.clock.wait(self.ports.stop, FULL_PAUSE_S)
            return
        self._unsaved = []

    def _take(self, heard: Heard) -> None:
        self.heard_s = self.ports.clock.monotonic_s()
        match heard:
            case Made() if self._is_ours(heard):
                self._unsaved.append(ArtifactDetected(name=heard.name[:NAME_MAX], stage=heard.stage))
                self.ports.uploads.add(self.claim, heard)
            case Made():
                message = "the file lies outside the attempt's folder"
                refused = ArtifactFailed(name=heard.name[:NAME_MAX], code="FOREIGN_FILE", message=message)
                self._unsaved.append(refused)
            case Said(type=name, data=data) if name in ENDS:
                self.said = msgspec.convert(data, TYPES[name])
            case Said(data=data):
                self.stage = str(data.get("stage") or self.stage or "") or None
                self._unsaved.append(heard)

    def _is_ours(self, made: Made) -> bool:
        return Path(made.path).resolve().is_relative_to(self.ports.work.resolve())

    def _next(self) -> list[Heard]:
        heard: list[Heard] = []
        try:
            heard.append(self._heard.get(timeout=TICK_S))
            while len(heard) < BATCH_MAX:
                heard.append(self._heard.get_nowait())
        except queue.Empty:
            return heard  # nothing more was said for now
        return heard

    def _stand(self) -> None:
        stand = judge(self.heartbeat.pulse.lease, now_s=self.ports.clock.monotonic_s())
        if stand in ("lost", "given up"):
            raise LeaseLost(self.claim.run_id, self.claim.attempt)
        if stand == self.stand:
            return
        log.warning("lease.stand", extra={"run": self.claim.run_id, "stand": stand})
        if stand == "suspended":
            self.child.suspend()
            self.ports.uploads.suspend()
        else:
            self.ports.uploads.resume()
            self.child.resume()
        self.stand = stand
        self.on_stand(stand)

    def _obey(self) -> None:
        """Pass on a cancel or the pod's own stop; a child that does not obey in time is killed."""
        now_s = self.ports.clock.monotonic_s()
        wanted: Order | None = None
        if self.heartbeat.pulse.cancel:
            wanted = "cancel"
        elif self.ports.stop.is_set():
            wanted = "preempt"
        if wanted is not None and self.ordered is None:
            self.ordered, self.ordered_s = wanted, now_s
            self.child.terminate()
        grace_s = PREEMPT_GRACE_S if self.ports.stop.is_set() else CANCEL_GRACE_S
        if self.ordered is not None and now_s - self.ordered_s > grace_s:
            self.child.kill()

    def _limit(self) -> None:
        if self.timed_out is not None or self.stand == "suspended":
            return
        now_s = self.ports.clock.monotonic_s()
        limit_s = float(self.claim.spec.get("time_limit_s") or TIME_LIMIT_DEFAULT_S)
        if now_s - self.begun_s > limit_s:
            self.timed_out = TimedOut("total", limit_s)
        elif now_s - self.heard_s > NO_PROGRESS_S:
            self.timed_out = TimedOut("no progress", NO_PROGRESS_S)
        if self.timed_out is not None:
            self.child.kill()

    def _finish(self, ended: Exit) -> None:
        fact = final_fact(
            Evidence(
                end=ended.end,
                said=self.said,
                ordered=self.ordered,
                timed_out=self.timed_out,
                oom_evidence=ended.oom_evidence,
                stage=self.stage,
                last_words=ended.last_words,
            )
        )
        missing = self._drain_uploads(fact)
        self.ports.uploads.forget(self.claim)
        if missing is not None and isinstance(fact, RunCompleted):
            fact = RunFailed(code="ARTIFACT_UPLOAD_FAILED", message=missing, stage=self.stage, retryable=True)
        how = end_of(fact)
        intention = self.ports.outbox.append_end(self.claim.run_id, self.claim.attempt, fact, how)
        self._settle(how, intention.attempt.last)

    def _drain_uploads(self, fact: Fact) -> str | None:
        """Wait for the uploads as long as the end deserves; the lease is watched meanwhile."""
        begun_s = self.ports.clock.monotonic_s()
        patience_s = float("inf") if isinstance(fact, RunCompleted) else UPLOADS_AFTER_FAILURE_S
        while True:
            self._stand()
            now_s = self.ports.clock.monotonic_s()
            if self.ports.stop.is_set():
                patience_s = min(patience_s, now_s - begun_s + UPLOADS_AFTER_PREEMPTION_S)
            problem = self.ports.uploads.drain(self.claim, deadline_s=now_s + TICK_S)
            if not self.ports.uploads.has_waiting(self.claim) or now_s - begun_s > patience_s:
                return problem

    def _settle(self, how: End, last: int) -> None:
        """Settle until the store has it; the intention is on disk, so a stop only puts it off."""
        claim = self.claim
        while True:
            try:
                self.ports.queue.settle(claim, how, last, jitter=self.ports.ids.fraction())
            except Transient as error:
                log.warning("settle.retried", extra={"run": claim.run_id, "why": error.message})
                if self.ports.clock.wait(self.ports.stop, SETTLE_BACK_OFF_S):
                    return
                continue
            except LeaseLost:
                log.warning("settle.over", extra={"run": claim.run_id, "attempt": claim.attempt})
            self.ports.outbox.mark_settled(claim.run_id, claim.attempt)
            return
