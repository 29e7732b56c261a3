"""What the routes and loops are made of, wired once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from control_plane.access.auth import Keyed, Keyless
from control_plane.access.key_ring import KeyRing
from control_plane.access.oidc.entrance import Entrance
from control_plane.access.oidc.grants import Grants
from control_plane.access.oidc.issuer import Issuer
from control_plane.access.run_tokens import RunTokens
from control_plane.access.secrets.encryption import Cipher
from control_plane.access.secrets.vault import Vault
from control_plane.access.sessions import SignIn
from control_plane.concurrency.cache import Cache
from control_plane.concurrency.rate_limit import RateLimit
from control_plane.config import Settings
from control_plane.files.archives.exporter import Exporter
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.inputs import KnownInputs
from control_plane.files.inspection import Inspector
from control_plane.files.multipart import Multipart
from control_plane.files.transfer import send
from control_plane.files.tree_sweeper import TreeSweeper
from control_plane.files.trees import TreeStore
from control_plane.files.uploads.upload_budget import UploadBudget
from control_plane.files.uploads.upload_sweeper import UploadSweeper
from control_plane.live.broadcaster import Broadcaster
from control_plane.live.change_feed import LOG, ChangeFeed
from control_plane.live.live_texts import LiveTexts
from control_plane.live.notifier import Notifier
from control_plane.live.watcher import LogWatcher, Watcher
from control_plane.log import admission
from control_plane.log.admission import Admission
from control_plane.log.byte_budgets import Budgets
from control_plane.log.catch_up import CatchUp
from control_plane.log.ingest import Ingestor
from control_plane.log.ingest_store import together
from control_plane.log.journal_flush import JournalFlush
from control_plane.log.projector import Projector
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.reads.groups import GroupReading
from control_plane.reads.kinds.loops import KindLoops
from control_plane.reads.ledger.reader import Ledgers
from control_plane.reads.numbers import Accounts
from control_plane.reads.pod_rules import PodRules
from control_plane.reads.reading import Reading
from control_plane.reads.results.rows import Results
from control_plane.runs import claiming
from control_plane.runs.boards.boards import Boards
from control_plane.runs.boards.history import Histories
from control_plane.runs.boards.run_table import RunTable
from control_plane.runs.boards.saved import BoardShelf
from control_plane.runs.bulk import Bulk
from control_plane.runs.claiming import Claimer
from control_plane.runs.decisions import Decider
from control_plane.runs.estimate import Estimates
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.importances import Importances
from control_plane.runs.groups.pruner import Pruner
from control_plane.runs.groups.races.reads import RaceReads
from control_plane.runs.groups.races.service import RaceService
from control_plane.runs.groups.service import GroupService
from control_plane.runs.groups.spending import Spending
from control_plane.runs.models.catalogue import Catalogue
from control_plane.runs.models.fetching import Fetcher
from control_plane.runs.models.start_sync import StartSync
from control_plane.runs.pods.looks import PodLooks
from control_plane.runs.pods.resets import PodResets
from control_plane.runs.pods.steering import PodSteering
from control_plane.runs.schedules.scheduler import Scheduler
from control_plane.runs.schedules.service import ScheduleService
from control_plane.runs.submission import Submitter
from control_plane.server import dependencies
from control_plane.server.dependencies import Dependencies
from control_plane.store import database
from control_plane.store.access.audit_log import AuditLog
from control_plane.store.access.keys import Keys
from control_plane.store.access.projects import Projects
from control_plane.store.access.secrets import Secrets
from control_plane.store.access.sessions import Sessions
from control_plane.store.access.usage_levels import UsageLevels
from control_plane.store.catalogue.models import ModelEntries
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.changes import LIVE_TEXTS, STATES, STATES_AND_EVENTS, Changes
from control_plane.store.database import Database
from control_plane.store.files.archives import ArchiveReads
from control_plane.store.files.imports import Imports
from control_plane.store.files.tree_removals import TreeRemovals
from control_plane.store.files.trees import Trees
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.log.deliveries import Deliveries
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.log.held_times import HeldTimes
from control_plane.store.log.inspections import Inspections
from control_plane.store.log.live_texts import LiveTextStore
from control_plane.store.log.notification_sources import NotificationSources
from control_plane.store.log.pod_lives import PodLives
from control_plane.store.log.retention import Retention
from control_plane.store.log.run_removals import RunRemovals
from control_plane.store.log.tombstones import Tombstones
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.log.webhooks import Webhooks
from control_plane.store.numbers import NumberReads
from control_plane.store.pods import Pods
from control_plane.store.queue.attempt_ends import AttemptEnds
from control_plane.store.queue.boards import SavedBoards
from control_plane.store.queue.claims import Claims
from control_plane.store.queue.group_numbers import GroupNumbers
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.pod_rules import RuleStore
from control_plane.store.queue.pruning import PruneReads
from control_plane.store.queue.run_counts import Tallies
from control_plane.store.queue.run_fields import RunFieldReads
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.queue.successors import Successors
from control_plane.store.reads import RunReads
from control_plane.store.results import ResultReads
from control_plane.upkeep.archives.importer import Importer
from control_plane.upkeep.fair_sharer import FairSharer
from control_plane.upkeep.keeping.deleter import Deleter
from control_plane.upkeep.keeping.retainer import Retainer
from control_plane.upkeep.notifications.deliverer import Deliverer
from control_plane.upkeep.notifications.gatherer import Gatherer
from control_plane.upkeep.notifications.mailer import Mailer
from control_plane.upkeep.notifications.sender import Sender
from control_plane.upkeep.notifications.service import WebhookService
from control_plane.upkeep.notifications.usage_watcher import UsageWatcher
from control_plane.upkeep.pod_expirer import PodExpirer
from control_plane.upkeep.quarantiner import Quarantiner
from control_plane.upkeep.releaser import Releaser
from control_plane.upkeep.rescuer import Rescuer
from control_plane.upkeep.spec_sweeper import SpecSweeper
from control_plane.upkeep.sweeper import Sweeper
from control_plane.upkeep.timekeeper import Timekeeper
from events.runtime.clock import Clock, Ids
from events.runtime.measured_clock import MeasuredClock

# Wrong keys from one address: so many at once, then one in so many seconds.
FAILURES_BURST: Final = 20
FAILURE_EVERY_S: Final = 3.0
# Live texts in memory for readers that come back: whole documents, and a minute's worth at their pace.
LIVE_KEPT_MAX: Final = 1_000
LIVE_BACK_S: Final = 15


@dataclass(frozen=True, slots=True)
class LiveParts:
    """What runs show while they run: from pods, in the store, and to readers."""

    texts: LiveTexts
    store: LiveTextStore
    feed: ChangeFeed
    watcher: LogWatcher


@dataclass(frozen=True, slots=True)
class NotificationParts:
    """What tells others of what happened: deliveries are made, and sent."""

    gatherer: Gatherer
    deliverer: Deliverer
    usage: UsageWatcher


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What serves groups: their changes, their reads, and the loops that submit and prune their members."""

    service: GroupService
    reading: GroupReading
    advancer: Advancer
    pruner: Pruner
    importances: Importances


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """Everything that `create_app` needs."""

    settings: Settings
    db: Database
    runs: Runs
    blobs: Blobs
    dependencies: Dependencies
    multipart: Multipart
    inspector: Inspector
    upload_budget: UploadBudget
    authenticator: Keyed
    entrance: Entrance | None  # of users who sign in by an issuer
    key_ring: KeyRing
    vault: Vault
    audit_log: AuditLog
    clock: Clock
    timekeeper: Timekeeper
    ids: Ids
    reading: Reading
    results: Results
    accounts: Accounts
    ledgers: Ledgers
    submitter: Submitter
    decider: Decider
    bulk: Bulk
    ingestor: Ingestor
    budgets: Budgets
    admission: Admission
    sweeper: Sweeper
    catch_up: CatchUp
    releaser: Releaser
    rescuer: Rescuer
    schedules: ScheduleService
    scheduler: Scheduler
    start_sync: StartSync
    groups: GroupParts
    quarantiner: Quarantiner
    upload_sweeper: UploadSweeper
    feed: ChangeFeed
    log_feed: ChangeFeed
    watcher: Watcher
    log_watcher: LogWatcher
    claimer: Claimer
    pod_steering: PodSteering
    pod_looks: PodLooks
    pod_resets: PodResets
    claims_throttle: RateLimit
    broadcaster: Broadcaster
    live: LiveParts
    notifications: NotificationParts

    @property
    def run_table(self) -> RunTable:
        """The list of runs with columns of choice."""
        return RunTable(self.reading, RunFieldReads(self.db))

    @property
    def boards(self) -> Boards:
        """Boards over runs."""
        return Boards(RunFieldReads(self.db))

    @property
    def histories(self) -> Histories:
        """Histories of runs."""
        return Histories(RunFieldReads(self.db))

    @property
    def board_shelf(self) -> BoardShelf:
        """Boards that are saved."""
        return BoardShelf(SavedBoards(self.db))

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue of models."""
        return _catalogue(self.settings, self.db)

    @property
    def exporter(self) -> Exporter:
        """What writes archives of runs."""
        return Exporter(ArchiveReads(self.db), self.blobs, self.db.name)

    @property
    def importer(self) -> Importer:
        """What imports archives of runs."""
        return Importer(Imports(self.db), self.exporter, partial(send, self.blobs), self.clock)

    @property
    def tree_store(self) -> TreeStore:
        """Trees of files, and data sets."""
        return TreeStore(self.blobs, self.inspector, Trees(self.db), TreeRemovals(self.db))

    @property
    def tree_sweeper(self) -> TreeSweeper:
        """What removes trees that nothing names."""
        return TreeSweeper(TreeRemovals(self.db), self.blobs, self.clock, self.ids)

    @property
    def deleter(self) -> Deleter:
        """What deletes runs and hypotheses."""
        return Deleter(
            self.runs, Events(self.db), RunRemovals(self.db), Tombstones(self.db), self.blobs, self.ids
        )

    @property
    def retainer(self) -> Retainer:
        """What carries out the rules of retention."""
        return Retainer(Retention(self.db), self.deleter, self.clock)

    @property
    def pod_expirer(self) -> PodExpirer:
        """What removes the rows of workers that are gone."""
        return PodExpirer(PodLives(self.db), self.clock)

    @property
    def webhooks(self) -> WebhookService:
        """Webhooks, and what is sent to them."""
        cipher, settings = self.notifications.deliverer.cipher, self.settings
        stores = Webhooks(self.db), Deliveries(self.db)
        return WebhookService(*stores, cipher, settings.egress, self.clock, self.ids)

    @property
    def spec_sweeper(self) -> SpecSweeper:
        """What removes specifications without a run."""
        return SpecSweeper(Submissions(self.db))

    @property
    def fair_sharer(self) -> FairSharer:
        """What tells pods whose turn it is."""
        return FairSharer(Projects(self.db), self.settings.share_half_life_s)

    @property
    def races(self) -> RaceReads:
        """Races."""
        return RaceReads(self.reading, Groups(self.db), ResultReads(self.db))

    @property
    def race_service(self) -> RaceService:
        """What makes and checks races."""
        return RaceService(self.groups.service, self.reading, self.clock, self.ids)

    @property
    def estimates(self) -> Estimates:
        """What runs would take."""
        return Estimates(self.reading)

    def on(self, db: Database) -> Deps:
        """Return the same on another connection, for a loop that is not ours."""
        return wire(self.settings, db, self.clock, self.ids)

    async def close(self) -> None:
        """End what it has opened besides its connection: processes, and connections of loops and checks."""
        await self.groups.importances.close()
        await self.groups.advancer.close()
        await self.reading.kind_loops.close()
        await self.dependencies.close()
        await self.notifications.deliverer.close()

    def feed_of(self, wanted: Collection[str]) -> ChangeFeed:
        """Return the feed of these topics."""
        return self.log_feed if any(topic.startswith(LOG) for topic in wanted) else self.feed


def wire(settings: Settings, db: Database, machine: Clock, ids: Ids) -> Deps:
    """Put a control plane together on one database; all of it goes by the store's clock."""
    clock, submissions, schedules = MeasuredClock(machine), Submissions(db), Schedules(db)
    runs, events, documents, counts = Runs(db), Events(db), Documents(db), ByteCounts(db)
    journal_flush = JournalFlush(events, documents, clock, ids)
    projector = Projector(runs, events, documents, journal_flush, clock, ids)
    unnumbered, unclaimed = UnnumberedEvents(runs, events, clock, ids), UnclaimedStore(db)
    unclaimed_lines = UnclaimedLines(unclaimed, runs, events, documents, clock, ids)
    ingest_store, budgets = together(runs, events, projector), _budgets(settings, counts, clock)
    feed, log_feed = ChangeFeed(), ChangeFeed()
    ring, entrance = KeyRing(Keys(db), clock, ids), _entrance(settings, db, clock, ids)
    notifier, new_pods = Notifier(), RateLimit(clock, claiming.NEW_PODS_BURST, claiming.NEW_POD_EVERY_S)
    blobs, url = _blobs(settings, machine), settings.mongodb_url
    multipart = Multipart(blobs.client, blobs.bucket, blobs.puts)
    inspector, pod_rules = Inspector(blobs, Inspections(db), RunReads(db)), PodRules(RuleStore(db), clock)
    reading, inputs = _reading(db, url, pod_rules, clock), _inputs(db, blobs, inspector)
    releaser = Releaser(runs, Successors(db), inputs)
    submitter = Submitter(runs, submissions, ids, RunReads(db), Groups(db), inputs)
    decider, ledgers = Decider(runs, documents, events, inspector, ids, clock), Ledgers(HeldTimes(db), clock)
    grouped = _grouped(db, clock, submitter, decider, ledgers)
    return Deps(
        settings=settings,
        db=db,
        runs=runs,
        blobs=blobs,
        dependencies=_dependencies(settings, blobs, clock),
        multipart=multipart,
        inspector=inspector,
        upload_budget=UploadBudget(counts, clock, settings.artifact_bytes_max),
        authenticator=authenticator(settings, db, ring, clock, ids, entrance),
        entrance=entrance,
        key_ring=ring,
        vault=Vault(Secrets(db), Cipher.of(db.name, settings.secrets_keys)),
        audit_log=AuditLog(db),
        clock=clock,
        timekeeper=Timekeeper(clock, partial(database.moment, db), blobs),
        ids=ids,
        reading=reading,
        results=Results(ResultReads(db), reading),
        accounts=Accounts(NumberReads(db), clock),
        ledgers=ledgers,
        submitter=submitter,
        decider=decider,
        bulk=Bulk(RunReads(db), decider, submitter),
        ingestor=Ingestor(events, documents, unclaimed, unnumbered, ingest_store, budgets, clock, ids),
        budgets=budgets,
        admission=Admission(RateLimit(clock, admission.BURST, admission.EVERY_S)),
        sweeper=Sweeper(runs, journal_flush),
        catch_up=CatchUp(runs, events, unclaimed_lines, projector),
        rescuer=Rescuer(runs, LeaseWatches(db), ids),
        schedules=ScheduleService(schedules, submitter, Groups(db)),
        start_sync=StartSync(_catalogue(settings, db), settings.models_url, ids),
        scheduler=Scheduler(schedules, submitter, grouped.service),
        groups=grouped,
        quarantiner=Quarantiner(RuleStore(db), Pods(db), AttemptEnds(db)),
        upload_sweeper=UploadSweeper(multipart, blobs.clock),
        feed=feed,
        log_feed=log_feed,
        releaser=releaser,
        watcher=Watcher(Changes(db, STATES), feed, notifier, [releaser.hear]),
        log_watcher=LogWatcher(Changes(db, STATES_AND_EVENTS), log_feed),
        claimer=Claimer(Claims(db), pod_rules, notifier, new_pods, clock, ids, Cache(clock)),
        pod_steering=PodSteering(Pods(db), pod_rules, reading),
        pod_looks=PodLooks(Pods(db), clock),
        pod_resets=PodResets(Pods(db), RuleStore(db), reading, AuditLog(db), ids),
        claims_throttle=RateLimit(clock, claiming.BURST, claiming.EVERY_S),
        broadcaster=Broadcaster(RunReads(db)),
        live=_live(db, clock, ids),
        notifications=_notifications(settings, db, clock, ids),
    )


