"""Claims: the request of a pod, the result, and the statements by which it takes a run, pure.

Law: every write names `(run, attempt, token)`; no matched document means that the lease is lost. The claim
is one update that seeks in one index. Pods with a database execute these statements themselves, control
planes execute them for the others. Both build them here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from events.lifecycle import HELD, Cause, Failures, Fault, PastFault, Standing, Status
from events.queue import journal
from events.queue.faults import boot_of, place_of
from events.queue.journal import Decision, Expression, ServerTime
from events.queue.lease_times import LEASE_TTL_S, held_s
from events.queue.matching import WaitingClass
from events.queue.notes import Note
from events.queue.settlement import End, settle_decision
from events.text.attempt_id import AttemptId
from events.text.key_text import digest, run_token
from events.text.trace import traceparent_of

Document = dict[str, Any]

# Strict order inside a class; with the class before it, the claim index.
CLAIM_ORDER: Final = [("priority", -1), ("queuedAt", 1), ("_id", 1)]
SETTLE_TRIES_MAX: Final = 50
# The fields that orders are read from; `until` of a lease that was extended tells the store's moment.
ORDERS: Final = dict.fromkeys(
    ("status", "attempt", "paused", "notes", "startAt", "node", "preempt", "lease.until"), 1
)
_HELD: Final = {"$in": [status.value for status in HELD]}


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that is ours for `lease_s` from each renewal: the attempt is our term, the token our proof.

    `from_stage` is where a retry of a part begins; `paused` and `notes` are what people wanted
    of the run before this attempt; `traceparent` is the context of this attempt in the run's trace.
    """

    collection: str
    run_id: str
    attempt: int
    token: str = field(repr=False)
    kind: str
    spec: Mapping[str, Any]
    hypothesis_id: str | None
    from_stage: str | None = None
    paused: bool = False
    notes: tuple[Note, ...] = ()
    traceparent: str | None = None
    lease_s: float = LEASE_TTL_S
    secrets: tuple[str, ...] = ()  # names: the values are fetched with the run token
    barrier: bool = False  # whether it waits for the start of its race

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt of which run it belongs to."""
        return AttemptId(self.run_id, self.attempt)

    @property
    def run_token(self) -> str:
        """The token that proves that this worker holds the attempt; it authorises nothing else."""
        return run_token(self.run_id, self.attempt, self.token)

    @property
    def has_past(self) -> bool:
        """Return whether an earlier attempt may have left checkpoints to continue from."""
        return self.attempt > 1 or self.from_stage is not None


@dataclass(frozen=True, slots=True)
class Node:
    """The place of a run in a job of several nodes; the first of these is reached at `address`, HOST:PORT."""

    rank: int
    nodes: int
    address: str


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders for the owner of a run; `notes` are all of them, the oldest first.

    `start_at` is when a lane of a race starts, once that is decided, and a `node` of a job, which is told of
    the others then. One to `preempt` gives its pod back. `now` is the store's moment of the
    answer, None where it is not told.
    """

    cancel: bool = False
    paused: bool = False
    notes: tuple[Note, ...] = ()
    start_at: datetime | None = None
    node: Node | None = None
    preempt: bool = False
    now: datetime | None = None


def waiting_in(wanted: WaitingClass, pod: str) -> Document:
    """Return the filter whose first match, by `CLAIM_ORDER`, is the run of a class that a pod takes next.

    That is the head, without the runs that this pod has failed and leaves to others for a while.
    """
    return {"status": Status.QUEUED.value, "classKey": wanted.class_key, "$expr": _may_take(pod)}


def _may_take(pod: str) -> Document:
    is_here = {"$eq": ["$$this.pod", {"$literal": boot_of(pod)}]}
    left = {"$and": [is_here, {"$gt": ["$$this.until", "$$NOW"]}]}
    return {"$eq": [{"$size": {"$filter": {"input": {"$ifNull": ["$faults", []]}, "cond": left}}}, 0]}


def claimed_with(token: str) -> Document:
    """Return the filter of the run that is held by a claim with this token."""
    return {"lease.tokenHash": digest(token), "status": _HELD}


def owned(run_id: str, attempt: int, token: str) -> Document:
    """Return the filter of a run whose last claim was this one, held or settled."""
    return {"_id": run_id, "attempt": attempt, "lease.tokenHash": digest(token)}


def held(run_id: str, attempt: int, token: str) -> Document:
    """Return the filter of a run that this claim still holds."""
    return {**owned(run_id, attempt, token), "status": _HELD}


def taking(token: str, pod: str, ttl_s: float, *, key_id: str | None = None) -> list[Document]:
    """Return the update by which a pod takes a run, with the key `key_id` where it asked over HTTP."""
    return journal.update(claim_decision(token, pod, ttl_s, key_id=key_id))


