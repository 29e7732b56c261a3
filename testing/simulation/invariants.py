"""The invariants: what is checked at each committed write, and what at the end of a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.log.unclaimed_lines import LETTER_PREFIX, UNCLAIMED
from control_plane.model.byte_limits import OVER_BUDGET
from control_plane.model.groups.pruning import stop_of
from control_plane.model.groups.status import CLOSED, GroupStatus
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Finding, Verifier
from events.catalog import EventRefused, ResultRecorded, type_of
from events.codec import moment
from events.lifecycle import FINAL, HELD, LIVE, TRANSITIONS, Cause, Fault, Status
from events.queue.labels import missing, words_of
from events.queue.requirements import class_key, read_class, read_requirements
from events.queue.rules import pod_name
from events.text.attempt_id import AttemptId
from testing.simulation.event_loop import driven
from testing.simulation.ledger import Ledger
from testing.simulation.quarantines import wrong_quarantines
from testing.simulation.races import early_starts, moved_start, wrong_moment
from testing.simulation.store.driver import async_database
from testing.simulation.store.replica_set import Document, ReplicaSet

REFUSED: Final = type_of(EventRefused)
RECORDED: Final = type_of(ResultRecorded)
CHARGES: Final[Mapping[str, frozenset[str]]] = {
    "app": frozenset({Cause.END_FAILED, Cause.RESCUE}),
    "infra": frozenset({Cause.END_FAILED, Cause.RESCUE}),
    "outside": frozenset({Cause.END_FAILED}),
    "preempted": frozenset({Cause.END_PREEMPTED, Cause.END_CANCELED}),
}
# What the lines of strangers meet; further codes are met only by who holds the attempt.
STRANGERS_CODES: Final = frozenset(
    {"forbidden", "unknown_run", UNCLAIMED, "conflict", "illegal_transition", "bad_attribute", OVER_BUDGET}
)
EVENTUALLY_S: Final = 1_000.0  # after everything was mended; a pinned run may be left for ten minutes


@dataclass(slots=True)
class InvariantChecker:
    """Holds what is stored against the laws, and against what the ledger knows."""

    servers: ReplicaSet
    ledger: Ledger

    def saw(self, collection: str, before: Document | None, after: Document | None) -> None:
        """Look at one committed write."""
        if after is None:
            return
        if collection == "groups" and before is not None:
            lanes = self.servers.collection("lanes").records
            runs = [each.document for each in self.servers.collection("runs").newest({})]
            for message in [
                *moved_slots(before, after),
                *moved_start(before, after, runs, lanes, self.servers.now()),
            ]:
                self.ledger.blame(f"group {after['_id']}: {message}")
        if collection == "quarantines":
            self._quarantines([] if before is None else before["pods"], after["pods"])
        if collection != "runs":
            return
        if before is None and after.get("groupId") is not None:
            group = self.servers.collection("groups").records.get(after["groupId"])
            for message in wrong_member(after, None if group is None else group.fresh()):
                self.ledger.blame(f"run {after['_id']}: {message}")
            parent = self.servers.collection("runs").records.get(after["parentRunId"])
            if parent is not None and stop_of(parent.fresh()) and not by_a_person(after):
                self.ledger.blame(f"run {after['_id']}: its member was pruned, and nobody asked for it again")
        if before is not None and after.get("groupId") is not None:
            group = self.servers.collection("groups").records.get(after["groupId"])
            for message in wrong_moment(before, after, None if group is None else group.fresh()):
                self.ledger.blame(f"run {after['_id']}: {message}")
        old: Document = before or {"status": None, "revision": 0, "attempt": 0, "failures": {}, "journal": []}
        known = old["revision"]
        fresh = [entry for entry in after["journal"] if entry["n"] > known]
        for message in [
            *_moves(old, after, fresh),
            *self._charges(old, after, fresh),
            *self._rescues(fresh, after),
            *_claims(old, after["classKey"], fresh),
            *self._options(fresh, after),
            *_pruned(fresh),
        ]:
            self.ledger.blame(f"run {after['_id']}: {message}")

    def _quarantines(self, before: list[Document], after: list[Document]) -> None:
        for message in wrong_quarantines(before, after, self.ledger.pods, is_calm=self.ledger.is_calm):
            self.ledger.blame(f"quarantines: {message}")
        standing = {each["pod"]: each["since"] for each in after if each["trialAt"] is None}
        self.ledger.counts["quarantines"] += len(standing.items() - self.ledger.quarantined.items())
        self.ledger.counts["trials of pods"] += len(self.ledger.quarantined.keys() - standing.keys())
        self.ledger.quarantined = standing

    def _charges(self, old: Document, after: Document, fresh: list[Document]) -> Iterator[str]:
        for budget, causes in CHARGES.items():
            charged = after["failures"].get(budget, 0) - old["failures"].get(budget, 0)
            if charged not in (0, 1) or (charged and not any(entry["cause"] in causes for entry in fresh)):
                yield f"{charged} is charged to {budget} by {[entry['cause'] for entry in fresh]}"
        for entry in fresh:
            error = entry["set"].get("error") or {}
            is_charged = entry["cause"] == Cause.END_FAILED and error.get("fault") == Fault.RUN
            if is_charged and (after["_id"], entry["attempt"]) not in self.ledger.failed:
                yield f"attempt {entry['attempt']} is charged with a failure that its child did not have"

    def _rescues(self, fresh: list[Document], after: Document) -> Iterator[str]:
        for entry in fresh:
            if entry["cause"] != Cause.RESCUE:
                continue
            owner = self.ledger.live(AttemptId(after["_id"], entry["attempt"]))
            if owner is not None:
                yield f"attempt {entry['attempt']} is taken from {owner.pod}, who lives and trusts it"

    def _options(self, fresh: list[Document], after: Document) -> Iterator[str]:
        if any(entry["cause"] == Cause.CLAIM for entry in fresh) and after["_id"] in self.ledger.away:
            yield f"{after['claimedBy']} takes it, and its requirements keep every pod from that"
        if after.get("requires") is None:  # nobody changed those that it was submitted with
            return
        usual = class_key(after["kind"], read_requirements(after["requires"]))
        if after["classKey"] != usual:
            yield f"its class is {after['classKey']}, and its requirements say {usual}"

    def is_settled(self) -> bool:
        """Say whether nothing is left to happen."""
        runs = [each.document for each in self.servers.collection("runs").majority({})]
        if len(self.ledger.submitted) != len([run for run in runs if run.get("groupId") is None]):
            return False
        return not any(True for _ in self._open())

    def _open(self) -> Iterator[str]:
        for record in self.servers.collection("runs").majority({}):
            run = record.document
            if run["status"] not in FINAL and run["status"] != Status.AWAITING_HUMAN:
                yield f"run {run['_id']} is still {run['status']}"
            if run["journal"]:
                yield f"run {run['_id']} still has decisions in its journal"
            if run["logOpen"]:
                yield f"the log of run {run['_id']} is still open"
        for record in self.servers.collection("attempts").majority({}):
            attempt = record.document
            if attempt.get("watchedUntil") is not None and self._is_behind(attempt):
                yield f"attempt {attempt['_id']} waits for its events to be applied"
        attempts = {
            each.document["_id"]: each.document["attempt"]
            for each in self.servers.collection("runs").majority({})
        }
        for record in self.servers.collection("early_lines").majority({}):
            run_id, attempt_number = _attempt(record.document)
            if attempt_number <= attempts.get(run_id, 0):
                yield f"early lines of attempt {attempt_number} of run {run_id} wait, and it is claimed"

    def _is_behind(self, attempt: Document) -> bool:
        """Say whether more is stored of an attempt than was applied, to it and to its run."""
        applied = attempt.get("lastEventSeq") or 0
        for record in self.servers.collection("runs").majority({"_id": attempt["runId"]}):
            run = record.document
            if (run["_id"], run["attempt"]) == (attempt["runId"], attempt["attempt"]):
                applied = min(applied, run["lastEventSeq"])
        following = (attempt["attempt"], applied + 1)
        return any(
            (event["attempt"], event.get("sequence")) == following
            for record in self.servers.collection("events").majority({"runId": attempt["runId"]})
            if (event := record.document)["runId"] == attempt["runId"]
        )

    def verdict(self) -> None:
        """Look at everything, after the end."""
        stored = {
            record.document["_id"]: record.document for record in self.servers.collection("runs").majority({})
        }
        for message in self._open():
            self.ledger.blame(message)
        alone = {run_id for run_id, run in stored.items() if run.get("groupId") is None}
        groups = {each.document["_id"] for each in self.servers.collection("groups").majority({})}
        for name in self.ledger.groups ^ groups:
            self.ledger.blame(f"group {name} was acknowledged and is not stored, or the other way round")
        for run_id in set(self.ledger.submitted) ^ alone:
            self.ledger.blame(f"run {run_id} was acknowledged and is not stored, or the other way round")
        for run in stored.values():
            for message in self._final(run):
                self.ledger.blame(f"run {run['_id']}: {message}")
        for message in early_starts(stored, self.ledger.starts):
            self.ledger.blame(message)
        for name in sorted(self.ledger.sent):
            for message in self._log(name, stored.get(name[0])):
                self.ledger.blame(f"attempt {name[1]} of run {name[0]}: {message}")
        for message in self._rows():
            self.ledger.blame(message)
        for finding in driven(self._audited()):
            self.ledger.blame(f"run {finding.run_id}: the audit finds {finding.invariant}: {finding.message}")
        for message in [*self._letters(), *self._foreign(), *self._unclaimed(stored)]:
            self.ledger.blame(message)

    def _letters(self) -> Iterator[str]:
        """Look for refusals that no stranger has earned: every line of a worker is taken."""
        for record in self.servers.collection("dead_letters").majority({}):
            letter = record.document
            own = f"{letter['runId']}/a{letter['attempt']}"
            sender = letter.get("principal", own)  # what is set aside was taken from its holder before
            if sender == own or letter["code"] not in STRANGERS_CODES:
                yield f"a line of {sender} was refused: {letter['code']}: {letter['message']}"

    def _foreign(self) -> Iterator[str]:
        """Look for positions that were given by nobody's outbox; `_log` looks at the others."""
        for record in self.servers.collection("events").majority({}):
            event = record.document
            if "sequence" in event and (event["runId"], event["attempt"]) not in self.ledger.sent:
                name = f"{event['runId']}/a{event['attempt']}"
                yield f"the log of {name} holds position {event['sequence']}, and nobody works for it"

    def _unclaimed(self, stored: Mapping[str, Document]) -> Iterator[str]:
        """Look where acknowledged lines of strangers are: apart; after the claim letters, with a notice."""
        letters = self.servers.collection("dead_letters").records
        apart = self.servers.collection("early_lines").records
        kept = {(str(identity), *_attempt(each.document)) for identity, each in apart.items()}
        kept |= {
            (str(identity).removeprefix(LETTER_PREFIX).rpartition("/a")[0], *_attempt(each.document))
            for identity, each in letters.items()
            if each.document["code"] == UNCLAIMED
        }
        for identity, run_id, attempt in sorted(self.ledger.unclaimed - kept):
            yield f"the early line {identity} of {run_id}/a{attempt} was acknowledged, and is nowhere"
        for run_id, attempt in sorted({each[1:] for each in self.ledger.unclaimed}):
            run = stored.get(run_id)
            if run is not None and attempt <= run["attempt"] and not self._has_notice(run_id, attempt):
                yield f"early lines of {run_id}/a{attempt} are dead letters, and no notice says so"

    def _has_notice(self, run_id: str, attempt: int) -> bool:
        return any(
            "before anybody had claimed it" in event["data"].get("message", "")
            for record in self.servers.collection("events").majority({"runId": run_id})
            if _attempt(event := record.document) == (run_id, attempt) and "sequence" not in event
        )

    def _rows(self) -> Iterator[str]:
        """Compare the rows of each attempt with what its child said last: none twice, none too many."""
        stored: dict[AttemptId, list[tuple[int, str, Any]]] = {}
        for record in self.servers.collection("results").majority({}):
            row = record.document
            stored.setdefault(_attempt(row), []).append((row["seq"], row["key"], row["values"]))
        for name in sorted({*stored, *self.ledger.sent}):
            applied = self.servers.collection("attempts").records.get(f"{name[0]}/a{name[1]}")
            reached = 0 if applied is None else applied.document.get("lastEventSeq") or 0
            said = {
                fact.data["key"]: (sequence, fact.data["key"], fact.data["values"])
                for sequence, fact in sorted(self.ledger.sent.get(name, {}).items())
                if fact.type == RECORDED and sequence <= reached
            }
            self.ledger.counts["rows"] += len(said)
            if sorted(said.values()) != sorted(stored.get(name, ())):
                told = f"{len(stored.get(name, ()))} rows, and its child said {len(said)}"
                yield f"attempt {name[1]} of run {name[0]} has {told}: {_keys(stored.get(name, ()))}"

    async def _audited(self) -> list[Finding]:
        """Return what `podfleet verify --rebuild` would find; a loss that is marked as one is none."""
        auditor = Verifier(VerifyReads(async_database(self.servers, "judge")), second_look_s=0.0)
        holey = {run_id for run_id, _ in self.ledger.cut_short}
        return [
            each
            async for each in auditor.audit(rebuilds=True)
            if not each.is_note and not (each.invariant == "sequence-gap" and each.run_id in holey)
        ]

    def _final(self, run: Document) -> Iterator[str]:
        lease = run["lease"]
        if lease is not None and lease["until"] is not None:
            yield f"it is {run['status']} and still leased"
        if run["_id"] in self.ledger.canceled and run["status"] != Status.CANCELED:
            yield f"its cancel was acknowledged, and it is {run['status']}"

    def _log(self, name: AttemptId, run: Document | None) -> Iterator[str]:
        """Compare what an outbox numbered with what the log holds and what was applied."""
        sent = self.ledger.sent[name]
        log = {
            record.document["sequence"]: record.document
            for record in self.servers.collection("events").majority({"runId": name[0]})
            if record.document["attempt"] == name[1] and "sequence" in record.document
        }
        whole = next(number for number in range(1, len(log) + 2) if number not in log) - 1
        # An insertion that was cut off in its middle, and a disk that was lost after it, leave a hole.
        if whole != len(log) and name not in self.ledger.cut_short:
            yield f"its log has the positions {_ranges(log)}"
        for sequence, event in sorted(log.items()):
            words = sent.get(sequence)
            if words is None or event["type"] not in (words.type, REFUSED):
                yield f"position {sequence} holds {event['type']}, which nobody said there"
            elif event["type"] == words.type and event["data"] != words.data:
                yield f"position {sequence} holds other data than was said"
            elif words is not None:
                yield from self._timed(name, sequence, event["time"])
        missing = sorted(set(sent) - set(log))
        if missing and name not in self.ledger.cut_short:
            yield f"the events {missing} were numbered and are not stored"
        if missing and run is not None and name[1] == run["attempt"]:
            settled = run["settled"]
            if settled is not None and settled["last"] in missing and run["logIncomplete"] is None:
                yield f"its log is short of {missing}, and nothing says so"
        record = self.servers.collection("attempts").records.get(f"{name[0]}/a{name[1]}")
        applied = 0 if record is None else record.document.get("lastEventSeq", 0)
        if applied != whole:
            yield f"{whole} events are stored without a gap, and {applied} applied"

    def _timed(self, name: AttemptId, sequence: int, told: str) -> Iterator[str]:
        """Compare the moment of an event with the store's at which it was said."""
        truth, said = self.ledger.said_at[name, sequence], moment(told)
        assert said is not None
        if abs((said - truth.moment).total_seconds()) > truth.allowed_s:
            yield f"position {sequence} is told to be of {told}, and is of {truth.moment}, by the store"


