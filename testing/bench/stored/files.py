"""A large file by the control plane's own address, up and down, beside the storage itself."""

from __future__ import annotations

import asyncio
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from control_plane.config import Storage, read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.signing import Content
from events.runtime.clock import SystemIds
from podfleet.embedded.credentials import credentials
from podfleet.embedded.mongod import find_mongod, prepare_mongod
from podfleet.embedded.ports import LOOPBACK, choose
from podfleet.embedded.private_file import private_directory
from podfleet.embedded.s3 import BUCKET, REGION, S3, find_s3, prepare_s3
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.machine import CLOCK
from testing.bench.servers import await_healthy, fleet

IDS: Final = SystemIds()
MIB: Final = 1 << 20
LIMIT_S: Final = 600.0
LOADS: Final[Mapping[str, tuple[int, int]]] = {  # MiB, and rounds at most
    "a file of 1 GiB": (1024, 9),
    "a file of 4 GB": (3815, 2),
}
SMALL: Final[Mapping[str, tuple[int, int]]] = {"a file of 32 MiB": (32, 1)}
STORAGE: Final = "storage"
HALF: Final = (Goal(0.5, STORAGE),)
METRICS: Final = (
    Metric("up", "MiB/s", goals=HALF),
    Metric("down", "MiB/s", goals=HALF),
    # of the control plane, at most, beyond what it had before: the same for any size
    Metric("memory", "MiB", more_is_better=False, goals=(Goal(64),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Send and fetch a file by both addresses."""
    home = setting.scratch / "fleet"
    private_directory(home)
    secrets = credentials(home / "credentials.json", IDS)  # the fleet finds these, and takes the same ports
    s3 = prepare_s3(find_s3(os.environ.get("PATH")), home / "s3", secrets, IDS)
    store = prepare_mongod(find_mongod(os.environ.get("PATH")), home / "mongo", secrets, IDS)
    with fleet(home), _control_plane(store.url(), s3) as (url, pid):
        for load, (size_mib, most) in (SMALL if setting.small else LOADS).items():
            path = _filled(setting.scratch / "file", size_mib)
            ways = {
                OURS: partial(_measured, path, open_blobs(_settings(s3), public_url=url), pid),
                STORAGE: partial(_measured, path, open_blobs(_settings(s3)), None),
            }
            yield from contest(load, METRICS, ways, replace(setting, rounds=min(setting.rounds, most)))


def _measured(path: Path, blobs: Blobs, pid: int | None) -> Figures:
    size, key = path.stat().st_size, f"runs/{IDS.ulid()}/a1/file"
    had_mib = 0.0 if pid is None else _most_mib(pid, from_now=True)
    signed = blobs.puts.sign(key, Content(size, None))
    begun_s = CLOCK.monotonic_s()
    _send(signed.url, signed.headers, path)
    sent_s = CLOCK.monotonic_s()
    url = asyncio.run(blobs.get_url(key, name=key))
    asked_s = CLOCK.monotonic_s()
    fetched = _fetch(url)
    ended_s = CLOCK.monotonic_s()
    assert fetched == size, f"{fetched} bytes came back of {size}"
    blobs.client.remove_object(BUCKET, key)  # the next one finds as much room
    memory = {} if pid is None else {"memory": _most_mib(pid, from_now=False) - had_mib}
    up, down = size / MIB / (sent_s - begun_s), size / MIB / (ended_s - asked_s)
    return {"up": up, "down": down, **memory}


def _send(url: str, headers: Mapping[str, str], path: Path) -> None:
    with _connected(url) as (connection, target), path.open("rb") as file:
        size = str(path.stat().st_size)
        connection.request("PUT", target, body=file, headers={**headers, "content-length": size})
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.read()


def _fetch(url: str) -> int:
    count, buffer = 0, bytearray(MIB)
    with _connected(url) as (connection, target):
        connection.request("GET", target)
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.read()
        while read := answer.readinto(buffer):
            count += read
    return count


@contextmanager
def _connected(url: str) -> Iterator[tuple[http.client.HTTPConnection, str]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=LIMIT_S, blocksize=MIB)
    try:
        yield connection, f"{parts.path}?{parts.query}"
    finally:
        connection.close()


@contextmanager
def _control_plane(store: str, s3: S3) -> Iterator[tuple[str, int]]:
    """Run a control plane that others reach by its own address, for files too; give that, and its process."""
    port = choose(IDS)
    url = f"http://{LOOPBACK}:{port}"
    own = {"MONGODB_URL": store, "PODFLEET_PUBLIC_URL": url, "PODFLEET_API_KEY": "a-key-of-the-bench"}
    command = [sys.executable, "-m", "control_plane", "serve", "--port", str(port)]
    with subprocess.Popen(
        command, env={**os.environ, **own, **_environment(s3)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            await_healthy(url)
            yield url, process.pid
        finally:
            process.terminate()


def _settings(s3: S3) -> Storage:
    return read_storage(_environment(s3))


def _environment(s3: S3) -> dict[str, str]:
    return {
        "MINIO_ENDPOINT": s3.endpoint,
        "MINIO_ACCESS_KEY": s3.credentials.s3_access_key,
        "MINIO_SECRET_KEY": s3.credentials.s3_secret_key,
        "MINIO_BUCKET": BUCKET,
        "MINIO_REGION": REGION,
        "MINIO_SECURE": "false",
    }


def _most_mib(pid: int, *, from_now: bool) -> float:
    """Return the most memory that a process had, or has now and from when on it is counted anew."""
    if from_now:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _filled(path: Path, size_mib: int) -> Path:
    """Write a file that nothing can compress."""
    block = os.urandom(16 * MIB + 1)  # odd, so that no two MiB are the same
    with path.open("wb") as file:
        left = size_mib * MIB
        while left:
            left -= file.write(block[:left])
    return path


BENCH: Final = Bench("stored_files", "a large file by the public address, beside the storage itself", run)
