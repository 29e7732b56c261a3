"""`python -m pod_worker --mode M`: reads the command line and the environment, and runs one worker."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from events.kinds.declaring.queues import DEFAULT_MODE, MODES
from events.models.engines import brought
from events.models.visible_devices import VARIABLE
from events.runtime.access import DATA_DEFAULT as FLEET_DATA
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from events.runtime.exits import EXIT_LEFT
from events.runtime.hiding import hide
from events.runtime.interpreter import objection
from events.runtime.logs import LogOptions, configure_logs
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions, allowed
from pod_worker.config import Settings, Wishes, read_settings
from pod_worker.files.index_settings import index_settings
from pod_worker.isolation.confinement import (
    ENVIRONMENTS,
    PACKAGES,
    SOURCE,
    THE_WORKERS,
    TREES,
    WORDS,
    Confinement,
    Method,
)
from pod_worker.isolation.containers import remove_containers
from pod_worker.slots.division import FOLDER as SLOTS
from pod_worker.slots.division import SHARE, Slot, devices_of, problem_with, share_of, slots_of
from pod_worker.slots.parent import die_with
from pod_worker.slots.supervisor import (
    EXIT_LEFT_UNDELIVERED,
    EXIT_RESTART,
    Outcome,
    Supervisor,
    held,
    slots_to_run,
    starter,
)

log = logging.getLogger(__name__)

EXIT_CONFIG: Final = 2
LOOK_S: Final = 1.0
CONNECT_S: Final = 3.0


def main() -> int:
    """Run a worker; return 0 after an orderly stop, 2 for a configuration that cannot work.

    It returns 0 also where it is to be started again. It returns 3 where it left for good, or sleeps until it
    is stopped, and claims nothing, or has the rented pod ended by its provider.
    """
    hide()
    try:
        environ = dict(os.environ)  # as whoever started it has made it
        wishes, stop, restart = _wishes(), stop_on_signals(), threading.Event()
        settings = read_settings(os.environ, wishes, dotenv=Path(".env"))
        configure_logs(_log_options(settings), sys.stderr)
        if settings.slot is not None:
            return _run_slot(settings, settings.slot, wishes, stop, restart)
        if wishes.update is not None:
            _update(settings, wishes.update)
            return 0
        if warning := objection(sys.version_info[:3]):
            log.warning("start.old_python", extra={"why": warning})
        if "image" in brought(settings.environ):
            remove_containers(settings.pod, settings.environ)
        devices = _devices(settings)
        if share := settings.environ.get(SHARE):
            devices = _take_share(share, devices)
            settings = read_settings(os.environ, wishes, dotenv=Path(".env"))
        count = slots_of(settings.slots, len(devices))
        if count > 1:
            ended = supervise(settings, count, devices, own_command(), stop)
            if ended.status == EXIT_LEFT:
                leave(settings, not ended.is_delivered, stop)
            if stop.is_set():
                os._exit(ended.status)  # on a busy machine the usual end takes a second
            if ended.restarts:
                _start_again(settings, environ, stop)
            return ended.status
        undelivered = _work(settings, wishes, stop, restart)
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_CONFIG
    if undelivered is None:
        if restart.is_set():
            _start_again(settings, environ, stop)
        return 0
    log.info("pod.left", extra={"then": settings.on_leave, "undelivered": undelivered})
    leave(settings, undelivered, stop)
    return EXIT_LEFT


def _update(settings: Settings, extras: str) -> None:
    from pod_worker.machine.update import update  # takes a while, which no worker waits for that starts

    update(settings.control_plane_url, extras, settings.environ, settings.secrets)


def _start_again(settings: Settings, environ: Mapping[str, str], stop: threading.Event) -> None:
    """Install what the control plane serves, and become that program, where a worker is to do so itself.

    A signal that came meanwhile ends it. Nothing of this process is left: its children have ended.
    """
    log.info("pod.restarts", extra={"update": settings.update})
    if settings.update is None:
        return
    _update(settings, settings.update)
    if not stop.is_set():
        os.execve(sys.executable, own_command(), dict(environ))  # noqa: S606 - no shell is wanted


def _work(settings: Settings, wishes: Wishes, stop: threading.Event, restart: threading.Event) -> int | None:
    """Run one worker, and return what `serve` returns. Raises `ConfigError`."""
    if is_alone(settings):
        log.info("start.waits", extra={"for": settings.control_plane_url, "why": "nobody answers there"})
    while is_alone(settings) and not stop.wait(LOOK_S):
        settings = read_settings(os.environ, wishes, dotenv=Path(".env"))
    configure_logs(_log_options(settings), sys.stderr)
    confinement, user = confine(settings)
    options = ChildOptions(environ=settings.environ, confinement=confinement)
    with ForkServer(options, SystemClock()) as fork_server:
        fork_server.prestart()
        from pod_worker.program import World, serve  # takes a while, in which the child loads, too

        return serve(settings, World(stop=stop, restart=restart, pipeline_user=user), fork_server)


def _run_slot(
    settings: Settings, slot: Slot, wishes: Wishes, stop: threading.Event, restart: threading.Event
) -> int:
    """Run the worker of one slot; what is done where the pod has left is its supervisor's."""
    die_with(slot, stop)
    if settings.containers:
        remove_containers(settings.pod, settings.environ, settings.containers, settings.place)
    undelivered = _work(settings, wishes, stop, restart)
    if undelivered is None:
        return EXIT_RESTART if restart.is_set() else 0
    return EXIT_LEFT_UNDELIVERED if undelivered else EXIT_LEFT


