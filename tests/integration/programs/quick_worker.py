"""A worker that renews and reports each second, and whose lease may be short: no test waits for a beat."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from events.queue.lease_times import LEASE_TTL_S
from events.runtime.exits import EXIT_LEFT
from events.runtime.logs import LogOptions, configure_logs
from pod_worker.__main__ import stop_on_signals
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions
from pod_worker.config import Wishes, read_settings
from pod_worker.program import World, serve


def main(lease_ttl_s: float, beat_s: float, data: Path, slot: str | None = None) -> int:
    settings = read_settings(os.environ, Wishes(data=data, slot=slot), dotenv=Path(".env"))
    configure_logs(LogOptions(secrets=settings.secrets), sys.stderr)
    world = World(
        stop=stop_on_signals(), lease_ttl_s=lease_ttl_s, renew_every_s=beat_s, report_every_s=beat_s
    )
    with ForkServer(ChildOptions(environ=settings.environ), world.clock) as fork_server:
        fork_server.prestart()
        return 0 if serve(settings, world, fork_server) is None else EXIT_LEFT


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lease", type=float, default=LEASE_TTL_S, help="in seconds")
    parser.add_argument("--beat", type=float, default=1.0, help="seconds between two renewals")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--slot", help="which slot it is")
    parser.add_argument("--packages", help="a folder whose packages count more than those that are installed")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.insert(0, arguments.packages)
    sys.exit(main(arguments.lease, arguments.beat, arguments.data, arguments.slot))
