"""The queue as a pod sees it: which classes wait, claim, renew, settle, report.

Law: every write names `(run, attempt, token)`; matching nothing means the lease is lost.
The claim is one `findOneAndUpdate` that seeks in one index. An error never means "not
applied": a claim whose answer was lost is found again by its token before the next one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pymongo
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

from events import journal
from events.errors import ConfigError, LeaseLost, Transient
from events.guarantees import deployment_of, weak_options, weak_token_index, weaknesses
from events.journal import Decision, Expression, ServerTime
from events.lifecycle import HELD, LEASE_TTL_S, Cause, Failures, Standing, Status
from events.pipe import Note
from events.settlement import End, settle_decision
from events.trace import traceparent_of
from pod_worker.claim import Claim, Orders, WaitingClass
from pod_worker.roster import PodOrders, PodReport

log = logging.getLogger(__name__)

Document = dict[str, Any]

DATABASE_DEFAULT: Final = "podfleet"
CALL_S: Final = 20.0  # the longest that one call may take
CLASSES_MAX: Final = 200
SETTLE_TRIES_MAX: Final = 50
TELEMETRY_KEPT: Final = timedelta(days=14)  # as long as heartbeats
# A cursor or plan that a fail-over killed; the driver names every other case by its class.
KILLED: Final = frozenset({43, 175, 237, 262})
# Strict order inside a class; with the class before it, the claim index.
CLAIM_ORDER: Final = [("priority", -1), ("queuedAt", 1), ("_id", 1)]


def token_hash(token: str) -> str:
    """Return the form in which a token is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


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


def require_guarantees(db: Database[Document], collections: Sequence[str]) -> None:
    """Refuse a store that could give one run to two pods.

    Raises `ConfigError` that lists every reason, `Transient` while nobody answers.
    """
    with _calls():
        try:
            hello = db.client.admin.command("hello")
            indexes = {name: db[name].index_information() for name in collections}
        except OperationFailure as error:
            if _is_outage(error):
                raise
            raise ConfigError([f"MONGODB_URL: the server refuses us: {error.details}"]) from error
        config = _told(db, "replSetGetConfig")
        found = deployment_of(hello, _told(db, "getDefaultRWConcern"), config and config["config"])
    problems = weaknesses(found)
    weak = [(name, weak_token_index(each)) for name, each in indexes.items()]
    missing = [f"collection {name}: {problem}" for name, problem in weak if problem is not None]
    if missing:
        missing.append("run `podfleet migrate` once, with a user that may create indexes")
    if problems or missing:
        raise ConfigError([*problems, *missing])


def _told(db: Database[Document], command: str) -> Document | None:
    """Return the answer to a question that not every user may ask, and not every server knows."""
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

    def waiting(self, collections: Sequence[str]) -> list[WaitingClass]:
        """List the waiting classes, one index seek each, in the order of `collections`."""
        with _calls():
            return [each for name in collections for each in self._classes(name)]

    def _classes(self, collection: str) -> Iterator[WaitingClass]:
        last = ""
        for _ in range(CLASSES_MAX):
            head = self.db[collection].find_one(
                {"status": Status.QUEUED.value, "classKey": {"$gt": last}},
                {"classKey": 1, "priority": 1},
                sort=[("classKey", 1), *CLAIM_ORDER],
            )
            if head is None:
                return
            last = head["classKey"]
            yield WaitingClass(collection, last, head["priority"])

    def claim(self, wanted: WaitingClass, *, token: str, pod: str) -> Claim | None:
        """Take the head of a class: one document, at most two index keys looked at."""
        with _calls():
            document = self.db[wanted.collection].find_one_and_update(
                {"status": Status.QUEUED.value, "classKey": wanted.class_key},
                journal.update(claim_decision(token, pod, self.ttl_s)),
                sort=CLAIM_ORDER,
                return_document=ReturnDocument.AFTER,
            )
            return None if document is None else self._claimed(wanted.collection, document, token)

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find a claim by its token; a write, so that the answer is a majority's."""
        held = [status.value for status in HELD]
        with _calls():
            for name in collections:
                document = self.db[name].find_one_and_update(
                    {"lease.tokenHash": token_hash(token), "status": {"$in": held}},
                    self._extension(),
                    return_document=ReturnDocument.AFTER,
                )
                if document is not None:
                    return self._claimed(name, document, token)
        return None

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease by a whole term from the store's now."""
        held = [status.value for status in HELD]
        with _calls():
            document = self._runs(claim).find_one_and_update(
                {**_owned(claim), "status": {"$in": held}},
                self._extension(),
                projection={"status": 1, "paused": 1, "notes": 1},
                return_document=ReturnDocument.AFTER,
            )
        if document is None:
            raise LeaseLost(claim.run_id, claim.attempt)
        return Orders(
            cancel=document["status"] == Status.CANCELING.value,
            paused=_is_paused(document),
            notes=_notes(document),
        )

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float) -> None:
        """Decide the end by compare-and-set; a run that moved meanwhile is read again."""
        for _ in range(SETTLE_TRIES_MAX):
            with _calls():
                run = self._runs(claim).find_one(_owned(claim))
                if run is None:
                    raise LeaseLost(claim.run_id, claim.attempt)
                if run["settled"] is not None:
                    return
                by = f"{run['claimedBy'] or 'worker'}#a{claim.attempt}"
                decision = settle_decision(_standing(run), claim.attempt, how, last, by=by, jitter=jitter)
                result = self._runs(claim).update_one(
                    {**_owned(claim), "revision": run["revision"]},
                    journal.update(decision),
                )
                if result.matched_count:
                    return
        raise Transient("contended", f"run {claim.run_id} changes too fast to settle")

    def report(self, report: PodReport) -> PodOrders:
        """Write the pod's line of the roster; return what the fleet wants of it."""
        with _calls():
            document = self.db.pods.find_one_and_update(
                {"_id": report.id},
                {
                    "$set": report_fields(report),
                    "$currentDate": {"reportedAt": True},
                    "$setOnInsert": {"orders": {"drain": False}, "startedAt": report.started_at},
                },
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            assert document is not None, "an upsert answers with its document"
            self._sample(report, document["reportedAt"])
        return PodOrders(drain=bool(document["orders"]["drain"]))

    def _sample(self, report: PodReport, at: datetime) -> None:
        """Keep what is in use, by the store's clock: a document an hour, gone after its time."""
        hour = at.replace(minute=0, second=0, microsecond=0)
        used = {name: value for name, value in _camels(asdict(report.telemetry)).items() if value is not None}
        try:
            self.db.pod_telemetry.update_one(
                {"_id": f"{report.id}/{hour:%Y-%m-%dT%H}"},
                {
                    "$push": {"samples": {"at": at, **used}},
                    "$setOnInsert": {"podId": report.id, "from": hour, "expiresAt": hour + TELEMETRY_KEPT},
                },
                upsert=True,
            )
        except PyMongoError as error:  # a sample may be lost; what the fleet wants of the pod may not
            log.warning("pod.sample_dropped", extra={"why": str(error)})

    def _runs(self, claim: Claim) -> Collection[Document]:
        return self.db[claim.collection]

    def _extension(self) -> list[Document]:
        renewed = {
            "until": journal.expression(ServerTime(self.ttl_s)),
            "renewals": {"$add": ["$lease.renewals", 1]},
            # The answer shows the run as it is now: of whatever was decided until now, we hear by it.
            "heard": "$revision",
        }
        return [{"$set": {"lease": {"$mergeObjects": ["$lease", renewed]}}}]

    def _claimed(self, collection: str, document: Document, token: str) -> Claim:
        stored = self.db.run_specs.find_one({"_id": document["_id"]}) or {}
        return Claim(
            collection=collection,
            run_id=document["_id"],
            attempt=document["attempt"],
            token=token,
            kind=document["kind"],
            spec=stored.get("spec", {}),
            hypothesis_id=document["hypothesisId"],
            from_stage=stored.get("fromStage"),
            paused=_is_paused(document),
            notes=_notes(document),
            traceparent=traceparent_of(
                stored.get("traceparent"), f"{document['_id']}/a{document['attempt']}"
            ),
        )


def claim_decision(token: str, pod: str, ttl_s: float) -> Decision:
    """Return the decision by which a pod takes the head of a class."""
    return Decision(
        cause=Cause.CLAIM,
        to=Status.SCHEDULED,
        by=pod,
        sets={
            "attempt": Expression({"$add": ["$attempt", 1]}),
            "claimedBy": pod,
            "claimedAt": ServerTime(),
            "lastEventSeq": 0,
            "currentStage": None,
            "startedAt": None,
            "validation": None,
            "settled": None,
            "error": None,
        },
        silent={
            "lease": {
                "tokenHash": token_hash(token),
                "until": ServerTime(ttl_s),
                "renewals": 0,
                "heard": Expression({"$add": ["$revision", 1]}),
            },
            "logOpen": True,
            "logIncomplete": None,
        },
    )


def report_fields(report: PodReport) -> Document:
    """Return a line of the roster as it is stored."""
    fields = {
        "pod": report.pod,
        "mode": report.mode,
        "region": report.region,
        "kinds": list(report.kinds),
        "state": report.state,
        "runId": report.run_id,
        "attempt": report.attempt,
        "version": report.version,
        "capabilities": {"device": report.device, **asdict(report.capabilities)},
        "telemetry": asdict(report.telemetry),
    }
    return {_camel(name): _camels(value) for name, value in fields.items()}


def _is_paused(run: Mapping[str, Any]) -> bool:
    return bool(run.get("paused"))  # runs from before there were pauses lack it


def _notes(run: Mapping[str, Any]) -> tuple[Note, ...]:
    return tuple(Note(each["number"], each["text"], each["by"]) for each in run.get("notes") or ())


def _owned(claim: Claim) -> Document:
    return {
        "_id": claim.run_id,
        "attempt": claim.attempt,
        "lease.tokenHash": token_hash(claim.token),
    }


def _standing(run: Mapping[str, Any]) -> Standing:
    return Standing(
        status=Status(run["status"]),
        failures=Failures(**run["failures"]),
        max_attempts=run["maxAttempts"],
        review=run["review"] == "human",
    )


@contextmanager
def _calls() -> Iterator[None]:
    """Bound every call inside in time, and say in our words what went wrong."""
    try:
        with pymongo.timeout(CALL_S):
            yield
    except DuplicateKeyError as error:
        raise Transient("claim_in_flight", "an earlier claim with this token landed late") from error
    except PyMongoError as error:
        if _is_outage(error):
            why = f"MongoDB did not answer: {type(error).__name__}"
            raise Transient("mongodb_unreachable", why) from error
        # Only people can mend it, such as a password that changed; the run waits for them all the same.
        raise Transient("mongodb_refuses", f"MongoDB refuses us: {error}") from error


def _is_outage(error: PyMongoError) -> bool:
    """Say whether this is the store's or the network's trouble, and no refusal of what was asked."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout | WriteConcernError):
        return True
    if error.has_error_label("RetryableWriteError"):
        return True
    return isinstance(error, OperationFailure) and error.code in KILLED


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _camels(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_camel(name): _camels(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_camels(each) for each in value]
    return value
