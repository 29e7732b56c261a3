"""Everything that runs in a campaign: the replica set, the object storage, control planes, pods."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Self

import httpx

from events.runtime.clock import Clock, Ids
from pod_worker.slots.division import Slot
from podfleet.embedded.mongod import find_mongod
from podfleet.embedded.ports import choose
from testing.chaos.proxies.balancer import Balancer
from testing.chaos.proxies.network import LOOPBACK, Network
from testing.chaos.system.cluster import Cluster, NotReady, prepare_cluster
from testing.chaos.system.disk import Disk
from testing.chaos.system.pod import NEVER
from testing.chaos.system.programs import Program, signal_all
from testing.chaos.system.skew import set_clock
from testing.chaos.system.storage import ObjectStorage, prepare_storage

READY_S: Final = 240.0  # nobody waits for it where all is well
READY_TURN_S: Final = 0.1
ASK_S: Final = 2.0
TTL_S: Final = 6.0
RENEW_S: Final = 1.0
LEAVE_S: Final = 15.0
PROC: Final = Path("/proc")
BOOT: Final = "b00t"  # of a pod with slots, which keep it over their deaths
PIPELINE: Final = b"podfleet-run\n"
RACKS: Final = 2  # by a label; each has pods of both queues
SMALL_DISK_BYTES: Final = 160 << 20  # with less than 64 MiB free a pod claims nothing
# A worker passes on what begins with PYTHON: by this its pipelines are known to be of this campaign.
MARK: Final = "PYTHON_PODFLEET_CAMPAIGN"
# What a process of ours may not take over from whoever runs the campaign.
NOT_PASSED: Final = ("PODFLEET_", "MINIO_", "MONGODB_", "CONTROL_PLANE_", "WORKER_", "RUNPOD_", "HTTP_PROXY")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a fleet is. `studios` of the pods serve experiments too, the others only probes.

    So many of the pods, one after the other, are the `slots` of one and have its name.
    """

    pods: int = 6
    studios: int = 2
    replicas: int = 2
    slots: int = 1

    @property
    def names(self) -> int:
        """How many names the pods have, from pod-0 on."""
        return -(-self.pods // self.slots)


@dataclass(slots=True)
class Pod:
    """One pod: its program, its disk, how its clock goes wrong, and at which step it shall die."""

    name: str
    home: Path
    argv: tuple[str, ...]
    program: Program
    disk: Disk
    lost: int = 0
    skew: tuple[float, float] = (0.0, 1.0)
    dies_at: str = NEVER

    @property
    def journal(self) -> Path:
        return self.home / "journal"

    @property
    def outbox(self) -> Path:
        return self.disk.folder / "outbox.db"

    @property
    def clock(self) -> Path:
        return self.home / "clock"

    def start(self) -> None:
        """Start the worker, with the clock and the fate that the pod has now."""
        offset_s, rate = self.skew
        wrong = ("--offset", str(offset_s), "--rate", str(rate), "--clock", str(self.clock))
        fate = (*wrong, "--dies-at", self.dies_at)
        self.program.argv = (*self.argv, *fate)
        self.program.start()

    def lose_disk(self) -> None:
        """Put an empty disk in the place of the worker's; the old one is kept for the checker alone."""
        self.lost += 1
        old = self.home / f"lost-{self.lost}"
        shutil.copytree(self.disk.folder, old, ignore=shutil.ignore_patterns("work", "ballast"))
        self.disk.empty()


@dataclass(slots=True)
class Fleet:
    """The running parts; as a context manager it is ready inside and gone, to the last process, after."""

    home: Path
    size: Size
    seed: int
    bug: str
    clock: Clock
    ids: Ids
    network: Network = field(default_factory=Network)
    replicas: list[Program] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    address: int = 0
    _held: ExitStack = field(default_factory=ExitStack)
    _cluster: Cluster | None = None
    _storage: ObjectStorage | None = None
    _balancer: Balancer | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "inside the context"
        return self._cluster

    @property
    def storage(self) -> ObjectStorage:
        assert self._storage is not None, "inside the context"
        return self._storage

    @property
    def balancer(self) -> Balancer:
        assert self._balancer is not None, "inside the context"
        return self._balancer

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def heal(self) -> None:
        """End every fault and bring everything back."""
        self.balancer.rate = 0.0
        self.cluster.heal()
        self.storage.start()
        for replica in self.replicas:
            set_clock(self.clock_of(replica), 0.0)
            replica.signal(signal.SIGCONT)
            replica.start()
        self._await_replicas()
        for pod in self.pods:
            pod.disk.free()
            signal_all(pod.program.children(), signal.SIGCONT)
            pod.program.signal(signal.SIGCONT)
            pod.skew, pod.dies_at = (0.0, 1.0), NEVER
            set_clock(pod.clock, 0.0)
            pod.start()

    def clock_of(self, replica: Program) -> Path:
        """Return the file by which the wall clock of a control plane is set."""
        return self.home / f"{replica.name}.clock"

    def dismiss_pods(self) -> list[str]:
        """Stop every worker in order; return the names of those that had to be killed."""
        for pod in self.pods:
            pod.program.signal(signal.SIGTERM)
        return [pod.name for pod in self.pods if pod.program.wait(LEAVE_S) is None]

    def left_behind(self) -> list[str]:
        """Return the pipelines that live, once no worker does: each should have died with its worker."""
        mark = f"{MARK}={self.home}".encode()
        return [
            f"pipeline {entry.name} outlived its worker"
            for entry in PROC.glob("[0-9]*")
            if content(entry / "comm") == PIPELINE and mark in content(entry / "environ").split(b"\0")
        ]

    def _start(self) -> None:
        self._held.enter_context(self.network)
        path = os.environ.get("PATH")
        self._cluster = prepare_cluster(find_mongod(path), self.home, self.network, self.clock, self.ids)
        self._held.callback(self._cluster.stop)
        self._cluster.start()
        self._storage = prepare_storage(self.home, path, self.clock, self.ids)
        self._held.callback(self._storage.program.reap)
        self._storage.start()
        self._start_replicas()
        self._start_pods()

    def _start_replicas(self) -> None:
        ports = [choose(self.ids) for _ in range(self.size.replicas)]
        self._balancer = Balancer(self.network, Random(f"{self.seed}/balancer"), ports)
        self.address = choose(self.ids)
        self._balancer.open(self.address)
        environment = {
            **self._environment(),
            **self.storage.server.environment(),
        }
        for number, port in enumerate(ports):
            argv = (
                sys.executable,
                "-m",
                "testing.chaos.system.replica",
                "--port",
                str(port),
                "--ttl",
                str(TTL_S),
            )
            name = f"replica-{number}"
            more = ("--clock", str(self.home / f"{name}.clock"), "--bug", self.bug)
            log = self.home / f"{name}.log"
            replica = Program(name, (*argv, *more), environment, log, self.clock)
            self._held.callback(replica.reap)
            self.replicas.append(replica)
            replica.start()
        self._await_replicas()

    def _start_pods(self) -> None:
        for number in range(self.size.pods):
            place, slot = divmod(number, self.size.slots)
            pod_name = f"pod-{place}"
            name = pod_name if self.size.slots == 1 else f"{pod_name}-{slot + 1}"
            home = self.home / name
            home.mkdir()
            # One small disk of its own for the first pod: only a disk with an end can be full.
            disk = Disk(home / "data", SMALL_DISK_BYTES if number == 0 else None)
            self._held.enter_context(disk)
            kinds = () if number >= self.size.pods - self.size.studios else ("probe",)
            argv = (
                *(sys.executable, "-m", "testing.chaos.system.pod", "--name", name),
                *("--data", str(disk.folder), "--journal", str(home / "journal"), "--kinds", *kinds),
                *("--ttl", str(TTL_S), "--renew", str(RENEW_S), "--bug", self.bug),
            )
            rack = number // 2 if self.size.slots == 1 else place
            labels = f"rack=r{rack % RACKS}"
            if self.size.slots > 1:
                argv += ("--slot", Slot(slot + 1, self.size.slots, BOOT, os.getpid()).argument)
            environment = {**self._environment(), "PODFLEET_POD_ID": pod_name, "PODFLEET_LABELS": labels}
            if claims_over_http(number):
                environment.pop("MONGODB_URL")
            program = Program(name, argv, environment, self.home / f"{name}.log", self.clock)
            self._held.callback(program.reap)
            pod = Pod(name, home, argv, program, disk)
            self.pods.append(pod)
            pod.start()

    def _environment(self) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED)}
        return {
            **passed,
            "MONGODB_URL": self.cluster.url(),
            "CONTROL_PLANE_URL": f"http://{LOOPBACK}:{self.address}",
            # Many interpreters share few cores here.
            "OMP_NUM_THREADS": "1",
            MARK: str(self.home),
        }

    def _await_replicas(self) -> None:
        deadline_s = self.clock.monotonic_s() + READY_S
        never = threading.Event()
        for replica, port in zip(self.replicas, self.balancer.replicas, strict=True):
            while not _serves(port):
                if self.clock.monotonic_s() > deadline_s:
                    raise NotReady(f"{replica.name} did not come up: {replica.last_words()}")
                replica.start()
                self.clock.wait(never, READY_TURN_S)


def claims_over_http(number: int) -> bool:
    """Say which pods know no database: every other one, so that both queues meet the same faults."""
    return number % 2 == 1


def content(file: Path) -> bytes:
    """Return what a file of a process holds, nothing once the process is gone."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _serves(port: int) -> bool:
    try:
        answer = httpx.get(f"http://{LOOPBACK}:{port}/readyz", timeout=ASK_S, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK
