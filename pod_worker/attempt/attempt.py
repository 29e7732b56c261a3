"""Runs one claimed attempt from start to settle: the parent's side of a pipeline.

Law: one thread records the child's facts, in order. It alone reads the clock for the limits and the lease,
so that suspending, stopping and ending happen in one place. After a pause it checks the lease first.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from events.catalog import (
    ENDS,
    TYPES,
    ArtifactDetected,
    ArtifactFailed,
    RunCompleted,
    RunFailed,
    RunLog,
    RunPreempted,
)
from events.delivery.event_encoder import end_of
from events.delivery.outbox import Outbox
from events.delivery.pipe import (
    Began,
    Checkpoint,
    ContainerStop,
    ContainerTold,
    ContainerWanted,
    Environment,
    EnvironmentMade,
    EnvironmentWanted,
    FactFrame,
    Go,
    Kept,
    Made,
    Renewed,
    Shown,
    Start,
    Waiting,
)
from events.files.checkpoints import MANIFEST
from events.files.tree_removal import remove_tree
from events.kinds import KINDS, stages_before, stages_of
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.queue.notes import Note
from events.queue.settlement import End
from events.runtime.clock import Clock, Ids, instant
from events.runtime.errors import LeaseLost, Rejected, Transient
from events.runtime.loops import Threads
from events.runtime.measured_clock import MeasuredClock
from events.text.attempt_id import AttemptId
from events.text.secret_names import USER_TOKEN, is_of_index
from pod_worker.attempt.barrier import Barrier
from pod_worker.attempt.budget import UNBOUNDED, Allowance, allowance, overspent
from pod_worker.attempt.environment_use import EnvironmentUse, PodEnvironments
from pod_worker.attempt.heartbeat import Heartbeat
from pod_worker.attempt.inbox import Inbox
from pod_worker.attempt.lease import judge
from pod_worker.attempt.limits import Bounds, Lived, bounds_of, exceeded
from pod_worker.attempt.live_stream import LivePort, LiveStream
from pod_worker.attempt.secret_values import Secrets, Values
from pod_worker.attempt.settlement import (
    Evidence,
    Order,
    final_fact,
    may_be_of_checkpoints,
    without_files,
)
from pod_worker.attempt.token_renewal import TokenRenewal
from pod_worker.attempt.tree_use import NoTrees, Paths, Trees
from pod_worker.attempt.usage import EVERY_S, Rate, usage_of
from pod_worker.child.exit_status import TimedOut
from pod_worker.child.process import Exit, Heard, Listener
from pod_worker.files.empty_checkpoints import emptied_checkpoints
from pod_worker.files.fetch_result import Fetched
from pod_worker.files.folder_cache import TOO_SMALL
from pod_worker.files.uploads import NotStored
from pod_worker.isolation.job_container import ContainerUse, PodContainers
from pod_worker.machine.cards import CardUse, CardWatch, StrayUse

log = logging.getLogger(__name__)

BATCH_MAX: Final = 500
TICK_S: Final = 0.1
FULL_PAUSE_S: Final = 1.0
DISK_PATIENCE_S: Final = 60.0  # somebody may make room; the control plane does, where it was away
NAME_MAX: Final = 200
RESTORED: Final = "restored"  # the folder in a workspace in which earlier attempts' checkpoints lie
RESTORE_WAIT_S: Final = 300.0
TOLD_WAIT_S: Final = 10.0  # for what an attempt can do without
RESTORE_BACK_OFF_S: Final = 2.0
SECRETS_WAIT_S: Final = 300.0
TREES_WAIT_S: Final = 600.0
CANCEL_GRACE_S: Final = 30.0
PREEMPT_GRACE_S: Final = 2.0  # one provider gives a pod five seconds in all
UPLOADS_AFTER_ORDER_S: Final = 0.5
UPLOADS_AFTER_FAILURE_S: Final = 60.0
SETTLE_BACK_OFF_S: Final = 2.0

# Why a child stands still: its lease is not trusted, there is no room for what it says, or a person asked.
Halt = Literal["lease", "disk", "pause"]


class Process(Protocol):
    """The port of a pipeline's process."""

    @property
    def work(self) -> Path | None:
        """The folder in which the run's folder has to be; None if any will do."""
        ...

    def start(self, order: Start, listener: Listener) -> None: ...

    def join(self, limit_s: float) -> Exit | None:
        """Return how it ended, once all of its output was read; None while it runs."""
        ...

    def answer(self, answer: Kept | Environment | ContainerTold) -> None: ...

    def tell(self, note: Note) -> None: ...

    def begin(self, go: Go) -> None: ...

    def renew(self, renewed: Renewed) -> None: ...

    def terminate(self) -> None: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