def labels_of(pod: str) -> dict[str, str]:
    """Return the labels of a simulated pod: two racks, in each of which there is a pod in every history."""
    return {"rack": f"r{int(pod.rpartition('-')[2]) % 2}"}


def moved_slots(before: Document, after: Document) -> Iterator[str]:
    """Yield what a change of a group may not do with its slots."""
    if after["next"] > before["next"] and before["status"] != GroupStatus.OPEN:
        yield f"it is {before['status']}, and decides on slots {before['next']} to {after['next'] - 1}"
    if before["status"] in CLOSED and after["status"] not in (*CLOSED, GroupStatus.OPEN, GroupStatus.CLOSING):
        yield f"it was {before['status']}, and became {after['status']}"


def wrong_member(run: Document, group: Document | None) -> Iterator[str]:
    """Yield what is wrong with a new member of a group, as the group stands at that moment."""
    if group is None:
        yield f"its group {run['groupId']} does not exist"
    elif run["parentRunId"] is None and not group["first"] <= run["slot"] < group["next"]:
        yield f"slot {run['slot']} of {run['groupId']} is submitted, and decided are those to {group['next']}"


def _claims(old: Document, class_key: str, fresh: list[Document]) -> Iterator[str]:
    """Yield the claims of pods that may not take the run.

    They failed it by their own fault and leave it to others still, or it asks for another pod.
    """
    wanted = read_class(class_key)
    for entry in fresh:
        if entry["cause"] == Cause.CLAIM:
            name = pod_name(entry["by"])
            if wanted.pod not in (None, name):
                yield f"{entry['by']} takes it, and it is pinned to {wanted.pod}"
            for label, asked in missing(wanted.labels, labels_of(name)):
                yield f"{entry['by']} takes it, and lacks {words_of(label, asked)}"
            for fault in old["faults"]:
                if fault["pod"] == entry["by"] and fault["until"] and fault["until"] > entry["at"]:
                    yield f"{entry['by']} takes it, and leaves it to others until {fault['until']}"


