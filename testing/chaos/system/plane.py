"""A control plane of chosen parts, with its rescuer on a short lease."""

from __future__ import annotations

from dataclasses import dataclass, replace

from control_plane.log.byte_budgets import Budgets
from control_plane.log.catch_up import CatchUp
from control_plane.log.ingest import Ingestor
from control_plane.log.ingest_store import together
from control_plane.log.journal_flush import JournalFlush
from control_plane.log.projector import Projector
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.runs.decisions import Decider
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.service import GroupService
from control_plane.runs.submission import Submitter
from control_plane.server.deps import Deps
from control_plane.store.database import Database
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.log.documents import Documents
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.reads import RunReads
from control_plane.upkeep.rescuer import Rescuer
from control_plane.upkeep.sweeper import Sweeper
from events.runtime.clock import Clock, Ids
from testing.chaos.bugs import Parts
from testing.simulation.actors.replicas import NoFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the background loops of a drill wait."""

    ttl_s: float
    gap_max_s: float
    log_grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The parts of a control plane on which its promises rest."""

    runs: Runs
    documents: Documents
    projector: Projector
    ingestor: Ingestor
    submitter: Submitter
    sweeper: Sweeper
    catch_up: CatchUp
    rescuer: Rescuer
    decider: Decider
    groups: GroupService
    advancer: Advancer


def build(
    db: Database,
    parts: Parts,
    patience: Patience,
    clock: Clock,
    ids: Ids,
    *,
    runs: Runs | None = None,
    documents: Documents | None = None,
) -> Plane:
    """Put `parts` together on a database; `runs` and `documents` stand in for the usual ones."""
    if parts.write_concern is not None:
        db = db.client.get_database(db.name, write_concern=parts.write_concern)
    runs = runs or parts.runs(db)
    events, documents = parts.events(db), documents or Documents(db)
    journal_flush = JournalFlush(events, documents, clock, ids)
    projector = parts.projector(runs, events, documents, journal_flush, clock, ids)
    unnumbered = UnnumberedEvents(runs, events, clock, ids)
    unclaimed = UnclaimedStore(db)
    unclaimed_lines = UnclaimedLines(unclaimed, runs, events, documents, clock, ids)
    ingest_store = together(runs, events, projector)
    budgets = Budgets(ByteCounts(db), clock)
    groups = parts.groups(db)
    submitter = Submitter(runs, Submissions(db), ids, RunReads(db), groups)
    decider = Decider(runs, documents, events, NoFiles(), ids, clock)
    return Plane(
        runs=runs,
        documents=documents,
        projector=projector,
        ingestor=Ingestor(events, documents, unclaimed, unnumbered, ingest_store, budgets, clock, ids),
        submitter=submitter,
        sweeper=Sweeper(runs, journal_flush),
        catch_up=CatchUp(runs, events, unclaimed_lines, projector, log_grace_s=patience.log_grace_s),
        rescuer=Rescuer(runs, LeaseWatches(db), ids, patience.ttl_s, patience.gap_max_s),
        decider=decider,
        groups=GroupService(groups, submitter, clock),
        advancer=Advancer(groups, submitter, decider),
    )


def rewired(deps: Deps, plane: Plane) -> Deps:
    """Return the dependencies of a control plane with these parts in their places."""
    return replace(
        deps,
        runs=plane.runs,
        ingestor=plane.ingestor,
        submitter=plane.submitter,
        sweeper=plane.sweeper,
        catch_up=plane.catch_up,
        rescuer=plane.rescuer,
        decider=plane.decider,
        groups=replace(deps.groups, service=plane.groups, advancer=plane.advancer),
    )
