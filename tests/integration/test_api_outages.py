"""The control plane while MongoDB or the object storage is away: a named, retried state, and no 500."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.ports import choose, kept
from tests.fork_server import run_program, start_program
from tests.integration.conftest import local_client

NDJSON = {"content-type": "application/x-ndjson"}
LIMIT_S = 180.0  # a machine may have other work
IMPATIENT = str(Path(__file__).parent / "programs" / "impatient_control_plane.py")


def wait_until(holds: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait for a condition; fail when it does not come."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + limit_s
    while not holds():
        assert clock.monotonic_s() < deadline_s, "it never came"
        clock.wait(threading.Event(), 0.1)


@dataclass
class Cable:
    """A TCP connection to a server that can be pulled out and put back."""

    target: tuple[str, int]
    port: int = field(default_factory=lambda: choose(SystemIds()))
    listener: socket.socket | None = None
    ends: list[socket.socket] = field(default_factory=list)

    def plug(self) -> None:
        """Accept connections from now on."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def pull(self) -> None:
        """Break every connection and accept no more."""
        listener, self.listener = self.listener, None
        for each in ([listener] if listener else []) + self.ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.ends.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self.target)
                self.ends += [near, far]
                if self.listener is not listener:  # it was pulled meanwhile
                    near.close()
                    far.close()
                    return
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@dataclass
class Plane:
    """A control plane whose MongoDB and storage hang on cables."""

    client: httpx.Client
    log: Path
    mongodb: Cable
    storage: Cable

    def readiness(self) -> tuple[int, Any]:
        """Return what it says of itself; 0 where it says nothing."""
        try:
            answer = self.client.get("/readyz")
        except httpx.TransportError:
            return 0, None
        return answer.status_code, answer.json()

    def timed(self, path: str) -> tuple[httpx.Response, float]:
        """Return an answer, and the least of the seconds that three of it took."""
        answers = [self.client.get(path) for _ in range(3)]
        return answers[-1], min(each.elapsed.total_seconds() for each in answers)

    def is_ready(self) -> bool:
        return self.readiness()[0] == httpx.codes.OK


@pytest.fixture
def plane(database_url: str, s3: Any, tmp_path: Path) -> Iterator[Plane]:
    """A control plane that was started while nothing could be reached yet."""
    found = re.search(r"@127\.0\.0\.1:(\d+)", database_url)
    assert found is not None
    host, _, port = s3.endpoint.partition(":")
    mongodb, storage = Cable(("127.0.0.1", int(found[1]))), Cable((host, int(port)))
    # one direct connection, since the set would name the server behind the cable
    url = database_url.replace(found[0], f"@127.0.0.1:{mongodb.port}")
    url = re.sub(r"replicaSet=\w+", "directConnection=true&connectTimeoutMS=2000", url)
    ours = {"MONGODB_URL": url, "MINIO_ENDPOINT": f"127.0.0.1:{storage.port}"}
    address = choose(SystemIds())
    log = tmp_path / "log"
    command = [IMPATIENT, "serve", "--migrate", "--keyless", "--port", str(address)]
    with kept(mongodb.port), kept(storage.port), kept(address):
        with log.open("wb") as stderr:
            process = start_program(
                command, env={"PATH": os.defpath, **s3.environment, **ours}, stderr=stderr, cwd=tmp_path
            )
        try:
            with local_client(f"http://127.0.0.1:{address}", timeout=60.0) as client:
                yield Plane(client, log, mongodb, storage)
        finally:
            process.terminate()
            process.wait(LIMIT_S)
            mongodb.pull()
            storage.pull()