def _blobs(settings: Settings, machine: Clock) -> Blobs:
    return open_blobs(settings.storage, MeasuredClock(machine), public_url=settings.files_url)


def _budgets(settings: Settings, counts: ByteCounts, clock: Clock) -> Budgets:
    return Budgets(counts, clock, settings.event_bytes_max, settings.key_bytes_max)


def _reading(db: Database, url: str, pod_rules: PodRules, clock: Clock) -> Reading:
    return Reading(
        RunReads(db), Tallies(db), Pods(db), Schedules(db), Keys(db), AuditLog(db), pod_rules, clock,
        KindLoops(lambda: database.database(database.connect(url), url)),
    )  # fmt: skip


def _notifications(settings: Settings, db: Database, clock: Clock, ids: Ids) -> NotificationParts:
    hooks, deliveries, cipher = Webhooks(db), Deliveries(db), Cipher.of(db.name, settings.secrets_keys)
    senders = Sender(settings.egress), Mailer(settings.mail)
    return NotificationParts(
        Gatherer(
            *(NotificationSources(db), RuleStore(db), UsageLevels(db), hooks, deliveries, clock),
            settings.site_url,
        ),
        Deliverer(hooks, deliveries, cipher, *senders, clock, ids),
        UsageWatcher(UsageLevels(db), Projects(db), Pods(db)),
    )


