"""Which classes of the product a history is made of: the real ones, unless a bug is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from control_plane.log.ingest import Ingestor
from control_plane.log.projector import Projector
from control_plane.runs.groups.advancer import Advancer
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.pods import Pods
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.runs import Runs
from events.delivery.sender import Ingest
from events.runtime.clock import Clock
from events.runtime.measured_clock import MeasuredClock
from pod_worker.queue.claim_intent import Intent
from pod_worker.queue.mongo import MongoQueue
from testing.simulation.ledger import WitnessedOutbox
from testing.simulation.store.replica_set import ReplicaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The parts that can be exchanged for broken ones."""

    runs: Callable[..., Runs] = Runs
    groups: Callable[..., Groups] = Groups
    advancer: Callable[..., Advancer] = Advancer
    events: Callable[..., Events] = Events
    documents: Callable[..., Documents] = Documents
    roster: Callable[..., Pods] = Pods
    ingestor: Callable[..., Ingestor] = Ingestor
    projector: Callable[..., Projector] = Projector
    queue: Callable[..., MongoQueue] = MongoQueue
    intent: Callable[..., Intent] = Intent
    outbox: Callable[..., WitnessedOutbox] = WitnessedOutbox
    clock: Callable[[Clock], MeasuredClock] = MeasuredClock
    ingest: Callable[[Ingest], Ingest] = lambda ingest: ingest
    servers: Callable[..., ReplicaSet] = ReplicaSet
