"""The main loop of a pod: claim, supervise, settle, repeat."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from events.delivery.pipe import Ready
from events.delivery.sender import Delivery
from events.kinds.declaring.queues import Mode, collections
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.lease_times import RENEW_EVERY_S
from events.queue.matching import Named, Seeker, WaitingClass, classes
from events.queue.pod_checks import GPU_LABELS
from events.queue.rules import pod_name
from events.queue.settlement import LEFT_TO_OTHERS_S, End, pod_lost
from events.runtime.clock import Instant, instant
from events.runtime.errors import Conflict, LeaseLost, Transient
from events.text.attempt_id import AttemptId
from events.text.key_text import letters
from pod_worker.attempt.attempt import Attempt, Ports, Process
from pod_worker.attempt.heartbeat import Heartbeat, Pulse
from pod_worker.attempt.lease import grant
from pod_worker.child.exit_status import NeverStarted, failure_for
from pod_worker.queue.claim_intent import Intent
from pod_worker.queue.port import Queue
from pod_worker.queue.roster import Roster, source_of

log = logging.getLogger(__name__)

POLL_S: Final = 1.5  # with the jitter at most two seconds
POLL_JITTER_S: Final = 0.5
VAIN_MAX: Final = 3  # so many wake-ups in vain, one after the other, are followed by a pause without any
TROUBLE_POLL_S: Final = 5.0
CUT_OFF: Final = "its worker ended without notice, and was started again"
READY_LIMIT_S: Final = 300.0
READY_TURN_S: Final = 0.5
CHECKED_WITHIN_S: Final = 0.3  # a check that takes longer holds up its own kinds alone
CHECKED_TURN_S: Final = 0.02


class WarmProcess(Process, Protocol):
    """A pipeline's process that waits for its one order; nothing of it is left after the context."""

    def wait_ready(self, limit_s: float) -> Ready | NeverStarted: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Fitness(Protocol):
    """What the pod may claim by its checks, and what its attempts tell of them."""

    def fit(self, kinds: Iterable[str]) -> frozenset[str]: ...

    def has_gpu(self) -> bool:
        """Say whether what needs a GPU may be claimed, if there is one."""
        ...

    def is_awaited(self, kinds: Collection[str]) -> bool:
        """Say whether one of these kinds waits for a check that is being made."""
        ...

    def hear_end(self, end: End, kind: str) -> None: ...

    def hear_failure(self, code: str, message: str) -> None: ...


class Untested:
    """A pod that tests nothing of itself."""

    def fit(self, kinds: Iterable[str]) -> frozenset[str]:
        return frozenset(kinds)

    def has_gpu(self) -> bool:
        return True

    def is_awaited(self, kinds: Collection[str]) -> bool:
        return False

    def hear_end(self, end: End, kind: str) -> None:
        """Leave it at that."""

    def hear_failure(self, code: str, message: str) -> None:
        """Leave it at that."""


class Pauses(Protocol):
    """How a worker waits while there is no run for it."""

    def pause(self, sought: Named, seconds: float, stop: threading.Event) -> Sequence[WaitingClass]:
        """Wait so long, less where a run of these classes may be waiting or the worker shall stop.

        Returns in which of them a run waits, as far as that was told.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pod:
    """The worker's identity, and when it stops by itself: after a number of runs, or a time without one."""

    id: str
    mode: Mode
    region: str | None
    gpu_gib: float
    labels: Mapping[str, str] = field(default_factory=dict)
    renew_every_s: float = RENEW_EVERY_S
    runs_max: int | None = None
    idle_exit_s: float | None = None


@dataclass(slots=True)
class WorkerState:
    """The state of a worker since its start."""

    runs: int = 0
    idle_since_s: float | None = None
    backs_off_until_s: float = 0.0
    is_in_doubt: bool = True  # whether a claim may have been made whose answer nobody saw
    must_load_first: bool = (
        False  # whether a pipeline broke its process while it was loaded: no claim before that
    )


