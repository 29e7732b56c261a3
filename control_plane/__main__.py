"""`python -m control_plane serve|migrate`: reads the environment, then serves or migrates."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import uvicorn

from control_plane.concurrency.loops import end, run_every
from control_plane.config import KEY_NEEDED, Settings, environment, read_settings
from control_plane.files.blobs import Blobs
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.server.http.connection import connection_class
from control_plane.server.http.listeners import (
    CERTIFICATE_S,
    Certificate,
    CertificateReloader,
    address_of,
    bound,
    listen,
)
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


@dataclass(frozen=True, slots=True)
class Outside:
    """A second address of a server, for others than this machine; its sockets are open already."""

    listener: socket.socket
    certificate: Certificate | None = None


class Server(uvicorn.Server):
    """A server whose streams and waits end as soon as it is told to stop, not when their readers like to."""

    def __init__(self, config: uvicorn.Config, outside: Outside | None, *waits: Closing) -> None:
        super().__init__(config)
        self._outside = outside
        self._waits = waits
        self._reloading: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen at the address of this machine, then at the one for others."""
        await super().startup(sockets)
        if self._outside is None or self.should_exit:
            return

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg] # as uvicorn
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        certificate, tls = self._outside.certificate, None
        if certificate is not None:
            tls = certificate.context()
            reloader = CertificateReloader(certificate, tls, certificate.version())
            again = run_every(CERTIFICATE_S, "certificate", reloader.run_once)
            self._reloading = asyncio.create_task(again)
        self.servers.append(await listen(protocol, self._outside.listener, tls))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End every stream and every wait, then as any server."""
        for each in self._waits:
            each.close()
        if self._reloading is not None:
            self._reloading.cancel()
        await super().shutdown(sockets)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="control_plane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("serve", help="serve the API, the pages and the loops")
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--port", type=int, default=8700)
    command.add_argument("--keyless", action="store_true", help=KEYLESS_HELP)
    command.add_argument("--listen", metavar="HOST:PORT", help="a second address, for others")
    command.add_argument("--certificate", type=Path, help="of the second address, with its chain (PEM)")
    command.add_argument("--private-key", type=Path, help="of the certificate (PEM)")
    command.add_argument("--migrate", action="store_true", help="migrate first, as on a machine of one's own")
    commands.add_parser("migrate", help="create the indexes that are missing")
    arguments = parser.parse_args()
    if arguments.command == "migrate":
        return migrate()
    return serve(
        host=arguments.host,
        port=arguments.port,
        keyless=arguments.keyless,
        migrates=arguments.migrate,
        outside=Choice(arguments.listen, arguments.certificate, arguments.private_key),
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


@dataclass(frozen=True, slots=True)
class Choice:
    """What was said of a second address: where it is, and the files of its certificate."""

    listen: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None

    def opened(self, *, keyless: bool) -> Outside | None:
        """Return the second address with its socket, None where there is none. Raises `ConfigError`."""
        if self.listen is None:
            if self.certificate or self.private_key:
                raise ConfigError(["--certificate and --private-key are for the address of --listen"])
            return None
        if keyless:
            raise ConfigError(["--keyless is for a machine of one's own, and --listen for others"])
        if (place := address_of(self.listen)) is None:
            raise ConfigError([f"--listen is {self.listen!r}; it is like 0.0.0.0:8443"])
        if (self.certificate is None) != (self.private_key is None):
            raise ConfigError(["--certificate and --private-key belong together"])
        certificate = None
        if self.certificate is not None and self.private_key is not None:
            certificate = Certificate(self.certificate, self.private_key)
            certificate.context()
        return Outside(bound(*place, "--listen"), certificate)


NO_CHOICE: Final = Choice()


def serve(
    *, host: str, port: int, keyless: bool = False, migrates: bool = False, outside: Choice = NO_CHOICE
) -> int:
    """Serve until told to stop; return 2 for a configuration that cannot work."""
    try:
        settings = read_settings(environment(Path.cwd()), host=host, port=port, keyless=keyless)
        configure_logs(LogOptions(style="json", secrets=settings.secrets), sys.stderr)
        if warning := objection(sys.version_info[:3]):
            log.warning("start.old_python", extra={"why": warning})
        with bound(host, port, "--port") as listener:
            second = outside.opened(keyless=keyless)
            asyncio.run(_serve(settings, listener, second, migrates=migrates))
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG
    except KeyboardInterrupt:
        return 0
    return 0


async def _serve(
    settings: Settings, listener: socket.socket, outside: Outside | None, *, migrates: bool
) -> None:
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
        server = Server(config, outside, *waits)
        _leave_alone_what_stays()
        preparing = asyncio.create_task(_prepare_storage(deps.blobs, server))
        await server.serve(sockets=[listener])
        await end([preparing])
        if not preparing.cancelled():
            preparing.result()
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


if __name__ == "__main__":
    sys.exit(main())
