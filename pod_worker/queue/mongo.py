"""The queue directly in MongoDB, for pods that have a user there.

Law: an error never means "not applied". A claim whose answer was lost is found again by its token before
the next one. The statements are built in `events.queue.claims`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pymongo
from bson.int64 import Int64
from pymongo import MongoClient, ReadPreference, ReturnDocument, WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from events.kinds.declaring.queues import Mode, collections
from events.queue import claims, pod_checks, roster, rules
from events.queue.claims import Claim, Orders
from events.queue.fair.shares import FLEET, Shares
from events.queue.lease_times import LEASE_TTL_S
from events.queue.looks import BATCH, Looks, classes_of
from events.queue.matching import Seeker, WaitingClass, candidates, cards_held
from events.queue.requirements import read_class
from events.queue.settlement import End
from events.runtime.clock import Clock, SystemClock
from events.runtime.errors import ConfigError, LeaseLost, Transient
from events.runtime.guarantees import (
    DATABASE_DEFAULT,
    KILLED,
    RESTORE,
    STATE,
    deployment_of,
    weak_options,
    weak_token_index,
    weaknesses,
)
from pod_worker.queue.roster import PodOrders, PodReport, orders_of, report_fields

log = logging.getLogger(__name__)

Document = dict[str, Any]

CALL_S: Final = 20.0  # the longest that one call may take
NOT_ALLOWED: Final = 13


def connect(url: str) -> Database[Document]:
    """Return the database that the URL names, with pinned concerns; it connects at the first call."""
    try:
        parsed = parse_uri(url)
        client: MongoClient[Document] = MongoClient(
            url,
            tz_aware=True,
            retryWrites=True,
            serverSelectionTimeoutMS=int(CALL_S * 1000),
            appname="podfleet-worker",
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError([f"MONGODB_URL is not usable: {error}"]) from error
    if problems := weak_options(parsed["options"]):
        raise ConfigError(problems)
    return client.get_database(
        parsed["database"] or DATABASE_DEFAULT,
        write_concern=WriteConcern("majority", j=True),
        read_concern=ReadConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )


def require_guarantees(db: Database[Document], collections: Sequence[str]) -> datetime:
    """Refuse a store that could give one run to two pods; return its moment.

    Raises `ConfigError` that lists every reason, `Transient` while nobody answers or a backup is restored.
    """
    require_whole(db)
    with _calls():
        try:
            hello = db.client.admin.command("hello")
            indexes = {name: db[name].index_information() for name in collections}
        except OperationFailure as error:
            if _is_outage(error):
                raise
            raise ConfigError([f"MONGODB_URL: the server refuses the connection: {error.details}"]) from error
        config = _answer_to(db, "replSetGetConfig")
        found = deployment_of(hello, _answer_to(db, "getDefaultRWConcern"), config and config["config"])
    problems = weaknesses(found)
    weak = [(name, weak_token_index(each)) for name, each in indexes.items()]
    missing = [f"collection {name}: {problem}" for name, problem in weak if problem is not None]
    if missing:
        missing.append("run `podfleet migrate` once, with a user that may create indexes")
    if problems or missing:
        raise ConfigError([*problems, *missing])
    now: datetime = hello["localTime"]  # commands are read without a time zone
    return now.replace(tzinfo=UTC)


def require_whole(db: Database[Document]) -> None:
    """Raise `Transient` while a backup is restored: what the store lacks by then says nothing of a run."""
    with _calls():
        try:
            mark = db[STATE].find_one({"_id": RESTORE})
        except OperationFailure as error:
            if error.code != NOT_ALLOWED:
                raise
            log.info(
                "restore.not_told", extra={"code": error.code}
            )  # the user has an earlier form of the role
            return
    if mark is not None:
        raise Transient("restoring", "the store is being restored: nothing is claimed until that is over")


def _answer_to(db: Database[Document], command: str) -> Document | None:
    """Return the answer to a command, None if the user may not run it or the server lacks it."""
    try:
        answer: Document = db.client.admin.command(command)
    except OperationFailure as error:
        if _is_outage(error):
            raise
        log.info("mongodb.not_told", extra={"command": command, "code": error.code})
        return None
    return answer


@dataclass(frozen=True, slots=True)
class MongoQueue:
    """The queue straight in MongoDB."""

    db: Database[Document]
    ttl_s: float = LEASE_TTL_S
    clock: Clock = field(default_factory=SystemClock)
    looks: Looks = field(default_factory=Looks)
    shares: Shares = field(default_factory=Shares)

    def check(self, mode: Mode) -> datetime:
        """Refuse a store that could give one run to two pods; return its moment.

        Raises `ConfigError`, `Transient`.
        """
        return require_guarantees(self.db, collections(mode))

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        """Take the head of the first class that has one and that the pod can serve.

        Raises `Transient`, also while a backup is restored: the mark is looked at with the shares, and the
        runs of a restored store appear last, so that a claim between two looks takes one that is whole.
        """

        def first_of(waiting: Sequence[WaitingClass]) -> Claim | None:
            for each in candidates(waiting, seeker, self._shares()) if waiting else ():
                if (claim := self.take(each, token=token, pod=seeker.pod)) is not None:
                    cards = cards_held(each.class_key, seeker.abilities.cards)
                    self.shares.note(read_class(each.class_key).project, cards, self.clock.monotonic_s())
                    return claim
            return None

        return first_of(known) or first_of(self._narrow(seeker)) or first_of(self._whole(seeker))

    def waiting(self, collections: Sequence[str], pod: str | None = None) -> list[WaitingClass]:
        """List the waiting classes in the order of `collections`, with those of a pod's pins."""
        found = []
        with _calls():
            for name in collections:
                cursor = self.db[name].aggregate(self.looks.whole(name, pod), batchSize=BATCH)
                seen = classes_of(name, cursor)
                self.looks.note(name, seen)
                found += seen
        return found

    def _shares(self) -> Shares:
        """Return the shares of projects, read at most once a second; none where they cannot be read."""
        now_s = self.clock.monotonic_s()
        if not self.shares.is_fresh(now_s):
            require_whole(self.db)
            try:
                with pymongo.timeout(CALL_S):
                    document = self.db.shares.find_one({"_id": FLEET})
            except PyMongoError as error:  # a claim does without: they are no part of its correctness
                log.info("shares.not_read", extra={"why": str(error)})
                document = None
            self.shares.read(document, now_s)
        return self.shares

    def _whole(self, seeker: Seeker) -> list[WaitingClass]:
        waiting = self.waiting(collections(seeker.mode), seeker.abilities.pod)
        self.looks.remember(seeker, waiting, self.clock.monotonic_s())
        return waiting

    def _narrow(self, seeker: Seeker) -> list[WaitingClass]:
        with _calls():
            return [
                each
                for name, pipeline in self.looks.narrow(seeker, self.clock.monotonic_s())
                for each in classes_of(name, self.db[name].aggregate(pipeline, batchSize=BATCH))
            ]

    def take(self, wanted: WaitingClass, *, token: str, pod: str) -> Claim | None:
        """Take the head of a class: one document, at most two index keys looked at."""
        with _calls():
            document = self.db[wanted.collection].find_one_and_update(
                claims.waiting_in(wanted, pod),
                claims.taking(token, pod, self.ttl_s),
                sort=claims.CLAIM_ORDER,
                return_document=ReturnDocument.AFTER,
            )
            return None if document is None else self._claimed(wanted.collection, document, token)

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find a claim by its token; a write, so that the answer is a majority's."""
        with _calls():
            for name in collections:
                document = self.db[name].find_one_and_update(
                    claims.claimed_with(token),
                    claims.extension(self.ttl_s),
                    return_document=ReturnDocument.AFTER,
                )
                if document is not None:
                    return self._claimed(name, document, token)
        require_whole(self.db)
        return None

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease by a whole term from the store's now."""
        with _calls():
            document = self._runs(claim).find_one_and_update(
                claims.held(claim.run_id, claim.attempt, claim.token),
                claims.extension(self.ttl_s),
                projection=claims.ORDERS,
                return_document=ReturnDocument.AFTER,
            )
        if document is None:
            require_whole(self.db)
            raise LeaseLost(claim.attempt_id)
        return claims.orders_of(document, extended_s=self.ttl_s)

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        """Decide the end by compare-and-set; a run that moved meanwhile is read again."""
        own = claims.owned(claim.run_id, claim.attempt, claim.token)
        for _ in range(claims.SETTLE_TRIES_MAX):
            with _calls():
                run = self._runs(claim).find_one(own)
                if run is None:
                    require_whole(self.db)
                    raise LeaseLost(claim.attempt_id)
                if run["settled"] is not None:
                    return
                decided = claims.settling(run, how, last, jitter=jitter, root=root)
                result = self._runs(claim).update_one({**own, "revision": run["revision"]}, decided)
                if result.matched_count:
                    return
        raise Transient("contended", f"run {claim.run_id} is changing concurrently; settle it again")

    def report(self, report: PodReport) -> PodOrders:
        """Write the pod's entry in the roster; return the orders for the pod."""
        fields = report_fields(report)
        with _calls():
            document = self.db.pods.find_one_and_update(
                {"_id": report.id},
                roster.line(fields, report.started_at),
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            assert document is not None, "an upsert answers with its document"
            self._sample(report.id, document["reportedAt"], fields["telemetry"])
            suspected = self._suspects(report.id, document["reportedAt"]) if report.checks else ()
            name = rules.pod_name(report.id)
            cordon = rules.cordon_at(self.db.cordons.find_one({"_id": name}), document["reportedAt"])
            quarantines = self.db.quarantines.find_one(rules.naming(name))
        now = document["reportedAt"]
        quarantine = rules.quarantine_of(quarantines, name, document.get("keyId"))
        own, every_s = document["orders"], roster.report_every_s(document)
        return orders_of(own, cordon, quarantine, suspected, now, every_s, roster.resets_due(document))

    def _suspects(self, pod_id: str, now: datetime) -> tuple[str, ...]:
        wanted, fields = pod_checks.failing(now)
        found = self.db.pods.find(wanted, fields).sort("reportedAt", -1).limit(pod_checks.PODS_MAX)
        return pod_checks.suspects(found, of=pod_id)

    def _sample(self, pod_id: str, at: datetime, telemetry: Mapping[str, Any]) -> None:
        """Store a sample of the telemetry, by the store's clock."""
        hour, update = roster.sample(pod_id, at, telemetry)
        try:
            self.db.pod_telemetry.update_one(hour, update, upsert=True)
        except PyMongoError as error:  # a sample may be lost; what the fleet wants of the pod may not
            log.warning("pod.sample_dropped", extra={"why": str(error)})

    def _runs(self, claim: Claim) -> Collection[Document]:
        return self.db[claim.collection]

    def _claimed(self, collection: str, document: Document, token: str) -> Claim:
        stored = _plain(self.db.run_specs.find_one({"_id": document["_id"]}))
        return claims.claim_of(document, stored, collection=collection, token=token, lease_s=self.ttl_s)


def _plain(value: Any) -> Any:
    """Return a document with whole numbers as `int`: no JSON is made of the driver's own type."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case Int64():
            return int(value)
    return value


@contextmanager
def _calls() -> Iterator[None]:
    """Bound the time of every call inside, and translate the driver's errors."""
    try:
        with pymongo.timeout(CALL_S):
            yield
    except DuplicateKeyError as error:
        raise Transient("claim_in_flight", "an earlier claim with this token was applied late") from error
    except PyMongoError as error:
        if _is_outage(error):
            why = f"MongoDB did not answer: {type(error).__name__}"
            raise Transient("mongodb_unreachable", why) from error
        # Only people can mend it, such as a password that changed; the run waits for them all the same.
        raise Transient("mongodb_refuses", f"MongoDB refuses the request: {error}") from error


def _is_outage(error: PyMongoError) -> bool:
    """Say whether an error comes from the store or the network, and is not a refusal."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout | WriteConcernError):
        return True
    if error.has_error_label("RetryableWriteError"):
        return True
    return isinstance(error, OperationFailure) and error.code in KILLED
