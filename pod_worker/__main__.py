"""`python -m pod_worker --mode M`: reads the environment, wires the worker, runs it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Final

import httpx

from events.catalog import Fact
from events.clock import SystemClock, SystemIds
from events.delivery import Delivery, Sender, Telemetry
from events.errors import ConfigError, Conflict
from events.ingest_client import HttpIngest, control_plane_client
from events.logs import LogOptions, configure_logs
from events.loops import run_every
from events.outbox import Outbox
from pod_worker.attempt import Ports
from pod_worker.child import Child, ChildOptions
from pod_worker.claim import Claim
from pod_worker.config import Settings, read_settings
from pod_worker.gpu import Gauges, open_driver
from pod_worker.intent import Intent
from pod_worker.queue import MongoQueue, connect
from pod_worker.roster import REPORT_EVERY_S, Roster
from pod_worker.uploads import Uploader
from pod_worker.worker import Pod, Worker

FLUSH_S: Final = 2.0
EXIT_CONFIG: Final = 2


def main() -> int:
    """Run a worker; return 0 after an orderly stop, 2 for a configuration that cannot work."""
    parser = argparse.ArgumentParser(prog="pod_worker", description=__doc__)
    parser.add_argument(
        "--mode", help="experiment, ideation or hybrid (default: WORKER_MODE, else experiment)"
    )
    parser.add_argument("--data", type=Path, help="folder for the outbox and the work in progress")
    arguments = parser.parse_args()
    try:
        settings = read_settings(os.environ, mode=arguments.mode, data=arguments.data, dotenv=Path(".env"))
        return serve(settings)
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG


def serve(settings: Settings) -> int:
    """Wire one worker and run it until it is told to stop."""
    configure_logs(LogOptions(secrets=settings.secrets), sys.stderr)
    stop = _stop_on_signals()
    clock, ids = SystemClock(), SystemIds()
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    queue = MongoQueue(connect(settings.mongodb_url))
    gauges = Gauges(open_driver())
    gpus = gauges.capabilities().gpus
    pod = Pod(
        id=f"{settings.pod}/{ids.token()[:6]}",
        mode=settings.mode,
        region=settings.region,
        gpu_gib=max((gpu.memory_mib for gpu in gpus), default=0.0) / 1024,
    )
    with Outbox(settings.data / "outbox.db", clock=clock, ids=ids) as outbox:
        control_plane = control_plane_client(settings.control_plane_url, settings.api_key)
        spool = Telemetry(clock=clock, ids=ids)
        sender = Sender(outbox, spool, HttpIngest(control_plane, clock), clock, ids)
        identity = {
            "id": pod.id,
            "pod": settings.pod,
            "mode": settings.mode,
            "region": settings.region,
            "version": version("podfleet"),
            "started_at": clock.now(),
        }
        roster = Roster(queue, gauges, spool, identity)

        def register(claim: Claim, fact: Fact) -> None:
            try:
                outbox.append(claim.run_id, claim.attempt, [fact])
            except Conflict:
                return  # the attempt ended without waiting for this file

        uploads = Uploader(control_plane, httpx.Client(trust_env=False), register, clock, ids)
        ports = Ports(queue, outbox, uploads, clock, ids, settings.data / "work", stop)
        options = ChildOptions(environ=settings.environ)
        worker = Worker(
            pod,
            queue,
            ports,
            Intent(settings.data / "claim.token"),
            roster,
            lambda: Child.spawn(options, clock),
            {},
        )

        def heed(delivery: Delivery) -> None:
            for name in delivery.fenced:
                if heartbeat := worker.heard_from.get(name):
                    heartbeat.lose()

        quiet = threading.Event()
        for name, work in (
            ("sender", lambda: sender.run(quiet, heed)),
            ("roster", lambda: run_every(REPORT_EVERY_S, roster.run_once, stop=quiet, clock=clock)),
        ):
            threading.Thread(target=work, name=name, daemon=True).start()
        try:
            worker.run()
        finally:
            quiet.set()
            uploads.close()
            sender.flush(clock.monotonic_s() + FLUSH_S)
            roster.run_once()
    return 0


def _stop_on_signals() -> threading.Event:
    """Return the flag that the first SIGTERM or SIGINT raises; the second ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, _: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


if __name__ == "__main__":
    sys.exit(main())