@dataclass(frozen=True, slots=True)
class Worker:
    """One pod's main thread."""

    pod: Pod
    queue: Queue
    ports: Ports
    intent: Intent
    roster: Roster
    spawn: Callable[[], WarmProcess]
    pauses: Pauses
    fitness: Fitness = field(default_factory=Untested)
    heard_from: dict[AttemptId, Heartbeat] = field(default_factory=dict)
    state: WorkerState = field(default_factory=WorkerState)

    def run(self) -> bool:
        """Serve until told to stop, until the fleet sends the worker off, or until its limit is reached.

        Returns whether it left for good: it was drained, or had no run for its time.
        """
        self._close_what_a_crash_left()
        while not self._leaves():
            try:
                process = self.spawn()
            except Transient as error:
                self._wait_after_failure(error.message)
                continue
            with process as child:
                ready = self._wait_ready(child)
                claim = self._wait_claim(child, ready) if ready is not None else None
                if claim is not None:
                    self._serve(*claim, child)
                    self.roster.standing.has_claimed = False
                    self.state.must_load_first |= isinstance(child.wait_ready(0), NeverStarted)
        self.roster.standing.state = "stopped"
        return self.roster.drained or self._was_idle_too_long()

    def heed(self, delivery: Delivery) -> None:
        """Apply the hints of ingest about attempts: a lost one ends, an order is fetched at once."""
        for name in delivery.fenced:
            if heartbeat := self.heard_from.get(name):
                heartbeat.lose()
        for name in delivery.canceling | delivery.steered:
            if heartbeat := self.heard_from.get(name):
                heartbeat.hurry()

    def _leaves(self) -> bool:
        """Say whether the worker ends now; an order is asked for anew, since it may have been taken back."""
        if self.roster.is_sent_off and not self.ports.stop.is_set():
            try:
                self.roster.run_once()
            except Transient as error:
                log.warning("drain.unconfirmed", extra={"code": error.code, "why": error.message})
        return self._is_over()

    def _is_over(self) -> bool:
        return self.ports.stop.is_set() or self.roster.is_sent_off or self._has_reached_its_limit()

    def _has_reached_its_limit(self) -> bool:
        if self.pod.runs_max is not None and self.state.runs >= self.pod.runs_max:
            return True
        return self._was_idle_too_long()

    def _was_idle_too_long(self) -> bool:
        if self.pod.idle_exit_s is None or self.state.idle_since_s is None:
            return False
        return self.ports.clock.monotonic_s() - self.state.idle_since_s >= self.pod.idle_exit_s

    def _close_what_a_crash_left(self) -> None:
        """Settle what ended before a crash, and give back what the crash cut off; deliver their events."""
        for cut_off in self.ports.outbox.unended():
            log.warning("run.cut_off", extra={"run": cut_off.run_id, "attempt": cut_off.attempt})
            self.ports.outbox.lose(cut_off.attempt_id, pod_lost(CUT_OFF))
            self.intent.close()
        for left in self.ports.outbox.unsettled():
            attempt = left.attempt
            claim = Claim(attempt.collection, attempt.run_id, attempt.attempt, attempt.token, "", {}, None)
            try:
                self.queue.settle(
                    claim, left.how, attempt.last, jitter=self.ports.ids.fraction(), root=attempt.root
                )
            except LeaseLost:
                log.warning("settle.over", extra={"run": claim.run_id, "attempt": claim.attempt})
            except Transient as error:
                # The end event, which ingest applies, says the same; this worker may go on.
                log.warning("settle.later", extra={"run": claim.run_id, "why": error.message})
                continue
            self.ports.outbox.mark_settled(attempt.attempt_id)

    def _wait_ready(self, child: WarmProcess) -> Ready | None:
        self.roster.standing.state = "starting"
        waited_s = 0.0
        while not self._is_over():
            match child.wait_ready(READY_TURN_S):
                case Ready() as ready if not (ready.is_loading and self.state.must_load_first):
                    return ready
                case Ready() | NeverStarted(end=None) if waited_s < READY_LIMIT_S:
                    waited_s += READY_TURN_S
                case NeverStarted() as failure:
                    self._wait_after_failure(failure_for(failure, oom_evidence=False).message)
                    return None
        return None

    def _wait_after_failure(self, why: str) -> None:
        log.error("child.never_started", extra={"why": why})
        self.fitness.hear_failure("START_FAILED", why)
        self.ports.clock.wait(self.ports.stop, TROUBLE_POLL_S)

    def _wait_claim(self, child: WarmProcess, ready: Ready) -> tuple[Claim, Instant] | None:
        """Poll until a run is claimed; a wake-up only makes that faster."""
        self.roster.standing.state = "idle"
        self._back_off()
        self.state.idle_since_s = self.ports.clock.monotonic_s()
        known: Sequence[WaitingClass] = ()
        vain = 0  # a class may wait for long with runs that this pod leaves to others
        while not self._is_over():
            self._wait_for_checks(ready)
            requested_at, seeker = instant(self.ports.clock), self._seeker(ready)
            try:
                may_claim = self.roster.may_claim()
                claim = self._claim(seeker, known, may_claim=may_claim)
                if claim is not None:
                    return claim, requested_at
                vain = vain + 1 if known else 0
                # A queue may have waited for a run by itself, and then need not be left alone.
                took_s = instant(self.ports.clock).elapsed_s(requested_at)
                pause_s = max(0.0, POLL_S + POLL_JITTER_S * self.ports.ids.fraction() - took_s)
            except Transient as error:
                log.warning("claim.retried", extra={"code": error.code, "why": error.message})
                self.fitness.hear_failure(error.code, error.message)
                pause_s = TROUBLE_POLL_S * (0.5 + self.ports.ids.fraction())
                self.ports.clock.wait(self.ports.stop, pause_s)
                known = ()
                continue
            if not ready.is_loading:
                hears = may_claim and vain < VAIN_MAX
                known = self._pause(_sought(seeker.abilities) if hears else None, ready, pause_s)
                continue
            match child.wait_ready(min(pause_s, READY_TURN_S)):
                case Ready() as ready:
                    pass
                case NeverStarted() as failure:
                    self.state.must_load_first = True
                    self._wait_after_failure(failure_for(failure, oom_evidence=False).message)
                    return None
        return None

    def _pause(self, wanted: Named | None, ready: Ready, seconds: float) -> Sequence[WaitingClass]:
        if wanted is not None and wanted.classes:
            return self.pauses.pause(wanted, seconds, self.ports.stop)
        if not self.fitness.is_awaited(ready.kinds):  # else the wait for checks is pause enough
            self.ports.clock.wait(self.ports.stop, seconds)
        return ()

    def _wait_for_checks(self, ready: Ready) -> None:
        """Wait a little for the checks that are being made."""
        begun_s = self.ports.clock.monotonic_s()
        while self.fitness.is_awaited(ready.kinds) and not self.ports.stop.is_set():
            if self.ports.clock.monotonic_s() - begun_s > CHECKED_WITHIN_S:
                return
            self.ports.clock.wait(self.ports.stop, CHECKED_TURN_S)

    def _back_off(self) -> None:
        """Wait before the next claim, after a pipeline gave its run back for another pod."""
        while not (self.ports.stop.is_set() or self.roster.is_sent_off):
            left_s = self.state.backs_off_until_s - self.ports.clock.monotonic_s()
            if left_s <= 0:
                return
            self.ports.clock.wait(self.ports.stop, min(left_s, POLL_S))

    def _seeker(self, ready: Ready) -> Seeker:
        self.roster.standing.kinds = tuple(ready.kinds)
        self.roster.standing.device = ready.device
        gpu_gib, labels = self.pod.gpu_gib, self.pod.labels
        if not self.fitness.has_gpu():
            gpu_gib, labels = 0.0, {name: labels[name] for name in labels if name not in GPU_LABELS}
        kinds, name = self.fitness.fit(ready.kinds), pod_name(self.pod.id)
        able = Abilities(kinds, gpu_gib, self.pod.region, labels, name, self.ports.rate.gpus)
        return Seeker(self.pod.id, self.pod.mode, able)

    def _claim(self, seeker: Seeker, known: Sequence[WaitingClass], *, may_claim: bool) -> Claim | None:
        """Claim a run, unless a service of the pod is being reset; that begins when no run is claimed."""
        while not self.roster.claiming.acquire(timeout=POLL_S):
            if self._is_over():
                return None
        try:
            claim = self._resolve() or (self._try(seeker, known) if may_claim else None)
            self.roster.standing.has_claimed = claim is not None
            return claim
        finally:
            self.roster.claiming.release()

    def _resolve(self) -> Claim | None:
        """Find the claim whose answer was lost, before another one is made."""
        token = self.intent.token() if self.state.is_in_doubt else None
        if token is None:
            return None
        claim = self.queue.recover(collections(self.pod.mode), token)
        self.state.is_in_doubt = False
        return claim

    def _try(self, seeker: Seeker, known: Sequence[WaitingClass]) -> Claim | None:
        """Claim with the token on disk, which stays there until it has claimed a run."""
        if not seeker.abilities.kinds:
            return None
        self.ports.outbox.check_room()
        token = self.intent.token()
        if token is None:
            token = letters(self.ports.ids.token())
            self.intent.open(token)
        self.state.is_in_doubt = True
        claim = self.queue.claim(seeker, token=token, known=known)
        self.state.is_in_doubt = False
        return claim

    def _serve(self, claim: Claim, requested_at: Instant, child: Process) -> None:
        source = source_of(self.pod.id, claim)
        try:
            self.ports.outbox.open_attempt(
                claim.attempt_id,
                token=claim.token,
                source=source,
                collection=claim.collection,
                traceparent=claim.traceparent,
            )
        except (Transient, Conflict) as error:  # a conflict: an older store counts the attempts anew
            self._give_back(claim, error)
            self.fitness.hear_failure(error.code, error.message)
            return
        self.intent.close()
        self.state.runs += 1
        self.state.idle_since_s = None
        log.info("run.claimed", extra={"run": claim.run_id, "attempt": claim.attempt, "kind": claim.kind})
        self.roster.standing.claim = claim
        self.roster.standing.state = "busy"
        if claim.barrier:  # somebody looks at it, which the answer to a report tells
            self.roster.hurry.set()
        heartbeat = Heartbeat(
            claim=claim,
            renewals=self.queue,
            clock=self.ports.clock,
            pulse=Pulse(
                grant(requested_at=requested_at, ttl_s=claim.lease_s), paused=claim.paused, notes=claim.notes
            ),
            every_s=self.pod.renew_every_s,
            stores=self.ports.stores,
        )
        self.heard_from[claim.attempt_id] = heartbeat
        attempt = Attempt(self.ports, claim, child, heartbeat, self._show)
        try:
            attempt.run()
        finally:
            del self.heard_from[claim.attempt_id]
            self.roster.standing.claim = None
        if attempt.how is not None:
            self.fitness.hear_end(attempt.how, claim.kind)
        if attempt.gave_back:
            self.state.backs_off_until_s = self.ports.clock.monotonic_s() + LEFT_TO_OTHERS_S
        log.info("run.left", extra={"run": claim.run_id, "attempt": claim.attempt})

    def _give_back(self, claim: Claim, error: Transient | Conflict) -> None:
        """Release a run that the disk does not take; the token stays until that is confirmed."""
        log.error("run.given_back", extra={"run": claim.run_id, "code": error.code, "why": error.message})
        how = End("preempted", error.code, error.message)
        try:
            self.queue.settle(claim, how, 0, jitter=self.ports.ids.fraction())
        except LeaseLost:
            log.warning("settle.over", extra={"run": claim.run_id, "attempt": claim.attempt})
        except Transient as late:
            log.warning("settle.later", extra={"run": claim.run_id, "why": late.message})
            self.state.is_in_doubt = True
            return
        self.intent.close()

    def _show(self, stands_still: bool) -> None:
        self.roster.standing.state = "suspended" if stands_still else "busy"


def _sought(able: Abilities) -> Named:
    return Named(tuple(classes(able)), able.labels, able.pod)
