"""The database that a command uses directly, without a control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any


def variables() -> Mapping[str, str]:
    """Return the settings; those of the fleet that runs in this folder where none names a database."""
    from events.runtime.access import running
    from podfleet.embedded.config import data_folder, environment

    found = environment(Path.cwd())
    near = None if found.get("MONGODB_URL") else running(data_folder(Path.cwd()))
    return found if near is None else near.stores


@asynccontextmanager
async def opened(settings: Mapping[str, str], *, to: str) -> AsyncIterator[Any]:
    """Give the database that `MONGODB_URL` names, to do `to` with it. Raises `ConfigError`."""
    from control_plane.store import database
    from events.runtime.errors import ConfigError

    url = settings.get("MONGODB_URL")
    if not url:
        raise ConfigError(
            [
                f"MONGODB_URL is not set; it names the database to {to}; in the folder of `podfleet up` "
                "it need not be set while that runs"
            ]
        )
    client = database.connect(url)
    try:
        yield database.database(client, url)
    finally:
        await client.close()


@contextmanager
def served(data: Path) -> Iterator[Mapping[str, str]]:
    """Start the database and the storage of a data folder whose fleet stands still, and give the settings.

    No control plane and no worker is there meanwhile. Raises `ConfigError`, also while the fleet runs.
    """
    from events.runtime.clock import SystemClock, SystemIds
    from podfleet.embedded import ports
    from podfleet.embedded.config import environment
    from podfleet.embedded.credentials import credentials
    from podfleet.embedded.data_lock import held
    from podfleet.embedded.mongod import find_mongod, prepare_mongod
    from podfleet.embedded.private_file import private_directory
    from podfleet.embedded.s3 import find_s3, prepare_s3
    from podfleet.embedded.stack import CREDENTIALS
    from podfleet.embedded.supervisor import Supervisor

    found, ids, data = environment(Path.cwd()), SystemIds(), data.absolute()
    private_directory(data)
    with ExitStack() as stack:
        stack.enter_context(held(data))
        secrets = credentials(data / CREDENTIALS, ids)
        mongod = prepare_mongod(find_mongod(found.get("PATH")), data / "mongo", secrets, ids)
        s3 = prepare_s3(find_s3(found.get("PATH")), data / "s3", secrets, ids)
        for each in (mongod.port, s3.port):
            stack.enter_context(ports.kept(each))
        services = [mongod.service(), s3.service()]
        stack.enter_context(Supervisor([services], logs=data / "logs", clock=SystemClock(), say=_quiet))
        yield {**found, "MONGODB_URL": mongod.url(), **s3.environment()}


def _quiet(_: str) -> None:
    """Take the supervisor's lines: a start that fails is raised."""
