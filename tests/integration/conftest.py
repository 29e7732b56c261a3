"""A whole fleet (`fleet`), and attempts that a test drives itself (`by_hand`)."""

from __future__ import annotations

import functools
import os
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.database import Database

from control_plane.server.deps import Deps
from events.delivery.control_plane_client import bearer
from events.envelope import Head, wire
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.queue.matching import WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from podfleet.embedded.mongod import Mongod
from podfleet.embedded.ports import choose, kept
from tests.fork_server import Program, execute_program, start_program
from tests.integration.in_process import application, control_plane
from tests.integration.research import IDEA, SPEC, WHOLE_S, Experiment
from tests.integration.seeding import seed
from tests.servers import S3Server, empty, own_database

PORTS_TRIED = 3
LOG = "control-plane.log"
SECRETS_KEY = b64encode(b"the key for secrets of the tests").decode()
START_S = 300.0
QUICK_WORKER = str(Path(__file__).parent / "programs" / "quick_worker.py")
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Find connections that a module's tests leave: what collects them fails another test by chance."""
    yield
    known = AsyncMongoClient._clients.values()  # nothing public tells which there are
    assert not [each for each in known if each._topology._opened and not each._closed]


@pytest.fixture(scope="session")
def filled(mongod: Mongod) -> Iterator[tuple[str, Database[dict[str, object]]]]:
    """A store that `testing.seed` has filled: its address, and its database, for tests that only read."""
    with own_database(mongod) as url:
        done = seed(url)
        assert done.returncode == 0, done.stderr
        with MongoClient[dict[str, object]](url) as client:
            yield url, client.get_default_database()


