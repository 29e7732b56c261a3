"""The invariants of every run: one function for each, pure.

Each reads the evidence and returns descriptions of violations, with the values. States that a healthy fleet
has for a moment are no violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from control_plane.model.ownership import strangers
from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.projection import artifact_prefix
from control_plane.model.run import Entry
from control_plane.store.verify.evidence import Evidence, readable
from control_plane.verify.refusals import wrongly_refused
from control_plane.verify.replay import Replayed
from events.envelope import content_hash
from events.lifecycle import FINAL, HELD, INITIAL, TRANSITIONS, Cause, Fault, Status
from events.queue.lease_times import LEASE_TTL_S

JOURNAL_GRACE: Final = timedelta(minutes=1)
GAP_GRACE: Final = timedelta(minutes=2)
BUDGETS: Final = {Fault.RUN: "app", Fault.POD: "infra", Fault.OUTSIDE: "outside"}
WATCH_GRACE: Final = timedelta(seconds=60)  # in which a control plane looks many times


@dataclass(frozen=True, slots=True)
class Case:
    """A run's evidence, and the replay of its log."""

    evidence: Evidence
    replayed: Replayed


def status_path(case: Case) -> Iterator[str]:
    """Every decision is a row of the transition table, and follows from the one before."""
    for entry in case.evidence.decisions:
        if (problem := _illegal(entry)) is not None:
            yield problem
    yield from case.replayed.contradictions


def _illegal(entry: Entry) -> str | None:
    if entry.cause == Cause.SUBMIT:
        is_legal = entry.came_from is None and entry.to in INITIAL
    elif entry.cause not in set(Cause) or entry.came_from not in set(Status):
        is_legal = False
    else:
        targets = TRANSITIONS[Cause(entry.cause)].get(Status(entry.came_from), ())
        is_legal = entry.to in targets
    return (
        None if is_legal else f"decision {entry.n} ({entry.cause}) led from {entry.came_from} to {entry.to}"
    )


def final_status_changed(case: Case) -> Iterator[str]:
    """A final status does not change, unless a person revised the verdict."""
    final: Entry | None = None
    for entry in case.evidence.decisions:
        is_revised = final is not None and entry.cause == Cause.REVISE
        if final is not None and entry.to != final.to and not is_revised:
            yield f"decision {final.n} ended the run as {final.to}, decision {entry.n} made it {entry.to}"
        if entry.to in FINAL and (final is None or is_revised):
            final = entry
    status = case.evidence.run["status"]
    if final is not None and status != final.to:
        yield f"decision {final.n} ended the run as {final.to}, stored is {status}"


def status_unexplained(case: Case) -> Iterator[str]:
    """The stored status is the one that follows from the log."""
    replayed, stored = case.replayed.fields.get("status"), case.evidence.run["status"]
    if replayed != stored:
        yield f"stored is {stored}, the log leads to {replayed}"


def two_owners(case: Case) -> Iterator[str]:
    """An attempt is claimed only after the previous one has ended or was rescued."""
    owner: int | None = None
    claims: set[int] = set()
    for entry in case.evidence.decisions:
        if entry.cause == Cause.CLAIM:
            attempt = int(entry.sets.get("attempt") or 0)
            if owner is not None:
                yield f"attempt {attempt} was claimed while attempt {owner} owned the run"
            if attempt in claims:
                yield f"attempt {attempt} was claimed twice"
            owner = attempt
            claims.add(attempt)
        elif entry.cause.startswith("end: ") or entry.cause == Cause.RESCUE:
            owner = None
    for document in case.evidence.attempts:
        if document.get("pod") is not None and document["attempt"] not in claims:
            yield f"attempt {document['attempt']} has the pod {document['pod']}, but nobody claimed it"


def actor_term(case: Case) -> Iterator[str]:
    """A worker decides for its own attempt only."""
    for entry in case.evidence.decisions:
        _, marker, term = entry.by.rpartition("#a")
        if marker and term != str(entry.attempt):
            yield f"decision {entry.n} of attempt {entry.attempt} was made by {entry.by}"


def revision_gap(case: Case) -> Iterator[str]:
    """Decisions are numbered without a gap, up to the run's revision."""
    held = IntervalSet.of((entry.n, entry.n) for entry in case.evidence.decisions)
    revision = case.evidence.run["revision"]
    if missing := held.gaps(0, revision):
        yield f"of {revision} decisions the log lacks {missing}"
    if beyond := held.above(revision):
        yield f"the run is at revision {revision}, the log goes on to {beyond}"


