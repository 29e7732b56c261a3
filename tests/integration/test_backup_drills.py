"""A backup or a restore that is killed anywhere leaves nothing that passes for whole, and is done again."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient

from control_plane.__main__ import EXIT_CONFIG
from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from events.runtime.clock import SystemIds
from events.runtime.guarantees import STATE
from podfleet.connection import EXIT_WRONG_USE
from podfleet.embedded.mongod import Mongod
from podfleet.embedded.ports import choose
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import Fleet
from tests.integration.test_backup import stored
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.slow("real servers, and processes that are killed")

KILLED: Final = (str(Path(__file__).parent / "programs" / "killed_podfleet.py"),)
IN_A_BACKUP: Final = (
    r"disk .*/runs\.bson\.zst",
    r"disk .*/\+changes\.bson\.zst",
    r"disk .*/objects/",
    r"disk .*/\+objects\.bson\.zst",
    r"disk .*/\.manifest\.json\.new",
)
IN_A_RESTORE: Final = (
    r"store insert restored\.runs",
    r"store drop restored\.artifacts",
    r"storage ",
    r"store createIndexes restored\.runs",
    r"store renameCollection",
    r"store createIndexes runs",
    r"store delete store_state",
)
# `make test` kills at the two points that are the most telling.
SHORT: Final = (IN_A_BACKUP[2], IN_A_BACKUP[4]), (IN_A_RESTORE[2], IN_A_RESTORE[4])
LONG: Final = pytest.param(
    IN_A_BACKUP, IN_A_RESTORE, marks=pytest.mark.long("`make test` kills at four points"), id="long"
)
Json = dict[str, Any]


@pytest.fixture
def target_url(mongod: Mongod) -> Iterator[str]:
    """A database to restore into, which has nothing."""
    with own_database(mongod) as url:
        yield url


def command(
    url: str, s3: S3Server, *arguments: str, dies_at: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "MONGODB_URL": url, **s3.environment, "DIES_AT": dies_at or ""}
    program = PROGRAM if dies_at is None else KILLED
    return run_program([*program, *arguments], env=environment, cwd=Path("/"))


def control_plane(url: str, s3: S3Server) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "MONGODB_URL": url, **s3.environment}
    program = (
        "-m",
        "control_plane",
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(choose(SystemIds())),
        "--keyless",
    )
    return run_program(program, env=environment, cwd=Path("/"))


def killed(url: str, s3: S3Server, *arguments: str, at: str) -> None:
    done = command(url, s3, *arguments, dies_at=at)
    assert done.returncode == -signal.SIGKILL, f"{at} was not reached: {done.stderr}"


class Bucket:
    """The objects that a store names, in the bucket that all databases share."""

    def __init__(self, url: str, s3: S3Server) -> None:
        with MongoClient[Json](url) as client:
            self.keys = [each["key"] for each in client.get_default_database().artifacts.find()]
        self._blobs = open_blobs(read_storage(s3.environment))
        assert self.keys

    def digests(self) -> list[str]:
        found = [self._blobs.client.get_object(self._blobs.bucket, key) for key in self.keys]
        return [hashlib.sha256(each.read()).hexdigest() for each in found]

    def empty(self) -> None:
        for key in self.keys:
            self._blobs.client.remove_object(self._blobs.bucket, key)


@pytest.mark.parametrize(("in_a_backup", "in_a_restore"), [pytest.param(*SHORT, id="short"), LONG])
def test_killed_anywhere_nothing_passes_for_whole_and_the_next_one_ends_well(
    fleet: Fleet, target_url: str, s3: S3Server, tmp_path: Path, in_a_backup: Any, in_a_restore: Any
) -> None:
    runs = [fleet.submit(spec={"seconds": 0, "events": 3, "artifact_bytes": 1000}) for _ in range(2)]
    worker = fleet.start_quick_worker("--beat", "0.5")
    for each in runs:
        fleet.wait_for(each, "COMPLETED")
    worker.kill()
    bucket = Bucket(fleet.database_url, s3)
    files = bucket.digests()
    home = tmp_path / "b"
    for point in in_a_backup:
        killed(fleet.database_url, s3, "backup", str(home), at=point)
        refused = command(target_url, s3, "restore", str(home))
        assert refused.returncode == EXIT_WRONG_USE
        assert "is no backup, or one that was cut off" in refused.stderr
        assert stored(target_url) == {}
    done = command(fleet.database_url, s3, "backup", str(home))
    assert done.returncode == 0, done.stderr
    assert len([*home.glob("dump-*")]) == 1
    assert not [*home.rglob("*.new")], "what was cut off is gone"
    killed(fleet.database_url, s3, "backup", str(home), at=in_a_backup[-1])  # the earlier one is as it was

    bucket.empty()
    for point in in_a_restore:
        killed(target_url, s3, "restore", str(home), at=point)
        with MongoClient[Json](target_url) as client:
            assert client.get_default_database()[STATE].find_one({"_id": "restore"}) is not None
        refused = control_plane(target_url, s3)
        assert refused.returncode == EXIT_CONFIG
        assert "is being restored here: wait for `podfleet restore`, or call it again" in refused.stderr
    done = command(target_url, s3, "restore", str(home))
    assert done.returncode == 0, done.stderr
    assert "\n0 findings\n" in done.stderr
    assert not [name for name in stored(target_url) if name.startswith("restored.")]
    assert bucket.digests() == files
