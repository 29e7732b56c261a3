"""The connection to MongoDB, with the guarantees pinned in code.

Law: writes are acknowledged by a majority and journaled, reads that feed a write are
majority reads on the primary, whatever the URL or the server's defaults are.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from events.runtime.clock import Clock
from events.runtime.errors import ConfigError, Transient
from events.runtime.guarantees import DATABASE_DEFAULT, KILLED, deployment_of, weak_options, weaknesses
from events.runtime.measured_clock import MeasuredClock

log = logging.getLogger(__name__)

Document = dict[str, Any]
Database = AsyncDatabase[Document]

SERVER_SELECTION_S: Final = 15


def connect(url: str, *, patience_s: float | None = None) -> AsyncMongoClient[Document]:
    """Return a client; it connects at the first command. Raises `ConfigError` for an unusable URL.

    It looks for a primary for `patience_s`.
    """
    try:
        return AsyncMongoClient(
            url,
            tz_aware=True,
            datetime_conversion="DATETIME_CLAMP",  # a moment that no calendar has holds up no other document
            retryWrites=True,
            serverSelectionTimeoutMS=(patience_s or SERVER_SELECTION_S) * 1000,
            appname="podfleet-control-plane",
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError([f"MONGODB_URL is not usable: {error}"]) from error


def database(client: AsyncMongoClient[Document], url: str) -> Database:
    """Return the database that the URL's path names (default `podfleet`), with pinned concerns.

    Raises `ConfigError` for what is wrong with the URL and the client takes without a word.
    """
    try:
        parsed = parse_uri(url)
    except (ConfigurationError, ValueError) as error:
        raise ConfigError([f"MONGODB_URL is not usable: {error}"]) from error
    if problems := weak_options(parsed["options"]):
        raise ConfigError(problems)
    name = parsed["database"] or DATABASE_DEFAULT
    return client.get_database(
        name,
        write_concern=WriteConcern("majority", j=True),
        read_concern=ReadConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )


async def require_guarantees(client: AsyncMongoClient[Document]) -> None:
    """Refuse servers that cannot keep the promises.

    Raises `ConfigError` that lists every reason, `Transient` while none can be reached.
    """
    try:
        hello: Document = await client.admin.command("hello")
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and not _is_outage(error):
            raise ConfigError([f"MONGODB_URL: the server refuses the connection: {error.details}"]) from error
        raise Transient("mongodb_unreachable", f"MongoDB cannot be reached: {error}") from error
    async with answers():
        defaults = await _answer_to(client, "getDefaultRWConcern")
        config = await _answer_to(client, "replSetGetConfig")
    problems = weaknesses(deployment_of(hello, defaults, config and config["config"]))
    if problems:
        raise ConfigError(problems)


async def _answer_to(client: AsyncMongoClient[Document], command: str) -> Document | None:
    """Return the answer to a command, None if the user may not run it or the server lacks it."""
    try:
        answer: Document = await client.admin.command(command)
    except OperationFailure as error:
        if _is_outage(error):
            raise
        log.info("mongodb.not_told", extra={"command": command, "code": error.code})
        return None
    return answer


async def moment(db: Database) -> datetime:
    """Return the store's now. Raises `Transient`."""
    async with answers():
        hello: Document = await db.client.admin.command("hello")
    now: datetime = hello["localTime"]  # commands are read without a time zone
    return now.replace(tzinfo=UTC)


async def stores_clock(db: Database, machine: Clock) -> MeasuredClock:
    """Return the store's clock, measured once: for a command, which is over before it drifts."""
    clock = MeasuredClock(machine)
    asked_s = clock.monotonic_s()
    clock.note(await moment(db), asked_s=asked_s)
    return clock


async def ping(db: Database) -> None:
    """Raises `Transient` when the store does not answer."""
    try:
        await db.command("ping")
    except PyMongoError as error:
        if _is_outage(error):
            raise Transient("mongodb_unreachable", "MongoDB does not answer") from error
        raise Transient("mongodb_refuses", f"MongoDB refuses the request: {error}") from error


@asynccontextmanager
async def answers() -> AsyncIterator[None]:
    """Raise `Transient` where the store does not answer now; an error of ours stays what it is.

    Around a block, or as the decorator of a query. A refused command is no outage: whoever
    is told to try again would try for ever.
    """
    try:
        yield
    except PyMongoError as error:
        if not _is_outage(error):
            raise
        raise Transient("mongodb_unreachable", "MongoDB does not answer; try again") from error


def _is_outage(error: PyMongoError) -> bool:
    if isinstance(error, ConnectionFailure | ExecutionTimeout | WriteConcernError):
        return True
    if error.has_error_label("RetryableWriteError"):
        return True
    return isinstance(error, OperationFailure) and error.code in KILLED