def sequence_gap(case: Case) -> Iterator[str]:
    """The log has all applied events without a gap; events after a gap wait only for a limited time."""
    evidence = case.evidence
    yield from case.replayed.unreached
    cursors = applied_to(evidence)
    for attempt in sorted(set(cursors) | set(evidence.positions)):
        held, applied = evidence.positions.get(attempt, IntervalSet()), cursors.get(attempt, 0)
        if gone := held.gaps(0, applied):
            yield f"attempt {attempt}: events {gone} were applied and are not in the log"
        waits = held.gaps(applied, held.last)
        if waits and is_old_behind(evidence, attempt, waits.spans[0][0]):
            yield (
                f"attempt {attempt}: events {waits} never came, later ones wait behind them: "
                f"`podfleet repair {evidence.run_id}` closes the log"
            )


def applied_to(evidence: Evidence) -> dict[int, int]:
    """Return up to which position the log of each attempt was applied."""
    cursors = {each["attempt"]: each.get("lastEventSeq") or 0 for each in evidence.attempts}
    current = evidence.run["attempt"]
    cursors[current] = max(cursors.get(current, 0), evidence.run["lastEventSeq"])
    return cursors


def is_old_behind(evidence: Evidence, attempt: int, gap: int) -> bool:
    """Say whether an event has waited behind this gap for longer than a pod takes to fill it."""
    behind = [
        each["receivedAt"]
        for each in evidence.numbered
        if each["attempt"] == attempt and each["sequence"] > gap
    ]
    behind += [each.oldest for each in evidence.quiet if each.attempt == attempt and each.last > gap]
    return any(evidence.now - moment > GAP_GRACE for moment in behind)


def not_applied(case: Case) -> Iterator[str]:
    """Events without a gap before them are applied."""
    evidence = case.evidence
    current, cursor = evidence.run["attempt"], evidence.run["lastEventSeq"]
    late = [
        each
        for each in evidence.numbered
        if each["attempt"] == current
        and each["sequence"] == cursor + 1
        and evidence.now - each["receivedAt"] > GAP_GRACE
    ]
    if late and current > 0 and evidence.run.get("sealed") is None:
        yield f"attempt {current}: event {cursor + 1} is in the log and was never applied"


def event_after_end(case: Case) -> Iterator[str]:
    """No event follows the last position that the settle of its attempt named."""
    for entry in case.evidence.decisions:
        settled = entry.sets.get("settled")
        if settled:
            held = case.evidence.positions.get(entry.attempt, IntervalSet())
            beyond = held.above(settled["last"])
            if beyond:
                yield f"attempt {entry.attempt} settled at {settled['last']}, the log holds {beyond}"


def event_tampered(case: Case) -> Iterator[str]:
    """A stored event is unchanged since it was ingested."""
    for document in case.evidence.log:
        event = readable(document) if document.get("hash") else None
        if document.get("hash") and (event is None or content_hash(event) != document["hash"]):
            yield f"event {document['_id']} is not what was taken in"


def seal_broken(case: Case) -> Iterator[str]:
    """The lines that a person's verdict covers have not changed since the verdict."""
    sealed = case.evidence.run.get("sealed") or {}
    root = sealed.get("root")
    if root is not None and root != case.evidence.sealed_root:
        found = case.evidence.sealed_root or "none"
        yield (
            f"events 1 to {sealed['last']} of attempt {sealed['attempt']} are not those that the verdict was "
            f"given on: their root is {found}, and was {root}"
        )


def settle_broken(case: Case) -> Iterator[str]:
    """A complete record contains the lines that its attempt settled with, unless some are told as lost."""
    run = case.evidence.run
    if any(each["attempt"] == run["attempt"] for each in run.get("lostEvents") or ()):
        return
    settled = run["settled"] or {}
    root, last = settled.get("root"), settled.get("last", 0)
    if root is not None and run["lastEventSeq"] >= last and root != case.evidence.settled_root:
        found = case.evidence.settled_root or "none"
        yield (
            f"events 1 to {last} of attempt {run['attempt']} are not those that it settled with: their root "
            f"is {found}, and was {root}"
        )


def journal_stuck(case: Case) -> Iterator[str]:
    """A decision is in the log after a minute."""
    for entry in case.evidence.waiting:
        if case.evidence.now - entry.at > JOURNAL_GRACE:
            yield f"decision {entry.n} ({entry.cause}) of {entry.at:%H:%M:%S} is not in the log"


def lease_leaked(case: Case) -> Iterator[str]:
    """The lease of a held run is renewed or revoked; any other run has no active lease."""
    run = case.evidence.run
    until = (run["lease"] or {}).get("until")
    if run["status"] not in HELD:
        if until is not None:
            yield f"the run is {run['status']}, and its lease runs until {until:%H:%M:%S}"
    elif until is None:
        yield f"the run is {run['status']} without a lease: nobody can take it back"
    elif (why := _unrescued(case.evidence)) is not None:
        yield f"the lease of attempt {run['attempt']} ended at {until:%H:%M:%S}, and {why}"


