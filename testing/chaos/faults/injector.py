"""Does what the plan says: kills, stops, cuts and fills, and undoes it when its time is over.

Law: a fault counts when it struck somebody. One that finds no victim waits for the next turn, a
while, and is then dropped and not counted.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from testing.chaos.faults.plan import Fault
from testing.chaos.load import User
from testing.chaos.proxies.links import CUTS
from testing.chaos.records.journal import Journal
from testing.chaos.system.fleet import PIPELINE, PROC, Fleet, Pod, content
from testing.chaos.system.pod import NEVER
from testing.chaos.system.programs import Program, signal_all
from testing.chaos.system.skew import set_clock

SKEW_S: Final = 45.0  # with more a pod claims nothing
SET_S: Final = 3600.0
DRIFT: Final = 0.03
LEAVE_S: Final = 8.0  # what a preempted worker may take on a busy machine; it gives itself five seconds
REFUSED_TO_START: Final = "exited with status 2"
EXIT_S: Final = 5.0  # between a refusal and the end of the process that made it
KILLED: Final = "was killed by SIGKILL"
AT_STEP: Final = "worker killed at a chosen step"
# Lines of its journal after which a worker is killed: each lies between two things that belong together.
STEPS: Final = (
    "claim invoke", "claim ok", "renew ok", "child started note", "child ended note", "settle invoke",
    "settle ok",
)  # fmt: skip

Undo = Callable[[], None]


@dataclass(slots=True)
class Pending:
    """A fault that is not over."""

    until_s: float
    undo: Undo


@dataclass(slots=True)
class Injector:
    """Strikes, and keeps account of it. Everything happens in the thread that calls."""

    fleet: Fleet
    user: User
    journal: Journal
    struck: Counter[str] = field(default_factory=Counter)
    unplanned: list[str] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _refuses_until_s: float = 0.0

    def strike(self, fault: Fault) -> bool:
        """Inject `fault`; False where nobody is there whom it could strike now."""
        name = STRIKES[fault.kind](self, fault, Random(fault.draw))
        if name is None:
            return False
        if fault.kind == AT_STEP:
            return True  # counted when it comes to that
        self.struck[fault.kind] += 1
        self.journal.note("fault", kind=fault.kind, victim=name, seconds=round(fault.seconds, 3))
        return True

    def undo_due(self) -> None:
        """End the faults whose time is over."""
        now_s = self.journal.clock.monotonic_s()
        due = [each for each in self.pending if each.until_s <= now_s]
        self.pending = [each for each in self.pending if each.until_s > now_s]
        for each in due:
            each.undo()

    def undo_all(self) -> None:
        """End every fault now."""
        for each in self.pending:
            each.undo()
        self.pending = []

    def restart_the_fallen(self) -> None:
        """Start again what ended without a fault of ours, as a supervisor does, and note it."""
        for program in (*self.fleet.replicas, *self.fleet.cluster.programs, self.fleet.storage.program):
            self._restart(program, program.start)
        for pod in self.fleet.pods:
            if pod.dies_at != NEVER and pod.program.wait(0.0) == KILLED:
                continue  # as it had to: it is buried at the next turn
            # A worker that cannot open its outbox says so and refuses to start: that is its promise.
            refuses = self.journal.clock.monotonic_s() < self._refuses_until_s
            self._restart(pod.program, pod.start, excused=REFUSED_TO_START if refuses else None)

    def bury_the_doomed(self) -> None:
        """Start pods again that came to the step at which they had to die."""
        for pod in self.fleet.pods:
            if pod.dies_at != NEVER and pod.name not in self._busy and pod.program.wait(0.0) == KILLED:
                step, pod.dies_at = pod.dies_at, NEVER
                self.struck[AT_STEP] += 1
                self.struck["worker killed"] += 1
                self.journal.note("fault", kind=AT_STEP, victim=pod.name, step=step)
                pod.start()

    def _restart(self, program: Program, start: Undo, excused: str | None = None) -> None:
        if program.name in self._busy or program.pid is not None:
            return
        end = program.wait(0.0)
        if end != excused:
            self.unplanned.append(f"{program.name} {end}")
        self.journal.note("unplanned end", victim=program.name, end=end)
        start()

    def _later(self, name: str, seconds: float, undo: Undo) -> str:
        def finish() -> None:
            self._busy.discard(name)
            undo()

        self._busy.add(name)
        self.pending.append(Pending(self.journal.clock.monotonic_s() + seconds, finish))
        return name

    def _pod(self, chance: Random, wanted: Callable[[Pod], bool] = lambda _: True) -> Pod | None:
        free = [p for p in self.fleet.pods if p.name not in self._busy and p.program.pid and wanted(p)]
        return chance.choice(free) if free else None

    def _kill_worker(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance)
        if pod is None or not pod.program.kill():
            return None
        return self._later(pod.name, fault.seconds, pod.start)

    def _doom(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance, lambda pod: pod.dies_at == NEVER)
        if pod is None or not pod.program.kill():
            return None
        pod.dies_at = chance.choice(STEPS)
        self.struck["worker killed"] += 1
        self.journal.note("fault", kind="worker killed", victim=pod.name)
        return self._later(pod.name, fault.seconds, pod.start)

    def _lose_disk(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance)
        if pod is None or not pod.program.kill():
            return None
        pod.lose_disk()
        pod.dies_at = NEVER
        self.struck["worker killed"] += 1
        return self._later(pod.name, fault.seconds, pod.start)

    def _skew(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance)
        if pod is None or not pod.program.kill():
            return None
        pod.skew = (chance.uniform(-SKEW_S, SKEW_S), chance.uniform(1 - DRIFT, 1 + DRIFT))
        self.struck["worker killed"] += 1
        return self._later(pod.name, fault.seconds, pod.start)

    def _set_pod_clock(self, fault: Fault, chance: Random) -> str | None:
        """Set the clock of a machine whose worker runs, and back."""
        pod = self._pod(chance)
        if pod is None:
            return None
        set_clock(pod.clock, chance.uniform(-SET_S, SET_S))
        return self._later(pod.name, fault.seconds, lambda: set_clock(pod.clock, 0.0))

    def _set_replica_clock(self, fault: Fault, chance: Random) -> str | None:
        replica = chance.choice(self.fleet.replicas)
        if replica.name in self._busy or replica.pid is None:
            return None
        clock = self.fleet.clock_of(replica)
        set_clock(clock, chance.uniform(-SET_S, SET_S))
        return self._later(replica.name, fault.seconds, lambda: set_clock(clock, 0.0))

    def _freeze_pod(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance)
        if pod is None:
            return None
        # A paused machine stops everything; a stuck parent only itself.
        frozen = pod.program.children() if chance.random() < 0.5 else []
        pod.program.signal(signal.SIGSTOP)
        signal_all(frozen, signal.SIGSTOP)

        def thaw() -> None:
            signal_all(frozen, signal.SIGCONT)
            pod.program.signal(signal.SIGCONT)

        return self._later(pod.name, fault.seconds, thaw)

    def _preempt(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance)
        if pod is None or not pod.program.signal(signal.SIGTERM):
            return None

        def replace() -> None:
            if pod.program.kill():
                self.unplanned.append(f"{pod.name} had not left {LEAVE_S} s after SIGTERM")
                self.journal.note("late to leave", victim=pod.name)
            pod.start()

        return self._later(pod.name, LEAVE_S, replace)

    def _kill_child(self, _: Fault, chance: Random) -> str | None:
        pod = self._pod(chance, lambda pod: bool(_pipelines(pod)))
        if pod is None:
            return None
        signal_all(_pipelines(pod), signal.SIGKILL)
        return pod.name

    def _fill_disk(self, fault: Fault, chance: Random) -> str | None:
        pod = self._pod(chance, lambda pod: pod.disk.can_be_full)
        if pod is None:
            return None
        pod.disk.fill()
        # Others may strike the pod meanwhile: its disk is full all the same.
        until_s = self.journal.clock.monotonic_s() + fault.seconds
        self._refuses_until_s = until_s + EXIT_S
        self.pending.append(Pending(until_s, pod.disk.free))
        return pod.name

    def _kill_primary(self, fault: Fault, _: Random) -> str | None:
        member = self.fleet.cluster.primary()
        if member is None:
            return None
        program = self.fleet.cluster.programs[member]
        program.kill()
        return self._later(program.name, fault.seconds, program.start)

    def _freeze_primary(self, fault: Fault, _: Random) -> str | None:
        member = self.fleet.cluster.primary()
        if member is None:
            return None
        program = self.fleet.cluster.programs[member]
        program.signal(signal.SIGSTOP)
        return self._later(program.name, fault.seconds, lambda: _thaw(program))

    def _step_down(self, fault: Fault, _: Random) -> str | None:
        member = self.fleet.cluster.primary()
        if member is None or not self.fleet.cluster.step_down(member, max(1, round(fault.seconds))):
            return None
        return self.fleet.cluster.programs[member].name

    def _cut_primary(self, fault: Fault, chance: Random) -> str | None:
        return self._cut(self.fleet.cluster.primary(), fault, chance)

    def _cut_secondary(self, fault: Fault, chance: Random) -> str | None:
        cluster = self.fleet.cluster
        primary = cluster.primary()
        others = [member for member in range(len(cluster.programs)) if member != primary]
        return None if primary is None else self._cut(chance.choice(others), fault, chance)

    def _cut(self, member: int | None, fault: Fault, chance: Random) -> str | None:
        if member is None:
            return None
        links, how = self.fleet.cluster.links, chance.choice(CUTS)
        links.cut(member, how)
        until_s = self.journal.clock.monotonic_s() + fault.seconds
        self.pending.append(Pending(until_s, lambda: links.heal(member)))
        return f"mongod-{member} ({how})"

    def _replica(self, chance: Random) -> Program | None:
        free = [each for each in self.fleet.replicas if each.name not in self._busy and each.pid]
        return chance.choice(free) if free else None

    def _kill_replica(self, fault: Fault, chance: Random) -> str | None:
        replica = self._replica(chance)
        if replica is None or not replica.kill():
            return None
        return self._later(replica.name, fault.seconds, replica.start)

    def _terminate_replica(self, _: Fault, chance: Random) -> str | None:
        replica = self._replica(chance)
        if replica is None or not replica.signal(signal.SIGTERM):
            return None

        def replace() -> None:
            replica.kill()
            replica.start()

        return self._later(replica.name, LEAVE_S, replace)

    def _freeze_replica(self, fault: Fault, chance: Random) -> str | None:
        replica = self._replica(chance)
        if replica is None or not replica.signal(signal.SIGSTOP):
            return None
        return self._later(replica.name, fault.seconds, lambda: _thaw(replica))

    def _freeze_storage(self, fault: Fault, _: Random) -> str | None:
        program = self.fleet.storage.program
        if not program.signal(signal.SIGSTOP):
            return None
        return self._later(program.name, fault.seconds, lambda: _thaw(program))

    def _kill_storage(self, fault: Fault, _: Random) -> str | None:
        program = self.fleet.storage.program
        if not program.kill():
            return None
        return self._later(program.name, fault.seconds, program.start)

    def _storm(self, fault: Fault, _: Random) -> str | None:
        canceled = self.user.storm(fault.draw)
        return f"{canceled} runs" if canceled else None


STRIKES: Final[dict[str, Callable[[Injector, Fault, Random], str | None]]] = {
    "worker killed": Injector._kill_worker,
    AT_STEP: Injector._doom,
    "worker killed, disk lost": Injector._lose_disk,
    "worker frozen beyond its lease": Injector._freeze_pod,
    "worker preempted": Injector._preempt,
    "child killed": Injector._kill_child,
    "disk full": Injector._fill_disk,
    "pod clock skewed": Injector._skew,
    "pod clock set": Injector._set_pod_clock,
    "primary killed": Injector._kill_primary,
    "primary stepped down": Injector._step_down,
    "primary frozen": Injector._freeze_primary,
    "primary partitioned": Injector._cut_primary,
    "secondary partitioned": Injector._cut_secondary,
    "control plane killed": Injector._kill_replica,
    "control plane clock set": Injector._set_replica_clock,
    "control plane terminated": Injector._terminate_replica,
    "control plane frozen": Injector._freeze_replica,
    "object storage frozen": Injector._freeze_storage,
    "object storage killed": Injector._kill_storage,
    "cancel storm": Injector._storm,
}


def _thaw(program: Program) -> None:
    program.signal(signal.SIGCONT)


def _pipelines(pod: Pod) -> list[int]:
    """Return the processes of pipelines below a pod's worker."""
    return [pid for pid in pod.program.children() if content(PROC / str(pid) / "comm") == PIPELINE]
