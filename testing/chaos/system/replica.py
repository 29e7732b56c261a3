"""The control plane of the campaign: the product's own parts, with a lease and a patience that are short."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvicorn

from control_plane.concurrency.loops import run_every
from control_plane.config import Settings, read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import Deps, wire
from control_plane.store import database, schema
from control_plane.store.queue.claims import Claims
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Transient
from events.runtime.logs import LogOptions, configure_logs
from testing.chaos.bugs import COMPOSABLE, NO_BUG
from testing.chaos.proxies.network import LOOPBACK
from testing.chaos.system.plane import Patience, build, rewired
from testing.chaos.system.skew import skewed

RETRY_S: Final = 0.5
GRACE_S: Final = 3
RESCUE_TICK_S: Final = 1.0
LOG_GRACE_S: Final = 10.0

log = logging.getLogger(__name__)


def main() -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="testing.chaos.system.replica", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ttl", type=float, required=True)
    parser.add_argument("--clock", type=Path, help="a file with the seconds by which the wall clock was set")
    parser.add_argument("--bug", default=NO_BUG)
    arguments = parser.parse_args()
    settings = read_settings(os.environ, host=LOOPBACK, port=arguments.port, keyless=True)
    configure_logs(LogOptions(style="json", secrets=settings.secrets), sys.stderr)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, arguments.port))
        asyncio.run(_serve(settings, listener, arguments))
    return 0


async def _serve(settings: Settings, listener: socket.socket, arguments: argparse.Namespace) -> None:
    client = database.connect(settings.mongodb_url)
    try:
        deps = await _ready(settings, database.database(client, settings.mongodb_url), arguments)
        config = uvicorn.Config(
            create_app(deps),
            log_config=None,
            access_log=False,
            date_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        rescuer = asyncio.create_task(run_every(RESCUE_TICK_S, "short rescuer", deps.rescuer.run_once))
        await uvicorn.Server(config).serve(sockets=[listener])
        rescuer.cancel()
    finally:
        await client.close()


async def _ready(settings: Settings, db: database.Database, arguments: argparse.Namespace) -> Deps:
    ids, parts = SystemIds(), COMPOSABLE[arguments.bug]
    deps = wire(settings, db, skewed(SystemClock(), set_by=arguments.clock), ids)
    while True:
        try:
            await database.require_guarantees(db.client)
            await schema.migrate(db)
            await schema.verify(db)
            await deps.timekeeper.run_once()
            break
        except Transient as error:
            log.warning("start.waits", extra={"code": error.code, "why": error.message})
            await asyncio.sleep(RETRY_S)
    patience = Patience(ttl_s=arguments.ttl, gap_max_s=2 * RESCUE_TICK_S, log_grace_s=LOG_GRACE_S)
    deps = replace(deps, claimer=replace(deps.claimer, claims=Claims(db, arguments.ttl)))
    return rewired(deps, build(db, parts, patience, deps.clock, ids))


if __name__ == "__main__":
    sys.exit(main())
