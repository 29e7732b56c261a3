"""Builds one worker from its settings, and runs it until it is stopped.

What is said to others is said by the store's clock. A lease is trusted by the machine's two clocks, of which
one goes on while the machine is paused (see `Instant`).

Law: the program exits at most `LEAVE_S` after the first signal, even if the network fails. Unsent events
stay in its outbox, and runs that it did not release are rescued. A worker that leaves by itself delivers its
events first: its disk may go with it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import httpx

from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.delivery.ingest_client import HttpIngest
from events.delivery.outbox import Outbox
from events.delivery.sender import Sender, Telemetry
from events.kinds.declaring.queues import Mode
from events.models.endpoints import endpoints
from events.models.visible_devices import VARIABLE
from events.queue.labels import own_labels
from events.queue.lease_times import LEASE_TTL_S, RENEW_EVERY_S
from events.queue.roster import REPORT_EVERY_S
from events.runtime.clock import Clock, Ids, SystemClock, SystemIds
from events.runtime.errors import Transient
from events.runtime.loops import Threads, run_every, start_thread
from events.runtime.measured_clock import MeasuredClock
from events.text.mask import Mask
from pod_worker.attempt.attempt import Ports
from pod_worker.attempt.environment_use import PodEnvironments
from pod_worker.attempt.live_stream import HttpLive
from pod_worker.attempt.secret_values import HttpSecrets
from pod_worker.attempt.tree_use import PodTrees
from pod_worker.attempt.usage import Rate
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import allowed
from pod_worker.config import Settings
from pod_worker.delivery import delivery_report
from pod_worker.files.checkpoint_restore import HttpCheckpoints
from pod_worker.files.environments import EnvironmentCache
from pod_worker.files.index_settings import index_settings
from pod_worker.files.storage import HttpStorage
from pod_worker.files.trees import TreeCache
from pod_worker.files.upload_registration import OutboxRegistry
from pod_worker.files.uploads import Uploader
from pod_worker.health.checks import Subjects, checks_of, cuda_of
from pod_worker.health.health import Health
from pod_worker.health.storage_look import StorageLook
from pod_worker.isolation.confinement import ENVIRONMENTS, THE_WORKERS, TREES
from pod_worker.isolation.containers import client_environment, remove_containers
from pod_worker.isolation.job_container import MEMORY_PART, PodContainers
from pod_worker.machine.engines import engines_here
from pod_worker.machine.foreign import Family
from pod_worker.machine.gauges import Capabilities, Gauges
from pod_worker.machine.gpu import open_driver
from pod_worker.machine.inventory import InventoryLook, inventory_look
from pod_worker.queue.claim_intent import Intent
from pod_worker.queue.http import HttpQueue
from pod_worker.queue.mongo import MongoQueue, connect
from pod_worker.queue.port import Queue
from pod_worker.queue.roster import Roster
from pod_worker.queue.wakeups import Polls, Wakeups
from pod_worker.services.resetter import Journal, Resetter
from pod_worker.worker import Pauses, Pod, WarmProcess, Worker

log = logging.getLogger(__name__)

FLUSH_S: Final = 1.0  # after a signal
DELIVER_S: Final = 600.0  # where nothing hurries it: after that the control plane gives a short log up
RETRY_S: Final = 2.0
LEAVE_S: Final = 4.7  # one provider kills a pod five seconds after its signal


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The parts of a worker that a fault test can replace."""

    stop: threading.Event = field(default_factory=threading.Event)
    restart: threading.Event = field(default_factory=threading.Event)  # set where it is to be started again
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    threads: Threads = start_thread
    pipeline_user: str = THE_WORKERS
    lease_ttl_s: float = LEASE_TTL_S
    renew_every_s: float = RENEW_EVERY_S
    report_every_s: float = REPORT_EVERY_S
    queue: Callable[[Queue], Queue] = lambda queue: queue
    child: Callable[[WarmProcess], WarmProcess] = lambda child: child
    leave: Callable[[int], object] = os._exit