def _live(db: Database, clock: Clock, ids: Ids) -> LiveParts:
    store, feed = LiveTextStore(db), ChangeFeed(kept_max=LIVE_KEPT_MAX)
    watcher = LogWatcher(Changes(db, LIVE_TEXTS, whole=True), feed, back_s=LIVE_BACK_S)
    return LiveParts(LiveTexts(store, clock, ids), store, feed, watcher)


def _catalogue(settings: Settings, db: Database) -> Catalogue:
    return Catalogue(ModelEntries(db), Fetcher(settings.egress).fetch)


def _dependencies(settings: Settings, blobs: Blobs, clock: Clock) -> Dependencies:
    url = settings.mongodb_url
    return Dependencies(
        lambda: database.database(database.connect(url, patience_s=dependencies.LIMIT_S), url),
        open_blobs(settings.storage, blobs.clock, is_quick=True),
        clock,
    )


def _inputs(db: Database, blobs: Blobs, inspector: Inspector) -> KnownInputs:
    return KnownInputs(TreeStore(blobs, inspector, Trees(db), TreeRemovals(db)), Runs(db), RunReads(db))


def _grouped(
    db: Database, clock: Clock, submitter: Submitter, decider: Decider, ledgers: Ledgers
) -> GroupParts:
    groups = Groups(db)
    advancer = Advancer(groups, submitter, decider, spending=Spending(groups, ledgers))
    return GroupParts(
        GroupService(groups, submitter, clock),
        GroupReading(groups, GroupNumbers(db)),
        advancer,
        Pruner(PruneReads(db), decider),
        Importances(advancer.proposer, clock),
    )


def authenticator(
    settings: Settings,
    db: Database,
    ring: KeyRing,
    clock: Clock,
    ids: Ids,
    entrance: Entrance | None = None,
) -> Keyed:
    """Return the authenticator: by keys, run tokens and sessions, or keyless."""
    return Keyed(
        ring,
        SignIn(Sessions(db), clock, ids, None if entrance is None else entrance.grants),
        RunTokens(Runs(db), clock),
        RateLimit(clock, FAILURES_BURST, FAILURE_EVERY_S),
        settings.api_key,
        Keyless() if settings.keyless else None,
        entrance,
    )


def _entrance(settings: Settings, db: Database, clock: Clock, ids: Ids) -> Entrance | None:
    """Return where users sign in by the issuer; None where none is set."""
    if settings.oidc is None:
        return None
    store, cipher = Sessions(db), Cipher.of(db.name, settings.secrets_keys)
    issuer = Issuer(settings.oidc, settings.egress, clock)
    return Entrance(issuer, Grants(store, issuer, cipher, clock, ids), store, cipher, clock, ids)
