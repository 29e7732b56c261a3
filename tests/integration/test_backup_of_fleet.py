"""The backup of a fleet that works is restored elsewhere, and verified there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from podfleet.embedded.mongod import Mongod
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import Fleet
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.slow("real servers and processes")

FINAL = ("COMPLETED", "FAILED", "CANCELED")


@pytest.fixture
def target_url(mongod: Mongod) -> Iterator[str]:
    """A database to restore into, which has nothing."""
    with own_database(mongod) as url:
        yield url


def command(url: str, s3: S3Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "MONGODB_URL": url, **s3.environment}
    return run_program([*PROGRAM, *arguments], env=environment, cwd=Path("/"))


def statuses(url: str) -> dict[str, int]:
    """Return how many runs have each status."""
    with MongoClient[dict[str, Any]](url) as client:
        groups = client.get_default_database().runs.aggregate([{"$sortByCount": "$status"}])
        return {each["_id"]: each["count"] for each in groups}


@pytest.mark.slow("two workers, a backup, a restore, and all runs to their ends")
def test_a_backup_of_a_fleet_that_works_is_restored_elsewhere(
    fleet: Fleet, target_url: str, s3: S3Server, tmp_path: Path
) -> None:
    runs = [fleet.submit() for _ in range(6)]
    for name in ("w1", "w2"):
        fleet.start_quick_worker(name=name)
    fleet.wait_for(runs[0], *FINAL)
    done = command(fleet.database_url, s3, "backup", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    for each in runs:
        fleet.wait_for(each, "COMPLETED")
    again = command(fleet.database_url, s3, "backup", str(tmp_path / "b"))
    assert again.returncode == 0, again.stderr
    at_the_end = statuses(fleet.database_url)
    done = command(target_url, s3, "restore", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    assert "\n0 findings\n" in done.stderr
    assert statuses(target_url) == at_the_end