def serve(settings: Settings, world: World, fork_server: ForkServer) -> int | None:
    """Run one worker until `world.stop` is set, the fleet sends it off, or its limit is reached.

    Where the fleet wants it started again, `world.restart` is set. Returns how many events could not be
    delivered where it left for good, so that nobody is to start it again; None where it did not.
    """
    world.threads("leave", lambda: _leave_in_time(world))  # before anything that may hang
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    client = control_plane_client(settings.control_plane_url, settings.api_key)
    control_plane = ControlPlane(client, world.clock)
    store = _store(settings, control_plane, world)
    stores = MeasuredClock(world.clock)
    if not _is_sound(store, settings.mode, world, stores):
        return None
    queue = world.queue(store)
    inventory = inventory_look(fork_server.options)
    gauges = _gauges(settings, inventory)
    capabilities = gauges.capabilities()
    clock, ids = world.clock, world.ids
    pod = _pod(settings, world, capabilities)
    with Outbox(settings.data / "outbox.db", clock=stores, ids=ids) as outbox:
        spool = Telemetry(clock=stores, ids=ids)
        sender = Sender(outbox, spool, HttpIngest(control_plane), clock, ids)
        tls = httpx.create_ssl_context()  # SSL_CERT_FILE counts: files may come by our address
        storage = httpx.Client(trust_env=False, verify=tls)
        uploads = Uploader(control_plane, HttpStorage(tls), OutboxRegistry(outbox), clock, ids)
        ports = Ports(
            queue=queue,
            outbox=outbox,
            uploads=uploads,
            checkpoints=HttpCheckpoints(control_plane, storage),
            secrets=HttpSecrets(control_plane),
            clock=clock,
            ids=ids,
            threads=world.threads,
            work=settings.data / "work",
            stop=world.stop,
            pod=settings.pod,
            rate=Rate(len(capabilities.gpus), settings.gpu_usd_per_hour),
            stores=stores,
            live=HttpLive(control_plane),
            trees=_trees(settings, control_plane, storage, clock),
            environments=_environments(settings, clock),
            containers=_containers(settings, capabilities),
            address=settings.address.free,
            cards=gauges.watch,
            stray_use=settings.stray_use,
        )
        storage_look = StorageLook(control_plane, tls, settings.pod)
        health = _health(settings, outbox, storage_look, gauges, fork_server, world, stores)
        delivery = delivery_report(outbox, settings.data, uploads.failures, stores)
        gauges.cuda = partial(cuda_of, health)
        roster = Roster(
            store, gauges, spool, _identity(settings, pod, world, stores), stores, delivery,
            tested=health, every_s=world.report_every_s, hurry=health.changed,
        )  # fmt: skip
        roster.resets = _resets(settings, roster, world, stores)
        intent, quiet = Intent(settings.data / "claim.token"), threading.Event()
        pauses = _pauses(store, control_plane, quiet, world)
        spawn = partial(_spawned, world, fork_server)
        worker = Worker(pod, queue, ports, intent, roster, spawn, pauses, health)
        try:
            has_left = _work(worker, sender, health, inventory, quiet, world)
        finally:
            quiet.set()
            health.changed.set()
            uploads.close()
            sender.flush(clock.monotonic_s() + (FLUSH_S if world.stop.is_set() else DELIVER_S))
            _say_goodbye(roster)
        return outbox.pending() if has_left else None


def _spawned(world: World, fork_server: ForkServer) -> WarmProcess:
    return world.child(fork_server.spawn())


def _gauges(settings: Settings, inventory: InventoryLook) -> Gauges:
    """Return what measures the machine, and the worker's own devices of it."""
    driver = open_driver(named=settings.environ.get(VARIABLE))
    services, family = (*sorted(settings.services),), Family.here(settings.slot)
    return Gauges(driver, settings.data, inventory.current, services=services, family=family)


def _trees(settings: Settings, control_plane: ControlPlane, storage: httpx.Client, clock: Clock) -> PodTrees:
    """Return the file trees of this pod."""
    cache = TreeCache(settings.pod_data / TREES, clock, settings.tree_cache_bytes)
    return PodTrees(cache, control_plane, storage, clock)


def _environments(settings: Settings, clock: Clock) -> PodEnvironments:
    """Return the environments of this pod, and where their packages come from."""
    cache = EnvironmentCache(settings.pod_data / ENVIRONMENTS, clock, settings.environment_cache_bytes)
    return PodEnvironments(cache, index_settings(settings.environ))


def _containers(settings: Settings, capabilities: Capabilities) -> PodContainers | None:
    """Return the container runtime of this pod, and the part of the machine that its slot has."""
    if settings.containers is None:
        return None
    if settings.slot is None:  # the outbox is ours: no other worker of this folder has any
        remove_containers(settings.pod, settings.environ, settings.containers)
    named = settings.environ.get(VARIABLE)
    owned = None if named is None else [each for each in map(str.strip, named.split(",")) if each]
    count = 1 if settings.slot is None else settings.slot.count
    return PodContainers(
        client=settings.containers,
        pod=settings.pod,
        slot=settings.place,
        environ=client_environment(settings.environ),
        devices=(owned or []) if capabilities.gpus and owned != [] else None,
        memory_bytes=int(capabilities.memory_mib * MEMORY_PART / count) << 20,
    )


def _pod(settings: Settings, world: World, capabilities: Capabilities) -> Pod:
    """Return what the worker says of itself when it claims."""
    slot = settings.slot
    return Pod(
        id=f"{settings.pod}/{world.ids.token()[:6] if slot is None else f'{slot.boot}/{slot.number}'}",
        mode=settings.mode,
        region=settings.region,
        gpu_gib=max((gpu.memory_mib for gpu in capabilities.gpus), default=0.0) / 1024,
        labels=labels_of(capabilities, settings),
        renew_every_s=world.renew_every_s,
        runs_max=settings.runs_max,
        idle_exit_s=settings.idle_exit_s,
    )