def _unrescued(evidence: Evidence) -> str | None:
    """Return why a lease that is over should have been taken back; None while nobody served for long enough.

    Judged by the watch that control planes keep over the leases: an outage, however long, is no leak.
    """
    run, watch = evidence.run, evidence.lease_watch
    lease = run["lease"]
    if watch is None or watch.looked_at - lease["until"] <= WATCH_GRACE:
        return None
    seen = watch.overdue.get(evidence.run_id)
    if seen is None or (seen.attempt, seen.renewals) != (run["attempt"], lease.get("renewals")):
        return "control planes that look at leases have not seen it"
    over_s = watch.served_s - seen.since_s - lease.get("ttlS", LEASE_TTL_S)
    if over_s <= WATCH_GRACE.total_seconds():
        return None
    return f"nobody took the run back in {over_s:.0f} s of served time"


def wrong_budget(case: Case) -> Iterator[str]:
    """Each failure is charged once, to the budget of its cause."""
    charged: Counter[str] = Counter(
        budget
        for entry in case.evidence.decisions
        if entry.came_from != Status.CANCELING and (budget := _budget(entry)) is not None
    )
    stored = case.evidence.run["failures"]
    if {budget: count for budget, count in stored.items() if count} != charged:
        yield f"the log charges {dict(charged)}, stored is {dict(stored)}"


def _budget(entry: Entry) -> str | None:
    """Return what a decision is charged to, None for nothing; older ends do not say whose fault they were."""
    match entry.cause:
        case Cause.END_FAILED | Cause.RESCUE:
            usual = Fault.RUN if entry.cause == Cause.END_FAILED else Fault.POD
            return BUDGETS.get((entry.sets.get("error") or {}).get("fault") or usual)
        case Cause.END_PREEMPTED if entry.to == Status.DELAYED:
            return None  # it was ordered, since other nodes of its job are missing
        case Cause.END_PREEMPTED | Cause.END_CANCELED:
            return "preempted"
    return None


def field_without_writer(case: Case) -> Iterator[str]:
    """Every stored field has a writer."""
    evidence = case.evidence
    groups = {
        evidence.collection: [evidence.run], "attempts": evidence.attempts, "stages": evidence.stages,
        "artifacts": evidence.artifacts, "validations": evidence.validations, **evidence.of_kinds,
        "events": evidence.log, "dead_letters": evidence.dead_letters,
    }  # fmt: skip
    for collection, documents in groups.items():
        for document in documents:
            if names := strangers(collection, document):
                yield f"{collection} {document['_id']}: nobody writes {', '.join(names)}"


def artifact_foreign(case: Case) -> Iterator[str]:
    """An artifact's object lies below its own attempt."""
    for artifact in case.evidence.artifacts:
        prefix = artifact_prefix(artifact["runId"], artifact["attempt"])
        if not str(artifact["key"]).startswith(prefix):
            yield f"artifact {artifact['name']} of attempt {artifact['attempt']} lies at {artifact['key']}"


def wrong_refusal(case: Case) -> Iterator[str]:
    """The reason of each refused line is correct."""
    for letter in case.evidence.dead_letters:
        if (problem := wrongly_refused(case.evidence, letter)) is not None:
            yield f"dead letter {letter['_id']} ({letter['code']}): {problem}"


INVARIANTS: Final[Mapping[str, Callable[[Case], Iterator[str]]]] = {
    "status-path": status_path,
    "final-status-changed": final_status_changed,
    "status-unexplained": status_unexplained,
    "two-owners": two_owners,
    "actor-term": actor_term,
    "revision-gap": revision_gap,
    "sequence-gap": sequence_gap,
    "not-applied": not_applied,
    "event-after-end": event_after_end,
    "event-tampered": event_tampered,
    "seal-broken": seal_broken,
    "settle-broken": settle_broken,
    "journal-stuck": journal_stuck,
    "lease-leaked": lease_leaked,
    "wrong-budget": wrong_budget,
    "field-without-writer": field_without_writer,
    "artifact-foreign": artifact_foreign,
    "wrong-refusal": wrong_refusal,
}


def log_incomplete(evidence: Evidence) -> str | None:
    """Return the events that were lost with a disk or a restore; a note, not a violation."""
    mark = evidence.run["logIncomplete"]
    words = [] if mark is None else [f"incomplete, events {mark['from']}–{mark['to']} are missing"]
    words += [
        f"events {each['from']}–{each['to']} of attempt {each['attempt']} are marked as lost"
        for each in evidence.run.get("lostEvents") or ()
    ]
    return "; ".join(words) or None