@dataclass
class Fleet:
    """A control plane in a process of its own, and workers on demand."""

    url: str
    database_url: str
    home: Path
    log: Path
    client: httpx.Client
    workers: list[Program] = field(default_factory=list)

    @property
    def data_sets(self) -> Path:
        """The folder whose files runs may name as their data sets."""
        return self.home / "data sets"

    def start_worker(
        self,
        *options: str,
        mode: str = "hybrid",
        name: str = "w1",
        is_forked: bool = True,
        **environment: str,
    ) -> Program:
        """Start a worker; the same name is the same pod with the same disk."""
        program = ("-m", "pod_worker", "--mode", mode, *options)
        return self.start(*program, name=name, is_forked=is_forked, **environment)

    def start_quick_worker(
        self, *options: str, name: str = "w1", is_forked: bool = True, **environment: str
    ) -> Program:
        """Start a hybrid worker that renews its lease and reports each second."""
        program = (QUICK_WORKER, *options)
        return self.start(*program, name=name, is_forked=is_forked, WORKER_MODE="hybrid", **environment)

    def start(self, *program: str, name: str, is_forked: bool = True, **environment: str) -> Program:
        """Start a Python program as the pod `name`, with the pod's own disk for `--data`.

        One that is not forked is started by `exec`: others can read its environment in /proc.
        """
        values = {
            **os.environ,
            "MONGODB_URL": self.database_url,
            "CONTROL_PLANE_URL": self.url,
            "PODFLEET_POD_ID": name,
            "PODFLEET_PRIVATE_HOSTS": "127.0.0.1",  # servers of models stand here
            "PODFLEET_JUDGE_SECRET": "of tests",  # equal seeds measure the same
            **environment,
        }
        values.pop("RUNPOD_POD_ID", None)
        command = [*program, "--data", str(self.home / name)]
        with (self.home / f"{name}.log").open("ab") as log:
            start = start_program if is_forked else execute_program
            worker = start(command, env=values, stderr=log, cwd=self.home)
        self.workers.append(worker)
        return worker

    def submit(self, kind: str = "probe", **body: object) -> str:
        """Queue a run; return its id."""
        answer = self.client.post("/api/runs", json={"kind": kind, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run as the API shows it."""
        answer = self.client.get(f"/api/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait_for(self, run_id: str, *statuses: str, limit_s: float = 60.0) -> dict[str, Any]:
        """Wait until the run has one of these statuses and, where it ended, all that is told beside it."""
        clock = SystemClock()
        begun_s = clock.monotonic_s()
        while clock.monotonic_s() < begun_s + limit_s:
            found = self.run(run_id)
            is_over = found["finishedAt"] or found["status"] == "AWAITING_HUMAN"
            is_told = not found["logOpen"] and not found["journal"]
            if found["status"] in statuses and (is_told or not is_over):
                return found
            waited_s = clock.monotonic_s() - begun_s
            clock.wait(threading.Event(), min(max(waited_s / 50, 0.1), 0.5))  # looking takes its time too
        raise AssertionError(f"the run stays {self.run(run_id)}")


def start_control_plane(
    home: Path,
    database_url: str,
    s3: S3Server,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    keyless: bool = True,
    is_forked: bool = True,
    program: Sequence[str] = ("-m", "control_plane"),
    **environment: str,
) -> tuple[Program, str]:
    """Start a control plane, at a free port or at `port`; return its process and its address, when ready."""
    start = start_program if is_forked else execute_program
    values = {**os.environ, **s3.environment, "MONGODB_URL": database_url}
    # listings of models stand here, too
    values |= {"PODFLEET_SECRETS_KEY": SECRETS_KEY, "PODFLEET_PRIVATE_HOSTS": "127.0.0.1", **environment}
    for _ in range(PORTS_TRIED):
        chosen = port or choose(SystemIds())
        command = [*program, "serve", "--migrate"]
        command += ["--host", host, "--port", str(chosen)]
        command += ["--keyless"] if keyless and "PODFLEET_API_KEY" not in environment else []
        with (
            kept(chosen),
            (home / LOG).open("ab") as log,
        ):  # else another test may choose it until it is served
            process = start(command, env=values, stderr=log, cwd=home)
            if is_ready(process, f"http://127.0.0.1:{chosen}"):
                return process, f"http://127.0.0.1:{chosen}"
    raise AssertionError((home / LOG).read_text())


def local_client(url: str, **options: Any) -> httpx.Client:
    """Return a client of a server on this machine: plain HTTP, for which no certificates are read (25 ms)."""
    return httpx.Client(base_url=url, trust_env=False, verify=False, **options)  # noqa: S501


def is_ready(process: Program, url: str) -> bool:
    """Wait until a control plane can serve; False when it ended, as where another test took its port."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + START_S
    with local_client(url, timeout=5.0) as client:
        while process.poll() is None and clock.monotonic_s() < deadline_s:
            try:
                if client.get("/readyz").status_code == httpx.codes.OK:
                    return True
            except httpx.TransportError:
                pass
            clock.wait(threading.Event(), 0.03)
    process.kill()
    process.wait()
    return False


Common = Callable[[str | None], "Fleet"]


@pytest.fixture(scope="module")
def common_fleets(mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Common]:
    """The fleets that the tests of a module share which have the mark `common_fleet`, by their keys."""
    with ExitStack() as stack:

        @functools.cache
        def start(api_key: str | None) -> Fleet:
            url = stack.enter_context(own_database(mongod))
            return stack.enter_context(fleet_on(url, s3, tmp_path_factory.mktemp("common"), api_key))

        yield start


@pytest.fixture
def common_fleet(request: pytest.FixtureRequest) -> Fleet | None:
    """The fleet that this test shares with others, where it has the mark `common_fleet(key=None)`."""
    mark = request.node.get_closest_marker("common_fleet")
    start: Common | None = mark and request.getfixturevalue("common_fleets")
    return start(mark.kwargs.get("key")) if mark and start else None


@pytest.fixture
def database_url(common_fleet: Fleet | None, mongod: Mongod) -> Iterator[str]:
    """A connection string with a database of this test alone; that of a common fleet is emptied then."""
    if common_fleet is None:
        with own_database(mongod) as url:
            yield url
    else:
        yield common_fleet.database_url
        empty(common_fleet.database_url)


@contextmanager
def fleet_on(database_url: str, s3: S3Server, home: Path, api_key: str | None = None) -> Iterator[Fleet]:
    """Start a fleet, keyless on loopback or with a key, and end it with all of its workers."""
    settings, headers = ({"PODFLEET_API_KEY": api_key}, bearer(api_key)) if api_key else ({}, {})
    process, url = start_control_plane(home, database_url, s3, **settings)
    with local_client(url, timeout=30.0, headers=headers) as client:
        started = Fleet(url, database_url, home, home / LOG, client)
        try:
            yield started
        finally:
            end([*started.workers, process])


def end(programs: Sequence[Program]) -> None:
    """End programs at once: how they leave in order is tested where that is the point."""
    for each in programs:
        each.kill()
    for each in programs:
        each.wait()


@pytest.fixture
def fleet(common_fleet: Fleet | None, database_url: str, s3: S3Server, tmp_path: Path) -> Iterator[Fleet]:
    """A control plane over HTTP, keyless on loopback or with the key of the mark, and a store of its own."""
    if common_fleet is None:
        with fleet_on(database_url, s3, tmp_path) as started:
            yield started
    else:
        lent = replace(common_fleet, home=tmp_path, workers=[])
        try:
            yield lent
        finally:
            end(lent.workers)
            lent.client.cookies.clear()


@pytest.fixture(scope="session")
def shared_fleet(mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet with one worker, shared by the tests of whole experiments: one of those takes a minute."""
    home = tmp_path_factory.mktemp("shared")
    with own_database(mongod) as url, fleet_on(url, s3, home) as started:
        started.data_sets.mkdir()
        yield started


@pytest.fixture(scope="session")
def undisturbed(shared_fleet: Fleet) -> Experiment:
    """An experiment that began as a hypothesis, that nothing disturbed, and that waits for a person."""
    body = {
        "title": "Does dropout help?",
        "idea": IDEA,
        "enable_ideation": False,
        "spec": {**SPEC, "review": "human"},
    }
    answer = shared_fleet.client.post("/api/hypotheses", json=body)
    assert answer.status_code == httpx.codes.CREATED, answer.text
    experiment = Experiment(shared_fleet, answer.json()["run_id"])
    experiment.look()
    shared_fleet.start_worker(mode="experiment", PODFLEET_DATASETS=str(shared_fleet.data_sets))
    experiment.wait_for("AWAITING_HUMAN", limit_s=WHOLE_S)
    return experiment


@pytest.fixture
def keyed_url(common_fleet: Fleet | None, database_url: str, s3: S3Server, tmp_path: Path) -> Iterator[str]:
    """The address of a control plane that asks for the key `a-key-of-the-test`."""
    if common_fleet is not None and "authorization" in common_fleet.client.headers:
        yield common_fleet.url
        return
    home = tmp_path / "keyed"
    home.mkdir()
    process, url = start_control_plane(home, database_url, s3, PODFLEET_API_KEY="a-key-of-the-test")
    try:
        yield url
    finally:
        end([process])


@dataclass
class HandDriven:
    """An attempt that the test itself carries out: no worker, every event as it wants it."""

    client: httpx.Client
    queue: MongoQueue
    claim: Claim
    sequence: int = 0

    def say(self, *facts: Fact, time: str = "2026-11-21T10:00:00.000Z") -> None:
        """Send the next events of the attempt; all are taken."""
        lines = []
        for fact in facts:
            self.sequence += 1
            line = wire(
                fact,
                Head(
                    id=f"{self.claim.attempt}-{self.sequence}",
                    source="//by/hand",
                    attempt_id=self.claim.attempt_id,
                    sequence=self.sequence,
                    time=time,
                ),
            )
            lines.append(line)
        answer = self.client.post(
            "/api/ingest/events",
            content=b"\n".join(lines),
            headers={**NDJSON, **bearer(self.claim.run_token)},
        )
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text

    def settle(self, end: End, *, unsaid: int = 0, root: str | None = None) -> None:
        """End the attempt; `unsaid` events of it are still on their way."""
        self.queue.settle(self.claim, end, self.sequence + unsaid, jitter=0.0, root=root)


@pytest.fixture
def by_hand(fleet: Fleet) -> Iterator[Callable[[str, str], HandDriven]]:
    """Claim the head of a class: `by_hand("runs", "experiment/cpu/any")`."""
    queue = MongoQueue(connect(fleet.database_url))

    def claim(collection: str, class_key: str) -> HandDriven:
        wanted = WaitingClass(collection, class_key, 0)
        claimed = queue.take(wanted, token=letters(SystemIds().token()), pod="by/hand")
        assert claimed is not None
        return HandDriven(fleet.client, queue, claimed)

    yield claim
    queue.db.client.close()


@pytest.fixture
async def deps(emptied_url: str) -> AsyncIterator[Deps]:
    """A control plane in this process, on a store without documents."""
    async with control_plane(emptied_url) as found:
        yield found


@pytest.fixture
async def asking(deps: Deps) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that control plane's application."""
    async with application(deps) as client:
        yield client
