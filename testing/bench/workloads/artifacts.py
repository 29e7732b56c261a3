"""Artifacts into the embedded storage: a worker's uploads beside the tools that people would use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import httpx
from minio import Minio
from urllib3 import PoolManager

from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.delivery.outbox import Outbox
from events.delivery.pipe import Made
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Seeker
from events.runtime.clock import SystemIds
from events.text.key_text import letters
from pod_worker.files.storage import HttpStorage
from pod_worker.files.upload_registration import OutboxRegistry
from pod_worker.files.uploads import Uploader
from pod_worker.queue.mongo import MongoQueue, connect
from podfleet.embedded.credentials import credentials
from podfleet.embedded.mongod import find_mongod, prepare_mongod
from podfleet.embedded.private_file import private_directory
from podfleet.embedded.s3 import BUCKET, REGION, S3, find_s3, prepare_s3
from testing.bench.comparison import OURS, Absent, Bench, Figures, Goal, Metric, Row, Setting, contest, way
from testing.bench.machine import CLOCK
from testing.bench.peers.environments import Program, environment, program
from testing.bench.servers import fleet

IDS: Final = SystemIds()
MIB: Final = 1 << 20
LEASE_S: Final = 3600.0
LIMIT_S: Final = 300.0
TRANSFERS: Final = 8  # of every tool; a worker has four
LOADS: Final[Mapping[str, tuple[int, int, int]]] = {  # files, bytes of each, and rounds at most
    "1,000 files of 16 KiB": (1000, 16 << 10, 9),
    "a file of 256 MiB": (1, 256 * MIB, 9),
    "a file of 2 GiB": (1, 2048 * MIB, 5),
}
SMALL: Final[Mapping[str, tuple[int, int, int]]] = {"20 files of 1 KiB": (20, 1 << 10, 1)}

TOOLS: Final = ("minio SDK", "rclone copy", "boto3")
METRICS: Final = (
    Metric("speed", "MiB/s", goals=tuple(Goal(0.9, tool) for tool in TOOLS)),
    Metric("memory", "MiB", more_is_better=False),  # at most, beyond what this process had before
)
IN_PROCESS: Final = (OURS, "minio SDK")  # the others' memory is not measured

Send = Callable[[Sequence[Path], str], object]  # files, and where to in the bucket


def run(setting: Setting) -> Iterator[Row]:
    """Send many small files, a large one, and a very large one."""
    home = setting.scratch / "fleet"
    private_directory(home)
    secrets = credentials(home / "credentials.json", IDS)  # the fleet finds these, and takes the same ports
    s3 = prepare_s3(find_s3(os.environ.get("PATH")), home / "s3", secrets, IDS)
    mongod = prepare_mongod(find_mongod(os.environ.get("PATH")), home / "mongo", secrets, IDS)
    with fleet(home) as stack, boto3_process(s3, setting) as boto3:
        minio, rclone, aws = TOOLS
        ways: dict[str, Send | Absent] = {
            OURS: Worker(stack.url, mongod.url(), setting.scratch).send,
            minio: partial(with_minio, s3),
            rclone: partial(with_rclone, s3),
            aws: boto3 if isinstance(boto3, Absent) else partial(with_boto3, boto3),
        }
        for load, (count, size, most) in (SMALL if setting.small else LOADS).items():
            files = list(_filled(setting.scratch / "files", count, size))
            measured = {
                name: way(send, partial(_measured, files=files, home=home, of_ours=name in IN_PROCESS))
                for name, send in ways.items()
            }
            rounds = replace(setting, rounds=min(setting.rounds, most))
            yield from contest(load, METRICS, measured, rounds)


@dataclass(frozen=True, slots=True)
class Worker:
    """The part of a worker that keeps files, with a run of its own each time."""

    url: str
    store: str
    scratch: Path

    def send(self, files: Sequence[Path], where: str) -> None:
        """Hand the files over as a pipeline does, and wait until all are registered."""
        claim = self._claim()
        with (
            Outbox(self.scratch / f"{where}.db", clock=CLOCK, ids=IDS) as outbox,
            control_plane_client(self.url, None) as client,
            HttpStorage(httpx.create_ssl_context(trust_env=False)) as storage,
        ):
            outbox.open_attempt(claim.attempt_id, token=claim.token, source="//bench", collection="runs")
            uploader = Uploader(ControlPlane(client, CLOCK), storage, OutboxRegistry(outbox), CLOCK, IDS)
            for file in files:
                uploader.add(claim, Made(str(file), file.name, "application/octet-stream"))
            problem = uploader.drain(claim, deadline_s=CLOCK.monotonic_s() + LIMIT_S)
            assert problem is None, problem
            assert outbox.pending() == len(files)

    def _claim(self) -> Claim:
        httpx.post(f"{self.url}/api/runs", json={"kind": "probe"}, trust_env=False).raise_for_status()
        queue = MongoQueue(connect(self.store), ttl_s=LEASE_S)
        seeker = Seeker("bench", "experiment", Abilities(frozenset({"probe"}), 0.0, None))
        claim = queue.claim(seeker, token=letters(IDS.token()))
        assert claim is not None
        return claim


def with_minio(s3: S3, files: Sequence[Path], where: str) -> None:
    """Send with the SDK of MinIO, several at once."""
    pool = PoolManager(maxsize=2 * TRANSFERS)
    secrets = s3.credentials
    client = Minio(
        s3.endpoint,
        access_key=secrets.s3_access_key,
        secret_key=secrets.s3_secret_key,
        secure=False,
        region=REGION,
        http_client=pool,
    )
    _at_once(files, lambda file: client.fput_object(BUCKET, f"{where}/{file.name}", str(file)))
    pool.clear()


def with_boto3(boto3: Program, files: Sequence[Path], where: str) -> None:
    """Send with the SDK of AWS, several at once, in a process of its own."""
    paths = [str(file) for file in files]
    boto3.ask({"files": paths, "bucket": BUCKET, "where": where, "transfers": TRANSFERS})


@contextmanager
def boto3_process(s3: S3, setting: Setting) -> Iterator[Program | Absent]:
    """Run the program that sends with the SDK of AWS."""
    python = environment("boto3", setting)
    if isinstance(python, Absent):
        yield python
        return
    environ = {
        "ENDPOINT": f"http://{s3.endpoint}",
        "AWS_ACCESS_KEY_ID": s3.credentials.s3_access_key,
        "AWS_SECRET_ACCESS_KEY": s3.credentials.s3_secret_key,
        "AWS_DEFAULT_REGION": REGION,
    }
    with program(python, "testing.bench.peers.programs.boto3_files", environ) as sender:
        yield sender


def with_rclone(s3: S3, files: Sequence[Path], where: str) -> None:
    """Send with the program that people copy folders with."""
    program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or "rclone"
    environ = {
        **os.environ,
        "RCLONE_CONFIG": "",
        "RCLONE_CONFIG_X_TYPE": "s3",
        "RCLONE_CONFIG_X_PROVIDER": "Rclone",
        "RCLONE_CONFIG_X_ENDPOINT": f"http://{s3.endpoint}",
        "RCLONE_CONFIG_X_ACCESS_KEY_ID": s3.credentials.s3_access_key,
        "RCLONE_CONFIG_X_SECRET_ACCESS_KEY": s3.credentials.s3_secret_key,
        "RCLONE_CONFIG_X_FORCE_PATH_STYLE": "true",
    }
    options = ("--transfers", str(TRANSFERS), "--checkers", str(TRANSFERS), "--s3-no-check-bucket", "-q")
    command = [program, "copy", str(files[0].parent), f"X:{BUCKET}/{where}", *options]
    subprocess.run(command, env=environ, check=True, capture_output=True)


def _at_once(files: Sequence[Path], send: Callable[[Path], object]) -> None:
    with ThreadPoolExecutor(TRANSFERS) as threads:
        list(threads.map(send, files))


def _measured(send: Send, files: Sequence[Path], home: Path, *, of_ours: bool) -> Figures:
    had_mib = _most_mib(from_now=True)
    begun_s = CLOCK.monotonic_s()
    send(files, IDS.ulid())
    took_s = CLOCK.monotonic_s() - begun_s
    for folder in (home / "s3" / "objects" / BUCKET).iterdir():
        shutil.rmtree(folder)  # the next one finds as much room
    memory = {"memory": _most_mib(from_now=False) - had_mib} if of_ours else {}
    return {"speed": sum(file.stat().st_size for file in files) / took_s / MIB, **memory}


def _most_mib(*, from_now: bool) -> float:
    """Return the most memory that this process had, or has now and from when on it is counted anew."""
    if from_now:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) / 1024


def _filled(folder: Path, count: int, size: int) -> Iterator[Path]:
    """Fill a folder with files that nothing can compress."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number:04d}.bin"
        with path.open("wb") as file:
            for begin in range(0, size, MIB):
                file.write(os.urandom(min(MIB, size - begin)))
        yield path


BENCH: Final = Bench("artifacts", "files into storage, beside minio SDK, rclone copy and boto3", run)
