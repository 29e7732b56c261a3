"""Three real mongods as one replica set, each known only by the address of its link."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from events.runtime.clock import Clock, Ids
from podfleet.embedded.ports import choose
from testing.chaos.proxies.links import Links
from testing.chaos.proxies.network import LOOPBACK, Network
from testing.chaos.system.programs import Program

REPLICA_SET: Final = "chaos"
MEMBERS: Final = 3
DATABASE: Final = "podfleet"
ELECTION_TIMEOUT_MS: Final = 2_000
HEARTBEAT_MS: Final = 500
START_S: Final = 60.0
ASK_MS: Final = 2_000
LOOK_S: Final = 0.1

Document = dict[str, Any]


class NotReady(Exception):
    """A part of the campaign did not come up in time."""


@dataclass(slots=True)
class Cluster:
    """The replica set. `ports` are the members' own, `addresses` those of their links."""

    clock: Clock
    links: Links
    ports: list[int]
    addresses: list[int]
    programs: list[Program] = field(default_factory=list)

    def url(self, database: str = DATABASE) -> str:
        """Return the connection string, with `database` in its path."""
        hosts = ",".join(f"{LOOPBACK}:{address}" for address in self.addresses)
        return f"mongodb://{hosts}/{database}?replicaSet={REPLICA_SET}"

    def start(self) -> None:
        """Start every member and return when the set has a primary."""
        for program in self.programs:
            program.start()
        self._until(lambda: all(self.hello(member) is not None for member in range(MEMBERS)), "mongod")
        self._initiate()
        self._until(lambda: self.primary() is not None, "a primary")

    def hello(self, member: int) -> Document | None:
        """Ask a member itself how it stands, past its link; None where it does not answer."""
        try:
            with self._client(member) as client:
                answer: Document = client.admin.command("hello")
                return answer
        except PyMongoError:
            return None  # dead, stopped, or still starting

    def primary(self) -> int | None:
        """Return the member that takes writes now."""
        for member in range(MEMBERS):
            if self.programs[member].is_stopped or self.programs[member].pid is None:
                continue
            answer = self.hello(member)
            if answer is not None and answer.get("isWritablePrimary"):
                return member
        return None

    def step_down(self, member: int, seconds: int) -> bool:
        """Ask a primary to step down for a while; False where it will not."""
        try:
            with self._client(member) as client:
                client.admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=1, force=True)
        except PyMongoError:
            return False
        return True

    def heal(self) -> None:
        """Bring every member back: links, processes, and a primary."""
        self.links.heal()
        for program in self.programs:
            program.signal(signal.SIGCONT)
            program.start()
        self._until(lambda: all(self._is_member(member) for member in range(MEMBERS)), "the whole set")
        self._until(lambda: self.primary() is not None, "a primary")

    def stop(self) -> None:
        """End every member at once: nobody needs the data any more."""
        for program in self.programs:
            program.reap()

    def _is_member(self, member: int) -> bool:
        answer = self.hello(member)
        return answer is not None and bool(answer.get("isWritablePrimary") or answer.get("secondary"))

    def _initiate(self) -> None:
        config: Document = {
            "_id": REPLICA_SET,
            "members": [
                {"_id": member, "host": f"{LOOPBACK}:{address}"}
                for member, address in enumerate(self.addresses)
            ],
            "settings": {
                "electionTimeoutMillis": ELECTION_TIMEOUT_MS,
                "heartbeatIntervalMillis": HEARTBEAT_MS,
            },
        }
        with self._client(0) as client, suppress(OperationFailure):  # a set that was kept is initiated
            client.admin.command("replSetInitiate", config)

    def _client(self, member: int) -> MongoClient[Document]:
        return MongoClient(
            LOOPBACK,
            self.ports[member],
            directConnection=True,
            serverSelectionTimeoutMS=ASK_MS,
            connectTimeoutMS=ASK_MS,
            socketTimeoutMS=2 * ASK_MS,
        )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = self.clock.monotonic_s() + START_S
        never = threading.Event()
        while not condition():
            if self.clock.monotonic_s() > deadline_s:
                raise NotReady(f"{what} did not come up within {START_S:.0f} s")
            self.clock.wait(never, LOOK_S)


def prepare_cluster(binary: Path, home: Path, network: Network, clock: Clock, ids: Ids) -> Cluster:
    """Make ready the folders, the links and the programs of a set below `home`."""
    ports, addresses = _distinct_ports(MEMBERS, ids), _distinct_ports(MEMBERS, ids)
    cluster = Cluster(clock, Links(network, lambda member: cluster.programs[member].pid), ports, addresses)
    for member, (port, address) in enumerate(zip(ports, addresses, strict=True)):
        data = home / f"mongod-{member}"
        data.mkdir(parents=True, exist_ok=True)
        cluster.programs.append(
            Program(f"mongod-{member}", _argv(binary, data, port), {}, home / f"mongod-{member}.log", clock)
        )
        cluster.links.open(member, address=address, target=port)
    return cluster


def _distinct_ports(count: int, ids: Ids) -> list[int]:
    """Return free ports; none of them listens yet, so that one may be chosen twice."""
    found: set[int] = set()
    while len(found) < count:
        found.add(choose(ids))
    return list(found)


def _argv(binary: Path, data: Path, port: int) -> tuple[str, ...]:
    return (
        str(binary),
        *("--dbpath", str(data), "--bind_ip", LOOPBACK, "--port", str(port), "--nounixsocket"),
        *("--replSet", REPLICA_SET, "--oplogSize", "256", "--wiredTigerCacheSizeGB", "0.25", "--quiet"),
        *("--networkMessageCompressors", "snappy"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
    )
