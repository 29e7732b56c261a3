"""`python -m control_plane serve|migrate`: reads the environment, then serves or migrates."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import uvicorn

from control_plane.config import KEY_NEEDED, Settings, environment, read_settings
from control_plane.files.blobs import Blobs
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.server.http.connection import connection_class
from control_plane.store import database, schema
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError, Transient
from events.runtime.interpreter import objection
from events.runtime.logs import LogOptions, configure_logs

log = logging.getLogger(__name__)

RETRY_S: Final = 2.0
GRACE_S: Final = 5
GARBAGE_OBJECTS: Final = 50_000  # made and not given back, until cycles are looked for among them
EXIT_CONFIG: Final = 2
EXIT_UNREACHABLE: Final = 3
KEYLESS_HELP: Final = (
    "this machine needs no key, until an admin key is made or a proxy is seen: for one of your own"
)


class Closing(Protocol):
    """What requests wait for, and what ends their wait."""

    def close(self) -> None: ...


class Server(uvicorn.Server):
    """A server whose streams and waits end as soon as it is told to stop, not when their readers like to."""

    def __init__(self, config: uvicorn.Config, *waits: Closing) -> None:
        super().__init__(config)
        self._waits = waits

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End every stream and every wait, then as any server."""
        for each in self._waits:
            each.close()
        await super().shutdown(sockets)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("serve", help="serve the API, the pages and the loops")
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--port", type=int, default=8700)
    command.add_argument("--keyless", action="store_true", help=KEYLESS_HELP)
    command.add_argument("--migrate", action="store_true", help="migrate first, as on a machine of one's own")
    commands.add_parser("migrate", help="create the indexes that are missing")
    arguments = parser.parse_args()
    if arguments.command == "migrate":
        return migrate()
    return serve(
        host=arguments.host, port=arguments.port, keyless=arguments.keyless, migrates=arguments.migrate
    )


def migrate() -> int:
    """Create the indexes that are missing; return 2 where that cannot work, 3 where nobody answers."""
    url = environment(Path.cwd()).get("MONGODB_URL")
    try:
        if not url:
            raise ConfigError(["MONGODB_URL is not set; it names the database to migrate"])
        asyncio.run(_migrate(url))
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG
    except Transient as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_UNREACHABLE
    return 0


async def _migrate(url: str) -> None:
    client = database.connect(url)
    try:
        db = database.database(client, url)
        await database.require_guarantees(client)
        await schema.migrate(db)
        await schema.verify(db)
    finally:
        await client.close()


def serve(*, host: str, port: int, keyless: bool = False, migrates: bool = False) -> int:
    """Serve until told to stop; return 2 for a configuration that cannot work."""
    try:
        settings = read_settings(environment(Path.cwd()), host=host, port=port, keyless=keyless)
        configure_logs(LogOptions(style="json", secrets=settings.secrets), sys.stderr)
        if warning := objection(sys.version_info[:3]):
            log.warning("start.old_python", extra={"why": warning})
        with _bound(settings) as listener:
            asyncio.run(_serve(settings, listener, migrates=migrates))
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG
    except KeyboardInterrupt:
        return 0
    return 0


async def _serve(settings: Settings, listener: socket.socket, *, migrates: bool) -> None:
    client = database.connect(settings.mongodb_url)
    try:
        db = database.database(client, settings.mongodb_url)
        deps = wire(settings, db, SystemClock(), SystemIds())
        while True:
            try:
                if migrates:
                    await database.require_guarantees(client)
                    await schema.migrate(db)
                await _require(
                    database.require_guarantees(client), schema.verify(db), _require_key(settings, deps)
                )
                await deps.timekeeper.run_once()
                break
            except Transient as error:
                log.warning("start.waits", extra={"code": error.code, "why": error.message})
                await asyncio.sleep(RETRY_S)
        config = uvicorn.Config(
            create_app(deps),
            http=connection_class(),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # it would be this machine's: ours is the store's
            # Else whoever is on this machine, or a proxy of somebody else, could name any address as theirs.
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=settings.proxies,
            timeout_graceful_shutdown=GRACE_S,
        )
        waits = (deps.feed, deps.log_feed, deps.claimer.notifier, deps.live.feed, deps.live.texts)
        server = Server(config, *waits)
        _leave_alone_what_stays()
        preparing = asyncio.create_task(_prepare_storage(deps.blobs, server))
        await server.serve(sockets=[listener])
        preparing.cancel()
        with suppress(asyncio.CancelledError):
            await preparing
    finally:
        await client.close()


def _leave_alone_what_stays() -> None:
    """Let garbage be looked for among what requests leave, and rarely: a fifth of a busy process' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


async def _prepare_storage(blobs: Blobs, server: uvicorn.Server) -> None:
    """Make the bucket, however long the storage is away: events and rescues need none of it.

    Ends the server, and raises `ConfigError`, where our keys are not valid.
    """
    while True:
        try:
            await blobs.prepare()
            return
        except Transient as error:
            log.warning("storage.waits", extra={"code": error.code, "why": error.message})
            await asyncio.sleep(RETRY_S)
        except ConfigError:
            server.should_exit = True
            raise


async def _require_key(settings: Settings, deps: Deps) -> None:
    """Refuse to start where no key opens anything. Raises `ConfigError`."""
    if settings.needs_stored_key and not await deps.key_ring.has_admin():
        raise ConfigError([KEY_NEEDED])


async def _require(*checks: Awaitable[None]) -> None:
    """Make every check. Raises `ConfigError` with the problems of all of them."""
    problems: list[str] = []
    for found in await asyncio.gather(*checks, return_exceptions=True):
        if isinstance(found, ConfigError):
            problems += found.problems
        elif found is not None:
            raise found
    if problems:
        raise ConfigError(problems)


def _bound(settings: Settings) -> socket.socket:
    """Return the listening socket; taking it first tells about a taken port before anything else."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. An answer goes out in two pieces; the second would wait 40 ms for the client to
    # confirm the first, on every request of a kept connection.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        taken = f"cannot listen on {settings.host}:{settings.port} ({error.strerror}); choose another --port"
        raise ConfigError([taken]) from error
    return listener


if __name__ == "__main__":
    sys.exit(main())
