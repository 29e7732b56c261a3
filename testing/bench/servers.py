"""What the benches run on: a MongoDB of their own, and whole fleets, on this machine and on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.credentials import credentials
from podfleet.embedded.mongod import Mongod, find_mongod, prepare_mongod
from podfleet.embedded.ports import LOOPBACK, choose, kept
from podfleet.embedded.stack import Options, Programs, Stack, World
from podfleet.embedded.supervisor import Supervisor
from testing.bench.machine import ROOT, pause

START_S: Final = 120.0
LOOK_S: Final = 0.05


@contextmanager
def mongod(home: Path) -> Iterator[Mongod]:
    """Run a MongoDB, a replica set of one, as `podfleet up` does."""
    ids = SystemIds()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = prepare_mongod(
        find_mongod(os.environ.get("PATH")), home / "mongo", credentials(home / "credentials.json", ids), ids
    )
    with (
        kept(server.port),
        Supervisor([[server.service()]], logs=home / "logs", clock=SystemClock(), say=lambda _: None),
    ):
        yield server


@contextmanager
def fleet(
    home: Path,
    *,
    workers: int = 0,
    environment: Mapping[str, str] | None = None,
    programs: Programs | None = None,
) -> Iterator[Stack]:
    """Run MongoDB, storage, a control plane and workers, as `podfleet up` does."""
    world = World(
        environment={**os.environ, **(environment or {})},
        clock=SystemClock(),
        ids=SystemIds(),
        say=lambda _: None,
    )
    options = Options(data=home, port=0, workers=workers, keyless=True, programs=programs or Programs())
    with Stack(options, world) as stack:
        yield stack


@contextmanager
def control_planes(url: str, count: int) -> Iterator[list[str]]:
    """Run so many control planes on a database, without storage; give their addresses."""
    environment = {
        **os.environ, "MONGODB_URL": url, "MINIO_ENDPOINT": f"{LOOPBACK}:1", "MINIO_ACCESS_KEY": "none",
        "MINIO_SECRET_KEY": "none-at-all",
    }  # fmt: skip
    processes: list[subprocess.Popen[bytes]] = []
    urls: list[str] = []
    try:
        for _ in range(count):
            port = choose(SystemIds())
            command = [
                sys.executable,
                "-m",
                "control_plane",
                "serve",
                "--migrate",
                "--keyless",
                "--port",
                str(port),
            ]
            processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            urls.append(f"http://{LOOPBACK}:{port}")
            await_healthy(urls[-1])
        yield urls
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


@contextmanager
def scripted_engine() -> Iterator[str]:
    """Run an engine that does what the names of models say; give its address."""
    command = [sys.executable, "-m", "testing.bench.programs.scripted_engine"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://{LOOPBACK}:{int(process.stdout.readline())}"
        process.stdin.close()


def await_healthy(url: str) -> None:
    """Wait until a control plane answers. Raises `TimeoutError`."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + START_S
    while clock.monotonic_s() < until_s:
        try:
            httpx.get(f"{url}/healthz", trust_env=False).raise_for_status()
            return
        except httpx.HTTPError:
            pause(LOOK_S)
    raise TimeoutError(f"{url} does not answer")