def _moves(old: Document, after: Document, fresh: list[Document]) -> Iterator[str]:
    """Yield what the lifecycle does not allow."""
    if old["status"] in FINAL and after["status"] != old["status"]:
        yield f"it was {old['status']}, which is final, and became {after['status']}"
    if [entry["n"] for entry in fresh] != list(range(old["revision"] + 1, after["revision"] + 1)):
        numbers = [entry["n"] for entry in fresh]
        yield f"revision {after['revision']} follows {old['revision']} with the entries {numbers}"
    if after["attempt"] - old["attempt"] not in (0, 1):
        yield f"attempt {after['attempt']} follows {old['attempt']}"
    for entry in fresh:
        if entry["cause"] == Cause.SUBMIT:
            continue
        allowed = TRANSITIONS[Cause(entry["cause"])].get(Status(entry["from"]), ())
        if entry["to"] not in allowed:
            yield f"'{entry['cause']}' led from {entry['from']} to {entry['to']}"
        term = entry["by"].rpartition("#a")
        if term[1] and term[2] != str(entry["attempt"]):
            yield f"'{entry['cause']}' was decided by {entry['by']} in attempt {entry['attempt']}"
    if after["status"] not in HELD and after["lease"] is not None and after["lease"]["until"] is not None:
        yield f"it is {after['status']}, and leased"
    if after["status"] in HELD and after["lease"] is None:
        yield f"it is {after['status']}, and nobody's"


def _keys(rows: Iterable[tuple[int, str, Any]]) -> str:
    return ", ".join(f"{key} (position {sequence})" for sequence, key, _ in sorted(rows))


def by_a_person(run: Document) -> bool:
    """Say whether a person has submitted a run, and no part of the control plane."""
    return bool(run["journal"][0]["by"].startswith("user"))


def _pruned(fresh: list[Document]) -> Iterator[str]:
    """Yield what a pruned member may not be: anything but one that was worked on."""
    for entry in fresh:
        if stop_of(entry["set"]) and entry["from"] not in LIVE:
            yield f"it was {entry['from']}, and is pruned"


def _attempt(document: Document) -> AttemptId:
    return AttemptId(document["runId"], document["attempt"])


def _ranges(log: Mapping[int, Any]) -> str:
    return ", ".join(str(each) for each in sorted(log))