def supervise(
    settings: Settings, count: int, devices: Sequence[str], command: Sequence[str], stop: threading.Event
) -> Outcome:
    """Run the slots of this pod, each with its devices, until they have left. Raises `ConfigError`.

    `command` starts a worker; it is told its slot.
    """
    if problem := problem_with(count, len(devices)):
        raise ConfigError([problem])

    def environ(slot: Slot) -> dict[str, str]:
        owned = devices_of(slot, devices)
        return {**os.environ, **({} if owned is None else {VARIABLE: ",".join(owned)})}

    clock, boot = SystemClock(), SystemIds().token()[:6]
    with held(settings.pod_data, clock, stop) as lock:
        if settings.containers:  # nobody else has this folder's containers now
            remove_containers(settings.pod, settings.environ, settings.containers)
        slots = slots_to_run(count, boot, settings.pod_data)
        log.info("pod.slots", extra={"slots": count, "gpus": len(devices), "boot": boot})
        return Supervisor(slots, starter(command, environ, lock), clock, stop).run()


def own_command() -> list[str]:
    """Return the command that starts this program again."""
    return [sys.executable, "-m", "pod_worker", *sys.argv[1:]]


def _take_share(share: str, devices: list[str]) -> list[str]:
    """Own one part of the machine's devices, as one of several workers; they share what cannot be divided."""
    owned = share_of(share, devices)
    if owned is None:
        if devices:
            why = f"{SHARE} is {share[:100]}, by which {len(devices)} GPUs cannot be divided"
            log.warning("start.gpus_shared", extra={"why": why})
        return []
    os.environ[VARIABLE] = ",".join(owned)
    return owned


def _devices(settings: Settings) -> list[str]:
    """Return the UUIDs of the pod's devices; none are looked up where one slot has all of them."""
    if settings.slots == 1 and SHARE not in settings.environ:
        return []
    from pod_worker.machine.gpu import device_names, open_driver

    return device_names(open_driver(named=settings.environ.get(VARIABLE)))


def _log_options(settings: Settings) -> LogOptions:
    slot = None if settings.slot is None else settings.slot.number
    return LogOptions(secrets=settings.secrets, slot=slot)