def claim_decision(token: str, pod: str, ttl_s: float, *, key_id: str | None = None) -> Decision:
    """Return the decision by which a pod takes the head of a class."""
    attempt = Expression({"$add": ["$attempt", 1]})
    hashed, by = digest(token), {"$literal": key_id}
    opens = {"attempt": attempt.body, "hash": hashed, "keyId": by, "endsAt": None}
    is_open = {"$or": [{"$eq": ["$$this.endsAt", None]}, {"$gt": ["$$this.endsAt", "$$NOW"]}]}
    still_open = {"$filter": {"input": {"$ifNull": ["$tokens", []]}, "cond": is_open}}
    return Decision(
        cause=Cause.CLAIM,
        to=Status.SCHEDULED,
        by=pod,
        sets={
            "attempt": attempt,
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
                "tokenHash": hashed,
                "until": ServerTime(ttl_s),
                "renewals": 0,
                "heard": Expression({"$add": ["$revision", 1]}),
                "ttlS": ttl_s,
            },
            "tokens": Expression({"$concatArrays": [still_open, [opens]]}),
            "logOpen": True,
            "logIncomplete": None,
        },
    )


def extension(ttl_s: float) -> list[Document]:
    """Return the update that extends a lease by a whole term from the store's now."""
    renewed = {
        "until": journal.expression(ServerTime(ttl_s)),
        "renewals": {"$add": ["$lease.renewals", 1]},
        # The answer shows the run as it is now: of whatever was decided until now, we hear by it.
        "heard": "$revision",
    }
    return [{"$set": {"lease": {"$mergeObjects": ["$lease", renewed]}}}]


def orders_of(run: Mapping[str, Any], *, extended_s: float | None = None) -> Orders:
    """Return the orders for the owner of a stored run, whose lease was just extended by `extended_s`."""
    told, wanted = run.get("node"), run.get("preempt")
    is_current = told is not None and told["attempt"] == run["attempt"]
    return Orders(
        cancel=run["status"] == Status.CANCELING.value,
        paused=_is_paused(run),
        notes=_notes(run),
        # each attempt of a node waits for the others anew
        start_at=run.get("startAt") if told is None or is_current else None,
        node=Node(told["rank"], told["nodes"], told["address"]) if told is not None and is_current else None,
        preempt=wanted is not None and wanted["attempt"] == run["attempt"],
        now=None if extended_s is None else run["lease"]["until"] - ServerTime(extended_s).offset,
    )


def claim_of(
    run: Mapping[str, Any], stored: Mapping[str, Any] | None, *, collection: str, token: str, lease_s: float
) -> Claim:
    """Return the claim that took a stored run, whose specification is `stored`."""
    given = stored or {}
    return Claim(
        collection=collection,
        run_id=run["_id"],
        attempt=run["attempt"],
        token=token,
        kind=run["kind"],
        spec=given.get("spec", {}),
        hypothesis_id=run["hypothesisId"],
        from_stage=given.get("fromStage"),
        paused=_is_paused(run),
        notes=_notes(run),
        traceparent=traceparent_of(given.get("traceparent"), f"{run['_id']}/a{run['attempt']}"),
        lease_s=lease_s,
        secrets=tuple(run.get("secrets") or ()),
        barrier=bool(given.get("barrier")),
    )


def settling(
    run: Mapping[str, Any], how: End, last: int, *, jitter: float, root: str | None = None
) -> list[Document]:
    """Return the update by which the owner of a stored run ends its attempt."""
    attempt = run["attempt"]
    by = f"{run['claimedBy'] or 'worker'}#a{attempt}"
    return journal.update(
        settle_decision(standing_of(run), attempt, how, last, by=by, jitter=jitter, root=root)
    )


def standing_of(run: Mapping[str, Any]) -> Standing:
    """Return the part of a stored run on which its end depends."""
    stage, lease = run["currentStage"] or {}, run.get("lease")
    return Standing(
        status=Status(run["status"]),
        failures=Failures(**run["failures"]),
        max_attempts=run["maxAttempts"],
        review=run["review"] == "human",
        pod=boot_of(run["claimedBy"] or ""),
        place=place_of(stage.get("name"), stage.get("progress")),
        past=past_faults(run.get("faults")),
        waits_s=waits_s(run.get("preempt"), run["attempt"]),
        held_s=0.0 if lease is None else held_s(lease["renewals"], lease.get("ttlS", LEASE_TTL_S)),
    )


def waits_s(preempt: Mapping[str, Any] | None, attempt: int) -> float | None:
    """Return how long a run waits after this attempt, where that was ordered to give its pod back."""
    return preempt["waitS"] if preempt is not None and preempt["attempt"] == attempt else None


def past_faults(stored: Iterable[Mapping[str, Any]] | None) -> tuple[PastFault, ...]:
    """Return the failures of a stored run that were not its own; older runs keep none."""
    return tuple(
        PastFault(
            each["pod"],
            each["code"],
            Fault(each["fault"]),
            each["place"],
            each["until"],
            each.get("heldS", 0.0),
        )
        for each in stored or ()
    )


def _is_paused(run: Mapping[str, Any]) -> bool:
    return bool(run.get("paused"))  # runs from before there were pauses lack it


def _notes(run: Mapping[str, Any]) -> tuple[Note, ...]:
    return tuple(Note(each["number"], each["text"], each["by"]) for each in run.get("notes") or ())