@pytest.mark.slow("every wait for a store that is away lasts its whole limit")
def test_an_outage_is_a_503_that_passes_and_leaves_nothing_half_done(plane: Plane, database: Any) -> None:
    wait_until(
        lambda: "start.waits" in plane.log.read_text() and "mongodb_unreachable" in plane.log.read_text()
    )
    plane.mongodb.plug()
    wait_until(lambda: re.search("storage.waits.*storage_unreachable", plane.log.read_text()) is not None)
    submitted = plane.client.post("/api/runs", json={"kind": "probe"})
    assert submitted.status_code == 201, f"runs need no storage: {submitted.text}"
    plane.storage.plug()
    wait_until(lambda: plane.readiness()[1]["storage"] == "ok")
    run_id = submitted.json()["id"]

    plane.storage.pull()
    works = ["api", "ingest", "claims"]
    alone = {"mongodb": "ok", "indexes": "ok", "storage": "unreachable", "works": works}
    wait_until(lambda: plane.readiness() == (200, alone))
    assert "podfleet_runs{" in plane.client.get("/metrics").text

    plane.mongodb.pull()
    ready, seconds = plane.timed("/readyz")
    assert (ready.status_code, ready.json()["mongodb"], ready.json()["works"]) == (503, "unreachable", [])
    assert seconds < 1.0
    numbers, seconds = plane.timed("/metrics")
    assert numbers.status_code == 200, "who was admitted a moment ago reads on"
    assert seconds < 1.2
    assert 'podfleet_dependency_up{dependency="mongodb"} 0.0' in numbers.text
    assert 'podfleet_http_answers_total{status="2xx"}' in numbers.text
    assert "podfleet_runs{" not in numbers.text, "no number that nobody knows now"
    for path in ("/", "/runs", f"/runs/{run_id}", f"/api/runs/{run_id}/explain", "/pods"):
        answer, seconds = plane.timed(path)
        assert (answer.status_code, seconds < 1.8) == (503, True), f"{path}: {answer.text}"
        assert int(answer.headers["retry-after"]) > 0
    event = {
        "specversion": "1.0", "id": "1", "source": "//test", "type": "ai.run.log", "subject": f"run/{run_id}",
        "data": {"message": "hello"},
    }  # fmt: skip
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/api/runs", {}),
        ("GET", f"/api/runs/{run_id}", {}),
        ("GET", "/api/queue", {}),
        ("GET", "/api/pods", {}),
        ("POST", "/api/runs", {"json": {"kind": "probe"}}),
        ("POST", "/api/hypotheses", {"json": {"title": "t", "idea": "Dropout helps"}}),
        ("POST", f"/api/runs/{run_id}/cancel", {}),
        ("POST", f"/api/runs/{run_id}/retry", {}),
        ("POST", "/api/ingest/events", {"content": json.dumps(event), "headers": NDJSON}),
    ]
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda each: plane.client.request(each[0], each[1], **each[2]), requests))
    for request, answer in zip(requests, answers, strict=True):
        assert answer.status_code == 503, (request, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["code"] == "mongodb_unreachable"
    assert plane.client.get("/healthz").status_code == 200
    assert "Traceback" not in plane.log.read_text()

    plane.mongodb.plug()
    plane.storage.plug()
    wait_until(plane.is_ready)
    assert plane.client.get(f"/api/runs/{run_id}").json()["status"] == "QUEUED"
    assert plane.client.post(f"/api/runs/{run_id}/cancel").json()["status"] == "CANCELED"
    for name, count in {"runs": 1, "run_specs": 1, "hypotheses": 0}.items():
        assert database[name].count_documents({}) == count, name
    assert database.events.count_documents({"type": "ai.run.log"}) == 0


def test_keys_that_the_storage_refuses_end_the_program(emptied_url: str, s3: Any, tmp_path: Path) -> None:
    values = {**s3.environment, "MINIO_SECRET_KEY": "wrong", "MONGODB_URL": emptied_url, "PATH": os.defpath}
    command = ["-m", "control_plane", "serve", "--migrate", "--keyless", "--port", str(choose(SystemIds()))]
    ended = run_program(command, env=values, cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "MINIO_SECRET_KEY" in ended.stderr.splitlines()[-1]
