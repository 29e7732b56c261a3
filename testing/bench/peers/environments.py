"""What peers need: an environment of their packages, Redis, MLflow's server.

Peers are no dependencies: each is installed by pip, in the versions below, into an environment of its own in
the user's cache, once. What cannot be had here is `Absent`, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from podfleet.embedded.ports import LOOPBACK, answers, choose, kept
from podfleet.embedded.process import Command
from podfleet.embedded.service import Service
from podfleet.embedded.supervisor import Supervisor
from testing.bench.comparison import Absent, Setting
from testing.bench.load.senders import IDS
from testing.bench.machine import CLOCK, ROOT

PINS: Final[Mapping[str, tuple[str, ...]]] = {
    "boto3": ("boto3==1.44.5",),
    "celery": ("celery[redis,mongodb]==5.7.0",),
    "lm-eval": ("lm-eval[api]==0.4.13", "torch==2.13.0"),
    "mlflow": ("mlflow==3.17.2",),
    "taskiq": ("taskiq==0.13.0", "taskiq-redis==1.2.4"),
}
START_S: Final = 90.0
GRACE_S: Final = 2.0  # nobody wants what they still have
MLFLOW_PROCESSES: Final = 4
NOT_WANTED: Final = Absent("left out by --no-peers")
NO_REDIS: Final = Absent(
    "there is no redis-server on the PATH: install Debian's redis-server, or your system's"
)


def environment(peer: str, setting: Setting, pins: Mapping[str, tuple[str, ...]] = PINS) -> Path | Absent:
    """Return the Python that has a peer's packages; install them where that was not done before."""
    if not setting.peers:
        return NOT_WANTED
    key = hashlib.sha256(" ".join((sys.version, *pins[peer])).encode()).hexdigest()[:8]
    home = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "podfleet"
        / "peers"
        / f"{peer}-{key}"
    )
    python, complete = home / "bin" / "python", home / "complete"
    if complete.exists():
        return python
    setting.say(f"installing {' '.join(pins[peer])} into {home}")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", *pins[peer]],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            return Absent(f"{peer} cannot be installed: {last}")
    complete.touch()
    return python


@dataclass(slots=True)
class Program:
    """A program of a peer, which answers each order."""

    process: subprocess.Popen[bytes]

    def ask(self, order: Any) -> Any:
        """Give an order and wait for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the peer's program has ended"
        return json.loads(answer)


@contextmanager
def program(python: Path, module: str, environ: Mapping[str, str]) -> Iterator[Program]:
    """Run one of `programs`; it ends with its input."""
    with subprocess.Popen(
        [str(python), "-m", module],
        env=surroundings(python, environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield Program(process)


@contextmanager
def running_service(running: Service, home: Path) -> Iterator[int]:
    """Run one program of a peer until it is ready, and end it with all that it started; give its process."""
    with Supervisor([[running]], logs=home / "logs", clock=CLOCK, say=lambda _: None) as supervisor:
        yield supervisor.pids()[running.name]


@contextmanager
def redis(setting: Setting) -> Iterator[str | Absent]:
    """Run a Redis that writes its log to the disk once a second; give its address."""
    server = shutil.which("redis-server")
    if server is None or not setting.peers:
        yield NO_REDIS if setting.peers else NOT_WANTED
        return
    home, port = setting.scratch / "redis", choose(IDS)
    home.mkdir()
    command = Command(
        (
            *(server, "--port", str(port), "--bind", LOOPBACK, "--dir", str(home), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "everysec"),
        ),
        environment={},
    )
    running = Service(
        name="redis", command=command, is_ready=lambda: answers(port), start_s=START_S, grace_s=GRACE_S
    )
    with kept(port), running_service(running, home):
        yield f"redis://{LOOPBACK}:{port}/0"


@contextmanager
def mlflow(setting: Setting) -> Iterator[str | Absent]:
    """Run MLflow's tracking server on SQLite; give its address."""
    python = environment("mlflow", setting)
    if isinstance(python, Absent):
        yield python
        return
    home, port = setting.scratch / "mlflow", choose(IDS)
    home.mkdir()
    url = f"http://{LOOPBACK}:{port}"
    quietly = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = Command(
        (
            *(str(python), "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port)),
            *("--backend-store-uri", f"sqlite:///{home}/store.db", "--artifacts-destination", str(home)),
            *("--workers", str(MLFLOW_PROCESSES)),
        ),
        surroundings(python, quietly),
    )
    running = Service(
        name="mlflow", command=command, is_ready=lambda: _is_healthy(url), start_s=START_S, grace_s=GRACE_S
    )
    with kept(port), running_service(running, home):
        yield url


def surroundings(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a peer's process: it finds its packages, and `programs`."""
    path = os.pathsep.join((str(python.parent), os.environ.get("PATH", os.defpath)))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environ}


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).is_success
    except httpx.HTTPError:
        return False