def labels_of(capabilities: Capabilities, settings: Settings) -> dict[str, str]:
    """Return the labels of the pod: its operator's, and what it says of itself."""
    own = own_labels(
        gpus=[(gpu.name, gpu.memory_mib) for gpu in capabilities.gpus],
        cpus=capabilities.cpus,
        memory_mib=capabilities.memory_mib,
        disk_mib=capabilities.disk_mib,
        driver=capabilities.driver,
        region=settings.region,
        engines=engines_here(settings.environ),
        endpoints=[*endpoints(settings.environ)],
        has_containers=settings.containers is not None,
    )
    return {**settings.labels, **own}


def _identity(settings: Settings, pod: Pod, world: World, stores: MeasuredClock) -> dict[str, Any]:
    """Return the part of a report that stays the same."""
    return {
        "id": pod.id,
        "pod": settings.pod,
        "mode": settings.mode,
        "region": settings.region,
        "labels": pod.labels,
        "isolation": settings.isolation,
        "pipeline_user": world.pipeline_user,
        "version": version("podfleet"),
        "started_at": stores.now(),
        "usd_per_hour": settings.gpu_usd_per_hour,
    }


def _work(
    worker: Worker, sender: Sender, health: Health, look: InventoryLook, quiet: threading.Event, world: World
) -> bool:
    """Run the worker beside its loops; return whether it left for good, and note whether it is to restart."""
    roster, loop = worker.roster, partial(run_every, stop=quiet, clock=world.clock)
    report = partial(loop, roster.pause_s, roster.run_once)
    world.threads("inventory", lambda: look.run(quiet, world.clock, roster.hurry.set))
    world.threads("health", lambda: health.run(quiet))
    world.threads("sender", lambda: sender.run(quiet, worker.heed))
    world.threads("roster", partial(report, hurry=health.changed))
    has_left = worker.run()
    if roster.restarted and not world.stop.is_set():
        world.restart.set()
    return has_left


def _resets(settings: Settings, roster: Roster, world: World, stores: MeasuredClock) -> Resetter:
    """Return what resets the services that the operator of this pod allows."""
    return Resetter(
        services=settings.services,
        journal=Journal(settings.data / "resets.json"),
        environ=allowed(settings.environ),
        mask=Mask(settings.secrets),
        clock=world.clock,
        threads=world.threads,
        now=stores.now,
        is_busy=lambda: roster.standing.has_claimed,
        claiming=roster.claiming,
        tell=roster.hurry.set,
    )


def _store(settings: Settings, control_plane: ControlPlane, world: World) -> MongoQueue | HttpQueue:
    """Return the queue: MongoDB for a pod that has a user there, else the control plane's HTTP interface."""
    if settings.mongodb_url is None:
        return HttpQueue(control_plane)
    return MongoQueue(connect(settings.mongodb_url), ttl_s=world.lease_ttl_s, clock=world.clock)


def _health(
    settings: Settings,
    outbox: Outbox,
    storage: StorageLook,
    gauges: Gauges,
    fork_server: ForkServer,
    world: World,
    stores: MeasuredClock,
) -> Health:
    """Return the checks of this pod."""
    subjects = Subjects(
        data=settings.data,
        check_room=outbox.check_room,
        environ=settings.environ,
        options=fork_server.options,
        storage=storage,
        has_gpu=bool(gauges.driver.gpus()),
        clock_offset_s=lambda: stores.machine_ahead_s,
        card_faults=None if settings.slot is None else gauges.watch.faults,
    )
    return Health(checks_of(subjects), world.clock, world.threads)


def _pauses(
    store: MongoQueue | HttpQueue, control_plane: ControlPlane, quiet: threading.Event, world: World
) -> Pauses:
    """Return the wake-up by the control plane for a worker that claims from MongoDB; others long-poll."""
    if isinstance(store, HttpQueue):
        return Polls(world.clock)
    wakeups = Wakeups(control_plane, world.clock)
    world.threads("wakeups", lambda: wakeups.run(quiet))
    return wakeups


def _is_sound(store: MongoQueue | HttpQueue, mode: Mode, world: World, clock: MeasuredClock) -> bool:
    """Check the store, and measure its clock, before the first claim; False if stopped before it answered."""
    while not world.stop.is_set():
        asked_s = clock.monotonic_s()
        try:
            now = store.check(mode)
        except Transient as error:
            log.warning("start.waits", extra={"code": error.code, "why": error.message})
            world.clock.wait(world.stop, RETRY_S)
        else:
            if now is not None:
                clock.note(now, asked_s=asked_s)
            return True
    return False


def _say_goodbye(roster: Roster) -> None:
    try:
        roster.run_once()
    except Transient as error:
        log.warning("pod.left_unsaid", extra={"code": error.code, "why": error.message})


def _leave_in_time(world: World) -> None:
    """End the process if an orderly stop takes too long: any call may hang when the network fails."""
    never = threading.Event()
    while not world.clock.wait(world.stop, LEAVE_S):
        pass
    world.clock.wait(never, LEAVE_S)
    log.warning("stop.cut_short", extra={"after_s": LEAVE_S})
    world.leave(0)