def leave(settings: Settings, undelivered: int | bool, stop: threading.Event) -> None:
    """Do what was asked for where a worker has left for good.

    A pod that still has `undelivered` events is not ended: its worker, started again, delivers them first.
    """
    if settings.on_leave == "exit" or (settings.rental is not None and undelivered):
        return
    if settings.rental is not None:
        from pod_worker.rental.end import end

        end(settings.rental, stop, SystemClock())
    stop.wait()


def is_alone(settings: Settings) -> bool:
    """Say whether a worker has no key, no database, and no control plane that answers.

    Then `podfleet up` has not started yet; it writes the key into its folder when it does.
    """
    if settings.api_key is not None or settings.mongodb_url is not None:
        return False
    parts = urlsplit(settings.control_plane_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S):
            return False
    except OSError:
        return True


def confine(settings: Settings) -> tuple[Confinement | None, str]:
    """Return the confinement of pipelines (None if there is none), and a description of it.

    Both are logged, with the reason.
    """
    environ = allowed(settings.environ)
    gaps = []
    for confinement in _ways(settings, environ):
        if (gap := confinement.find_gap(environ)) is None:
            words = WORDS[confinement.method]
            log.info("start.confined", extra={"pipelines": f"have {words}"})
            return confinement, words
        gaps.append(gap if confinement.method == "user" else f"{confinement.method}: {gap}")
    why = "; ".join(gaps)
    log.warning("start.unconfined", extra={"pipelines": f"have {THE_WORKERS}", "why": why})
    return None, f"{THE_WORKERS}: {why}"


def _ways(settings: Settings, environ: Mapping[str, str]) -> list[Confinement]:
    """Return the methods of confinement to try, best first."""
    pod = settings.pod_data
    for each in (pod / TREES, pod / ENVIRONMENTS):  # the names of the folders below are secrets
        each.mkdir(mode=0o711, parents=True, exist_ok=True)
    if settings.data != pod:
        (pod / SLOTS).mkdir(mode=0o711, exist_ok=True)
    folders_of_packages = index_settings(settings.environ).folders
    environ = {**environ, PACKAGES: os.pathsep.join(folders_of_packages)}
    if os.getuid() == 0:
        return [Confinement.by_user(settings.data, environ, pod)]
    folders = (Path(), Path(SOURCE))
    fleet = Path(settings.environ.get("PODFLEET_DATA") or FLEET_DATA)
    keys = [fleet, *(each for folder in folders for each in (folder / ".env", *folder.glob(".env?*")))]
    methods: tuple[Method, ...] = ("namespace", "landlock")
    return [Confinement.of_same_user(method, settings.data, environ, keys, pod) for method in methods]


def _wishes() -> Wishes:
    parser = argparse.ArgumentParser(prog="pod_worker", description=__doc__)
    parser.add_argument("--mode", help=f"{', '.join(MODES)} (default: WORKER_MODE, else {DEFAULT_MODE})")
    parser.add_argument("--data", type=Path, help="folder for the outbox and the work in progress")
    parser.add_argument("--max-runs", type=int, metavar="N", help="leave after N runs (each slot)")
    parser.add_argument(
        "--idle-exit", type=float, metavar="S", help="leave after S seconds without a run (each slot)"
    )
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="label that runs may ask for"
    )
    parser.add_argument(
        "--slots",
        metavar="N",
        help="runs at a time, with a share of the GPUs each (default: PODFLEET_SLOTS, else one a GPU)",
    )
    parser.add_argument(
        "--update",
        metavar="EXTRAS",
        help="install what the control plane serves, such as pod,models, and end",
    )
    parser.add_argument("--slot", help=argparse.SUPPRESS)  # which one this is: only we ourselves say that
    arguments = parser.parse_args()
    return Wishes(
        arguments.mode,
        arguments.data,
        arguments.max_runs,
        arguments.idle_exit,
        tuple(arguments.label),
        arguments.slots,
        arguments.slot,
        arguments.update,
    )


def stop_on_signals() -> threading.Event:
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