class Uploads(Protocol):
    """The port of uploads: takes the files that a pipeline made."""

    def add(self, claim: Claim, made: Made) -> None: ...

    def add_checkpoint(
        self, claim: Claim, checkpoint: Checkpoint, answer: Callable[[Kept], None]
    ) -> None: ...

    def drain(self, claim: Claim, *, deadline_s: float) -> NotStored | None:
        """Wait for the attempt's uploads; return the failure, None if all files were stored."""
        ...

    def has_waiting(self, claim: Claim) -> bool: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...

    def forget(self, claim: Claim) -> None: ...


class Checkpoints(Protocol):
    """The port of checkpoints: fetches those of earlier attempts and of the parent run."""

    def fetch(self, claim: Claim, folder: Path) -> Fetched:
        """Fill `folder`; return warnings and the pods of checkpoints. Raises `Transient`, `LeaseLost`."""
        ...


class _NotWantedError(Exception):
    """The attempt is to end."""


class Settling(Protocol):
    """The part of the queue that ends an attempt."""

    def settle(
        self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports that all attempts of a worker share; `pod` is the name of the pod.

    `stores` shows the store's moment, None where nobody measures it.
    """

    queue: Settling
    outbox: Outbox
    uploads: Uploads
    checkpoints: Checkpoints
    secrets: Secrets
    clock: Clock
    ids: Ids
    threads: Threads
    work: Path
    stop: threading.Event
    pod: str = ""
    rate: Rate = field(default_factory=Rate)
    stores: MeasuredClock | None = None
    live: LivePort | None = None
    trees: Trees = field(default_factory=NoTrees)
    environments: PodEnvironments | None = None
    containers: PodContainers | None = None
    address: Callable[[], str] = str  # where other pods reach this one, at a port that is free
    cards: CardWatch = field(default_factory=CardWatch)
    stray_use: StrayUse = "log"


@dataclass(slots=True)
class Attempt:
    """Runs one attempt."""

    ports: Ports
    claim: Claim
    child: Process
    heartbeat: Heartbeat
    show: Callable[[bool], None]  # learns whether the child stands still
    inbox: Inbox = field(init=False)
    barrier: Barrier = field(init=False)
    live: LiveStream = field(init=False)
    environment: EnvironmentUse = field(init=False)
    container: ContainerUse = field(init=False)
    bounds: Bounds = field(init=False)
    cards: CardUse = field(init=False)
    halts: set[Halt] = field(default_factory=set)
    ordered: Order | None = None
    timed_out: TimedOut | None = None
    obstacle: RunFailed | None = None
    reported: Fact | None = None
    gave_back: bool = False  # whether the pipeline itself left the run to another attempt
    how: End | None = None  # None until it ended, and where its lease was lost
    stage: str | None = None
    lived: Lived = field(default_factory=Lived)
    turned_s: float = 0.0
    ordered_s: float = 0.0
    metered_s: float = 0.0
    noted: int = 0
    full_since_s: float | None = None
    unsaved: list[FactFrame | Fact] = field(default_factory=list)
    went_on: bool = False  # whether it kept a checkpoint of its own
    fetched: Fetched = field(default_factory=Fetched)
    begun_s: float = 0.0
    allowed: Allowance = UNBOUNDED  # by the budget of the run
    is_overspent: bool = False  # it was told to end for that
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    trees: Paths = field(default_factory=dict)
    renewal: TokenRenewal | None = None  # of the token of the run's user, if it names that

    def __post_init__(self) -> None:
        clock = self.ports.clock
        self.inbox = Inbox(clock)
        stores = self.ports.stores or MeasuredClock(clock)
        self.barrier = Barrier(
            clock, stores, self.heartbeat, self.child.begin, self.claim.barrier, self.ports.address
        )
        self.live = LiveStream(self.ports.live, self.claim, clock, self.ports.threads)
        self.environment = EnvironmentUse(
            self.ports.environments,
            self.workspace,
            self.ports.threads,
            self.child.answer,
            is_alone=any(map(is_of_index, self.claim.secrets)),
        )
        self.container = ContainerUse(
            pod=self.ports.containers,
            spec=self.claim.spec,
            workspace=self.workspace,
            name=f"podfleet-{self.claim.run_id}-{self.claim.attempt}-{self.ports.ids.token()[:8]}",
            threads=self.ports.threads,
            clock=clock,
            answer=self.child.answer,
            trees=lambda: self.trees,
        )
        self.bounds = bounds_of(self.claim.spec)
        self.cards = CardUse(self.ports.cards, self.ports.stray_use)

    @property
    def workspace(self) -> Path:
        """The folder of this attempt."""
        return (self.child.work or self.ports.work) / f"{self.claim.run_id}-a{self.claim.attempt}"

    def run(self) -> None:
        """Run the child to its end and settle. After a lost lease nothing is written."""
        workspace = self.workspace
        self.begun_s = self.metered_s = self.ports.clock.monotonic_s()
        self.heartbeat.start(self.ports.threads)
        try:
            self._run(workspace)
        except LeaseLost:
            self.child.kill()
            self.ports.uploads.forget(self.claim)
            self._close(self.ports.outbox.abandon)
            log.warning("run.abandoned", extra={"run": self.claim.run_id, "attempt": self.claim.attempt})
        finally:
            self.inbox.close()
            self.live.stop()
            self.environment.close()
            self.container.close()
            self.heartbeat.stop()
            if self.renewal is not None:
                self.renewal.stop()
            if "lease" in self.halts:
                # What stood still for a lease that was lost must not hold up the files of the next attempt.
                self.ports.uploads.resume()
            remove_tree(workspace)

    def _run(self, workspace: Path) -> None:
        remove_tree(workspace)
        try:
            workspace.mkdir(parents=True)
        except OSError as error:
            why = f"the folder of the attempt cannot be made: {error.strerror}"
            self._give_up(RunFailed(code="DISK_FULL", message=why, retryable=True))
        judged = allowance(self.claim.spec, self.ports.rate, 0.0)  # at most; what was spent is told below
        is_unfit = isinstance(judged, RunFailed)
        if isinstance(judged, Allowance):
            self.allowed = judged
        self._restore(workspace / RESTORED, is_asking=is_unfit)
        if self.claim.attempt > 1 or is_unfit:
            self._judge_budget(self.fetched.spent_usd)
        self._fetch_secrets()
        with ExitStack() as stack:
            self._fetch_trees(stack)
            self._pause()  # a run that waited for a pod while it was paused does not even begin
            self.child.start(self._order(workspace), self._hear)
            self.secrets = {}
            self.turned_s = self.ports.clock.monotonic_s()
            ended = self._supervise()
        self.live.stop()
        self._finish(ended)

    def _hear(self, frame: Heard) -> None:
        """Take the child's word, in its reader's thread: live text at once, the rest in turn."""
        if isinstance(frame, Shown):
            self.live.put(frame)
        else:
            self.inbox.put(frame)

    def _restore(self, folder: Path, *, is_asking: bool = False) -> None:
        """Fetch what the attempt is told, and the checkpoints of earlier ones.

        With `is_asking` it needs to know which pods there are.

        An outage is waited for within a limit, which is short where there are no earlier ones.
        """
        begun_s, has_past = self.ports.clock.monotonic_s(), self.claim.has_past
        patience_s = RESTORE_WAIT_S if has_past else TOLD_WAIT_S
        kind = KINDS.get(self.claim.kind)
        is_told = kind is not None and kind.tells
        while (has_past or is_told or is_asking) and self._wanted() is None and self.obstacle is None:
            self._stand()
            self._hold_to_budget()
            try:
                fetched = self.ports.checkpoints.fetch(self.claim, folder)
            except Transient as error:
                log.warning("checkpoints.retried", extra={"run": self.claim.run_id, "why": error.message})
                if self.ports.clock.monotonic_s() - begun_s < patience_s:
                    self.ports.clock.wait(self.ports.stop, RESTORE_BACK_OFF_S)
                    continue
                remove_tree(folder)  # half a set would be a riddle
                lacks = "begins at the start, without checkpoints" if has_past else "was told nothing"
                why = f"this attempt {lacks}: {error.message}"
                fetched = Fetched([why])
                is_away = True
            else:
                is_away = False
            self.fetched = fetched
            self.unsaved += [RunLog(message=each, level="warning") for each in fetched.warnings]
            self._save()
            self._require(folder, retryable=is_away)
            return

    def _require(self, folder: Path, *, retryable: bool) -> None:
        """End a retry from a stage if the checkpoints before it are missing: they are not made again."""
        stage = self.claim.from_stage
        if stage is None:
            return
        wanted = stages_before(self.claim.kind, stage)
        missing = [each for each in wanted if not (folder / each / MANIFEST).is_file()]
        if missing:
            message = f"the run begins at {stage}, and no checkpoint of {', '.join(missing)} can be had"
            self._give_up(RunFailed(code="CHECKPOINT_MISSING", message=message, retryable=retryable))

    def _fetch_secrets(self) -> None:
        """Fetch the values of the secrets that the run names; an outage is waited for within a limit."""
        begun_s = self.ports.clock.monotonic_s()
        while self.claim.secrets and self._wanted() is None and self.obstacle is None:
            self._stand()
            self._hold_to_budget()
            try:
                found = self.ports.secrets.fetch(self.claim)
            except Transient as error:
                log.warning("secrets.retried", extra={"run": self.claim.run_id, "why": error.message})
                if self.ports.clock.monotonic_s() - begun_s < SECRETS_WAIT_S:
                    self.ports.clock.wait(self.ports.stop, RESTORE_BACK_OFF_S)
                    continue
                message = f"the secrets of the run cannot be had: {error.message}"
                self._give_up(RunFailed(code="SECRETS_UNREACHABLE", message=message, retryable=True))
                return
            if USER_TOKEN in found.missing:
                message = "the user whose access the run names is signed out, or has no role any more"
                self._give_up(RunFailed(code="USER_SIGNED_OUT", message=message, retryable=True))
            elif found.missing:
                message = f"the run names secrets that it cannot have: {', '.join(found.missing)}"
                self._give_up(RunFailed(code="SECRET_MISSING", message=message, retryable=True))
            else:
                self.secrets = found.values
                self._expect_renewal(found)
            return

    def _fetch_trees(self, stack: ExitStack) -> None:
        """Fetch the file trees that the run names, which stay until its end; an outage is waited for."""
        begun_s = self.ports.clock.monotonic_s()
        while self._wanted() is None and self.obstacle is None:
            self._stand()
            self._hold_to_budget()
            try:
                self.trees = stack.enter_context(self.ports.trees.used(self.claim, self._check_wanted))
            except Transient as error:
                log.warning("trees.retried", extra={"run": self.claim.run_id, "why": error.message})
                if self.ports.clock.monotonic_s() - begun_s < TREES_WAIT_S:
                    self.ports.clock.wait(self.ports.stop, RESTORE_BACK_OFF_S)
                    continue
                message = f"the files of the run cannot be had: {error.message}"
                code = error.code if error.code == "DISK_FULL" else "FILES_UNREACHABLE"
                self._give_up(RunFailed(code=code, message=message, retryable=True))
            except Rejected as error:
                is_small = error.code == TOO_SMALL  # of this pod: another one may keep more
                code = TOO_SMALL if is_small else "FILES_MISSING"
                self._give_up(RunFailed(code=code, message=error.message, retryable=is_small))
            except _NotWantedError:
                continue
            return

    def _check_wanted(self) -> None:
        """Raise where the attempt is to end, or its lease was lost: nobody waits for files any more."""
        self._stand()
        self._hold_to_budget()
        if self._wanted() is not None or self.obstacle is not None:
            raise _NotWantedError

    def _expect_renewal(self, found: Values) -> None:
        if found.renew_in_s is not None:
            ports = self.ports
            due_s = ports.clock.monotonic_s() + found.renew_in_s
            self.renewal = TokenRenewal(ports.secrets, self.claim, ports.clock, due_s)
            self.renewal.start(ports.threads)

    def _renew(self) -> None:
        """Give the child the newest token of the run's user; what it has stays valid until its end."""
        if self.renewal is None:
            return
        if (token := self.renewal.take()) is not None:
            self.child.renew(Renewed({USER_TOKEN: token}))
        if self.renewal.is_over:
            self.renewal.stop()
            self.renewal = None
            message = "the user whose access the run names is signed out: it has their last token"
            self.unsaved.append(RunLog(message=message, level="warning"))

    def _judge_budget(self, spent_usd: float | None) -> None:
        """Bound the attempt by what is left of the run's budget, or end it before it begins."""
        judged = allowance(self.claim.spec, self.ports.rate, spent_usd, self.fetched.cheapest_usd)
        if isinstance(judged, Allowance):
            self.allowed = judged
        elif self.obstacle is None:
            self._give_up(judged)

    def _hold_to_budget(self) -> None:
        """Give up an attempt that spent its budget before its process began."""
        if self._spent_s() > self.allowed.warned_s and self.obstacle is None:
            self._give_up(overspent(self.allowed))

    def _spent_s(self) -> float:
        return self.ports.clock.monotonic_s() - self.begun_s

    def _give_up(self, obstacle: RunFailed) -> None:
        """End the child for a reason outside the pipeline."""
        self.obstacle = obstacle
        self.child.kill()

    def _order(self, workspace: Path) -> Start:
        claim, notes = self.claim, self.heartbeat.pulse.notes
        self.noted = max((note.number for note in notes), default=0)
        return Start(
            run_id=claim.run_id,
            attempt=claim.attempt,
            kind=claim.kind,
            spec=dict(claim.spec),
            workspace=str(workspace),
            restored=str(workspace / RESTORED),
            hypothesis_id=claim.hypothesis_id,
            notes=list(notes),
            pod=self.ports.pod,
            pods_before=self.fetched.pods,
            replication_asked=self.fetched.replication_asked,
            told=self.fetched.told,
            secrets=self.secrets,
            trees=dict(self.trees),
            barrier=claim.barrier,
        )

    def _supervise(self) -> Exit:
        while True:
            self._stand()
            self._pause()
            self._pass_on_notes()
            self._renew()
            self._meter()
            self.unsaved += self.barrier.turn()
            self._mind_cards()
            self._record()
            self._obey()
            self._limit()
            # After its last word there is nothing to do but to wait for the process.
            ended = self.child.join(0 if self.reported is None else TICK_S)
            if ended is not None:
                self.container.close()
                self._record_the_rest()
                return ended

    def _mind_cards(self) -> None:
        """Tell the log who is on the cards of whom; end a run that is on another's, where that is wished."""
        self.unsaved += self.cards.turn()
        if self.cards.offence is not None and self.obstacle is None:
            self._save()
            self._give_up(self.cards.offence)

    def _record_the_rest(self) -> None:
        while self.obstacle is None and (self.unsaved or not self.inbox.is_empty()):
            self._stand()
            self._record()
            if self.unsaved and self.ports.stop.is_set():
                # A log with a hole must not end as if it were whole: the rescue takes the run.
                raise LeaseLost(self.claim.attempt_id)

    def _record(self) -> None:
        """Write the child's facts since the last turn into the outbox, in one transaction.

        If the disk is full they stay in memory, reading stops, and the child is suspended: nothing is lost.
        """
        if not self.unsaved:
            for each in self.inbox.take(BATCH_MAX, wait_s=TICK_S if self.reported is None else 0):
                self._take(each)
        self._save()

    def _save(self) -> None:
        if not self.unsaved or self.obstacle is not None:
            return
        try:
            self.ports.outbox.append(self.claim.attempt_id, self.unsaved)
        except Transient as error:
            self._no_room(error)
            return
        self.unsaved = []
        self.full_since_s = None
        self._go_on("disk")

    def _no_room(self, error: Transient) -> None:
        """Suspend the child until the disk has space; a disk that stays full fails the attempt."""
        now_s = self.ports.clock.monotonic_s()
        if self.full_since_s is None:
            self.full_since_s = now_s
            log.error("outbox.refused", extra={"code": error.code, "why": error.message})
        self._halt("disk")
        if error.code != "OUTBOX_FULL" and now_s - self.full_since_s > DISK_PATIENCE_S:
            self._give_up(RunFailed(code=error.code, message=error.message, retryable=True))
            return
        self.ports.clock.wait(self.ports.stop, FULL_PAUSE_S)

    def _take(self, heard: Heard) -> None:
        self.lived = replace(self.lived, heard_s=self.lived.total_s)
        if isinstance(heard, Made):
            heard = self._resolved(heard)
        elif isinstance(heard, Checkpoint):
            heard = msgspec.structs.replace(heard, files=[self._resolved(each) for each in heard.files])
        match heard:
            case Made() if self._is_ours(heard):
                self.unsaved.append(ArtifactDetected(name=heard.name[:NAME_MAX], stage=heard.stage))
                self.ports.uploads.add(self.claim, heard)
            case Checkpoint() if all(self._is_ours(each) for each in heard.files):
                self.went_on = self.went_on or heard.name in stages_of(self.claim.kind)
                self.ports.uploads.add_checkpoint(self.claim, heard, self.child.answer)
            case Checkpoint():
                self.child.answer(Kept(heard.number, "a file lies outside the attempt's folder"))
            case Made():
                message = "the file lies outside the attempt's folder"
                refused = ArtifactFailed(name=heard.name[:NAME_MAX], code="FOREIGN_FILE", message=message)
                self.unsaved.append(refused)
            case EnvironmentWanted() | EnvironmentMade():
                self.environment.hear(heard)
            case ContainerWanted() | ContainerStop():
                self.container.hear(heard)
            case Waiting() | Began():
                self.unsaved += self.barrier.hear(heard)
            case FactFrame(type=name, data=data) if name in ENDS:
                self.reported = msgspec.convert(data, TYPES[name])
            case FactFrame(data=data):
                self.stage = str(data.get("stage") or self.stage or "")[:NAME_MAX] or None
                self.unsaved.append(heard)

    def _resolved(self, made: Made) -> Made:
        """Return the file with the real path of its folder, so that opening it follows no link."""
        path = Path(made.path)
        return msgspec.structs.replace(made, path=os.path.join(os.path.realpath(path.parent), path.name))

    def _is_ours(self, made: Made) -> bool:
        path = Path(made.path)
        return path.name not in ("", "..") and path.is_relative_to(self._real_workspace)

    @property
    def _real_workspace(self) -> Path:
        # Not what the folder resolves to: its process may put a link in its place.
        return self.workspace.parent.resolve() / self.workspace.name

    def _stand(self) -> None:
        match judge(self.heartbeat.pulse.lease, at=instant(self.ports.clock)):
            case "lost" | "given up":
                raise LeaseLost(self.claim.attempt_id)
            case "suspended":
                self._halt("lease")
            case "trusted":
                self._go_on("lease")

    def _halt(self, why: Halt) -> None:
        if why in self.halts:
            return
        log.warning("child.halted", extra={"run": self.claim.run_id, "why": why})
        if why == "lease":
            self.ports.uploads.suspend()
            self.heartbeat.hurry()  # time passed that nobody counted, or the machine's clock was set
        if not self.halts:
            self.child.suspend()
            self.container.pause(True)
        self.halts.add(why)
        self.show(True)

    def _go_on(self, why: Halt) -> None:
        if why not in self.halts:
            return
        log.warning("child.goes_on", extra={"run": self.claim.run_id, "why": why})
        self.halts.remove(why)
        if why == "lease":
            self.ports.uploads.resume()
        if not self.halts:
            self.child.resume()
            self.container.pause(False)
            self.show(False)

    def _pause(self) -> None:
        """Suspend the child while a person has paused the run; an order to stop resumes it."""
        if self.heartbeat.pulse.paused and self._wanted() is None:
            self._halt("pause")
        else:
            self._go_on("pause")

    def _pass_on_notes(self) -> None:
        for note in self.heartbeat.pulse.notes:
            if note.number > self.noted:
                self.child.tell(note)
                self.noted = note.number

    def _meter(self) -> None:
        """Report the pod's cost once a minute; while the disk is full the interval grows."""
        seconds = self.ports.clock.monotonic_s() - self.metered_s
        if self.ports.rate.is_told and seconds >= EVERY_S and not self.unsaved:
            self._charge(seconds)

    def _charge(self, seconds: float) -> None:
        self.unsaved.append(usage_of(self.ports.rate, seconds))
        self.metered_s += seconds

    def _wanted(self) -> Order | None:
        if self.heartbeat.pulse.cancel:
            return "cancel"
        return "preempt" if self.ports.stop.is_set() or self.heartbeat.pulse.preempt else None

    def _obey(self) -> None:
        """Pass on a cancel or the pod's stop; a child that does not end in time is killed."""
        now_s = self.ports.clock.monotonic_s()
        if self.ordered is None and (wanted := self._wanted()) is not None:
            self.ordered, self.ordered_s = wanted, now_s
            self.child.terminate()
        grace_s = PREEMPT_GRACE_S if self.ports.stop.is_set() else CANCEL_GRACE_S
        if self.ordered is not None and now_s - self.ordered_s > grace_s:
            self.child.kill()

    def _limit(self) -> None:
        now_s = self.ports.clock.monotonic_s()
        if not self.halts and not self.barrier.is_waiting():
            self.lived = replace(self.lived, total_s=self.lived.total_s + now_s - self.turned_s)
        self.turned_s = now_s
        spent_s = now_s - self.begun_s  # whatever stands still, the pod costs
        if spent_s > self.allowed.warned_s and not self.is_overspent:
            self.is_overspent = True
            self._go_on("pause")
            self.child.terminate()
        if spent_s > self.allowed.total_s:
            self.child.kill()
        if self.timed_out is None and (over := exceeded(self.bounds, self.lived)) is not None:
            self.timed_out = over
            self.child.kill()

    def _finish(self, ended: Exit) -> None:
        fact = final_fact(
            Evidence(
                end=ended.end,
                reported=self.reported,
                ordered=self.ordered,
                timed_out=self.timed_out,
                obstacle=self.obstacle,
                oom_evidence=ended.oom_evidence,
                stage=self.stage,
                last_words=ended.last_words,
                runs_programs=self.claim.kind in KINDS and KINDS[self.claim.kind].runs_programs,
            )
        )
        fact = self.cards.judged(fact)
        if self.is_overspent and self.ordered is None and not isinstance(fact, RunCompleted):
            fact = overspent(self.allowed, self.stage)
        elif isinstance(fact, RunFailed) and may_be_of_checkpoints(fact, self.reported, went_on=self.went_on):
            fact = self._begin_anew(fact)
        missing = self._drain_uploads(fact)
        self.ports.uploads.forget(self.claim)
        if missing is not None and isinstance(fact, RunCompleted):
            fact = without_files(missing.message, self._wanted(), self.stage, is_own=missing.is_own)
            if self._spent_s() > self.allowed.files_s and isinstance(fact, RunFailed):
                fact = overspent(self.allowed, self.stage)
        self.gave_back = fact is self.reported and isinstance(fact, RunPreempted)
        self.how = how = end_of(fact)
        self._charge_the_rest()
        try:
            kept = self.ports.outbox.append_end(self.claim.attempt_id, fact, how).attempt
        except Transient as error:
            # Not even the reserve is left: the store at least learns how it ended.
            log.error("outbox.refused", extra={"code": error.code, "why": error.message})
            kept = self.ports.outbox.find(self.claim.attempt_id)
        self._settle(how, kept.last, kept.root)

    def _begin_anew(self, failure: RunFailed) -> Fact:
        """Set aside what the process found, and give the run back; the failure where that cannot be done."""
        found = [name for name in stages_of(self.claim.kind) if name in self.fetched.pods]
        kept: list[Kept] = []
        try:
            for each in emptied_checkpoints(self.claim.attempt_id, found, self._real_workspace):
                self.ports.uploads.add_checkpoint(self.claim, each, kept.append)
        except OSError as error:
            log.error("checkpoints.not_emptied", extra={"run": self.claim.run_id, "why": str(error)})
        self._drain_uploads(failure)
        if not found or sum(each.problem is None for each in kept) < len(found):
            return failure
        why = f"this attempt went on from earlier ones and ended by {failure.code}"
        message = f"{why}, so the next one begins anew: {failure.message}"
        self.unsaved.append(RunLog(message=message, level="error"))
        return RunPreempted(reason=why)

    def _charge_the_rest(self) -> None:
        """Report the pod's cost since the last report; on a full disk only the end is written."""
        if not self.ports.rate.is_told:
            return
        if self.obstacle is not None:
            self.unsaved.clear()  # the log has a hole by now: nothing fills it, and a cost needs no order
        self._charge(self.ports.clock.monotonic_s() - self.metered_s)
        try:
            self.ports.outbox.append(self.claim.attempt_id, self.unsaved)
        except Transient as error:
            log.error("outbox.refused", extra={"code": error.code, "why": error.message})

    def _drain_uploads(self, fact: Fact) -> NotStored | None:
        """Wait for the uploads, as long as the kind of end allows; lease and orders are watched meanwhile."""
        begun_s = self.ports.clock.monotonic_s()
        patience_s = float("inf") if isinstance(fact, RunCompleted) else UPLOADS_AFTER_FAILURE_S
        while True:
            self._stand()
            self._meter()
            self._save()
            now_s = self.ports.clock.monotonic_s()
            if self._wanted() is not None:
                patience_s = min(patience_s, now_s - begun_s + UPLOADS_AFTER_ORDER_S)
            patience_s = min(patience_s, max(0.0, self.allowed.files_s - (begun_s - self.begun_s)))
            problem = self.ports.uploads.drain(self.claim, deadline_s=now_s + TICK_S)
            if not self.ports.uploads.has_waiting(self.claim) or now_s - begun_s > patience_s:
                return problem

    def _settle(self, how: End, last: int, root: str | None) -> None:
        """Settle, and repeat until the store confirms; the intent is on disk, so a stop only delays it."""
        claim = self.claim
        while True:
            try:
                self.ports.queue.settle(claim, how, last, jitter=self.ports.ids.fraction(), root=root)
            except Transient as error:
                log.warning("settle.retried", extra={"run": claim.run_id, "why": error.message})
                if self.ports.clock.wait(self.ports.stop, SETTLE_BACK_OFF_S):
                    return
                continue
            except LeaseLost:
                log.warning("settle.over", extra={"run": claim.run_id, "attempt": claim.attempt})
            self._close(self.ports.outbox.mark_settled)
            return

    def _close(self, close: Callable[[AttemptId], None]) -> None:
        """Note in the outbox that the attempt is over; on a full disk this is done at the next start."""
        try:
            close(self.claim.attempt_id)
        except Transient as error:
            log.error("outbox.refused", extra={"code": error.code, "why": error.message})
