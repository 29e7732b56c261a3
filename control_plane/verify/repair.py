"""Plans the writes of a rebuild, which make the stored documents of a run equal to its log, pure.

Law: only fields that the application of events owns are written, and verdicts of people beside the run. An
incomplete log makes no documents: the stored documents may be the only copy of the lost part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.projection import PROJECTION_FAILED
from control_plane.store.log.documents import stage_document
from control_plane.store.verify.evidence import Document, Evidence
from control_plane.store.verify.shapes import name, problem
from control_plane.verify.comparison import differences
from control_plane.verify.expected import OF_EVENTS, attempts, beside, surplus, unlogged
from control_plane.verify.invariants import INVARIANTS, Case
from control_plane.verify.replay import Replayed
from control_plane.verify.resumption import resumption, view_at

VALUE_CHARS_MAX: Final = 200
SUMMARY: Final = ("summary", "summaryAttempt")
UNWRITABLE: Final = "a document cannot be written, or compared with what was read; remove it by hand"
# What must hold of a log before documents are made of it.
OF_THE_LOG: Final = (
    "status-path", "revision-gap", "event-after-end", "event-tampered", "seal-broken", "settle-broken",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Insert:
    """A document that is missing."""

    collection: str
    document: Document

    def __str__(self) -> str:
        return f"{self.collection} {name(self.document)} is stored anew"


@dataclass(frozen=True, slots=True)
class Change:
    """Fields of the document that was read as `was`: those to set, and those to drop."""

    collection: str
    was: Document
    sets: Mapping[str, Any]
    drops: Sequence[str] = ()

    def __str__(self) -> str:
        words = [
            f"{each} from {_short(self.was.get(each))} to {_short(to)}" for each, to in self.sets.items()
        ]
        words += [f"{each} {_short(self.was[each])} removed" for each in self.drops]
        return f"{self.collection} {name(self.was)}: {'; '.join(words)}"


@dataclass(frozen=True, slots=True)
class Remove:
    """The document that was read as `was`, which no event makes."""

    collection: str
    was: Document

    def __str__(self) -> str:
        return f"{self.collection} {name(self.was)} is removed: no event tells of it"


@dataclass(frozen=True, slots=True)
class Late:
    """Stored events of the current attempt that were not applied; only application moves a cursor forward."""

    attempt: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"events {self.first} to {self.last} of attempt {self.attempt} are applied"


Repair = Insert | Change | Remove


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes that make a run's documents equal to its log, and the differences that remain, as text.

    The repairs of documents beside the run are first, that of the run is last.
    """

    repairs: tuple[Repair, ...] = ()
    late: Late | None = None
    left: tuple[str, ...] = ()

    @property
    def is_to_be_written(self) -> bool:
        """Say whether something is to be written, or to be applied."""
        return bool(self.repairs or self.late)

    @property
    def is_done(self) -> bool:
        """Say whether nothing is to be written or reported."""
        return not (self.is_to_be_written or self.left)

    @property
    def words(self) -> list[str]:
        """The writes, as text."""
        return [str(each) for each in (*self.repairs, *([self.late] if self.late else []))]

    def without(self, unwritable: Collection[str]) -> Plan:
        """Return the plan with its impossible repairs reported instead."""
        given_up = [str(each) for each in self.repairs if str(each) in unwritable]
        if not given_up:
            return self
        repairs = tuple(each for each in self.repairs if str(each) not in unwritable)
        return replace(
            self, repairs=repairs, left=(*(f"{UNWRITABLE}: {each}" for each in given_up), *self.left)
        )


def plan(evidence: Evidence, replayed: Replayed) -> Plan:
    """Return the writes that make the stored documents equal to those of the log."""
    repairs: list[Repair] = [*_beside(evidence, replayed), *_attempts(evidence, replayed)]
    late = None
    if (cursor := _cursor(evidence, replayed)) is not None:
        repairs += _view(evidence, replayed, cursor)
        if cursor < (reach := replayed.fields["lastEventSeq"]):
            late = Late(evidence.run["attempt"], cursor + 1, reach)
    if (repairs or late) and (reasons := list(unfit(Case(evidence, replayed)))):
        return Plan(left=(*reasons, *evidence.broken))
    after = repaired(evidence, repairs)
    # What is late makes its differences until it is applied.
    left = () if late else tuple(differences(after, replayed))
    return Plan(tuple(repairs), late, (*after.broken, *left))


def unfit(case: Case) -> Iterator[str]:
    """Yield the reasons why a log cannot be used for a rebuild."""
    evidence, replayed = case.evidence, case.replayed
    if not evidence.is_log_read or len(evidence.events) < len(evidence.numbered):
        yield "lines of its log cannot be read"
    for invariant in OF_THE_LOG:
        for message in INVARIANTS[invariant](case):
            yield f"its log is not whole ({invariant}): {message}"
    for message in replayed.unreached:
        yield f"its log is not whole: {message}"
    for attempt in sorted({*evidence.positions, *replayed.attempts, evidence.run["attempt"]}):
        yield from _lost(evidence, replayed, attempt)
    for folded in replayed.attempts.values():
        for event, aside in folded.set_aside:
            if aside.code == PROJECTION_FAILED:
                yield f"event {event.sequence} of attempt {event.attempt}: {aside.reason}"


def _lost(evidence: Evidence, replayed: Replayed, attempt: int) -> Iterator[str]:
    """Report that an attempt's log has lost its end, if more than one document names an event beyond it.

    A log with an end event has lost nothing, and a single document is wrong by itself.
    """
    held = evidence.positions.get(attempt, IntervalSet())
    reach = held.last_contiguous(0)
    folded = replayed.attempts.get(attempt)
    settled = [each.sets.get("settled") for each in evidence.decisions if each.attempt == attempt]
    if folded is not None and folded.view.end_seq is not None:
        return
    if any(each and each["last"] <= reach for each in settled):
        return
    beyond = [seq for seq in _named(evidence, attempt) if seq > reach]
    if len(beyond) > 1:
        gone = held.gaps(0, max(beyond))
        yield f"its log is not whole: events {gone} of attempt {attempt} were applied and are not in it"


def _named(evidence: Evidence, attempt: int) -> Iterator[int]:
    """Yield the last position of an attempt as named by the run, its record, and the documents beside it."""
    if attempt == evidence.run["attempt"]:
        yield evidence.run["lastEventSeq"]
    yield max(_positions("lastEventSeq", evidence.attempts, attempt), default=0)
    documents = [each for group in evidence.beside.values() for each in group if each.get("by") != "human"]
    yield max(_positions("seq", documents, attempt), default=0)


def _positions(name: str, documents: Sequence[Document], attempt: int) -> Iterator[int]:
    positions = (each.get(name) for each in documents if each["attempt"] == attempt)
    yield from (each for each in positions if isinstance(each, int))


def _beside(evidence: Evidence, replayed: Replayed) -> Iterator[Repair]:
    kept = unlogged(evidence)
    for collection, expected in beside(evidence, replayed).items():
        stored = [*evidence.beside.get(collection, ()), *evidence.misshapen.get(collection, ())]
        found, rest = _matched(stored, expected)
        for identity, fields in expected.items():
            yield from _equal(collection, {"_id": identity, **fields}, found.get(identity))
        yield from (Remove(collection, each) for each in rest if name(each) not in kept)


def _attempts(evidence: Evidence, replayed: Replayed) -> Iterator[Repair]:
    """Yield the repairs of attempts; decisions write the other fields of an existing document."""
    expected = attempts(evidence, replayed)
    stored = [*evidence.attempts, *evidence.misshapen.get("attempts", ())]
    found, rest = _matched(stored, expected)
    for identity, fields in expected.items():
        was = found.get(identity)
        owned = fields if was is None else {each: fields[each] for each in fields if each in OF_EVENTS}
        yield from _equal("attempts", {"_id": identity, **owned}, was)
    if not evidence.run["journal"]:  # of what is in there, the documents come before the log
        yield from (Remove("attempts", each) for each in rest)


def _matched(
    stored: Sequence[Document], expected: Mapping[str, Any]
) -> tuple[dict[str, Document], list[Document]]:
    """Return the expected stored documents by id, and the others, whose ids may be of any type."""
    found: dict[str, Document] = {}
    rest: list[Document] = []
    for each in stored:
        identity = each["_id"]
        if isinstance(identity, str) and identity in expected:
            found[identity] = each
        else:
            rest.append(each)
    return found, rest


def _equal(collection: str, document: Document, was: Document | None) -> Iterator[Repair]:
    """Yield the repair that makes a stored document equal to `document`."""
    if was is None:
        yield Insert(collection, document)
        return
    sets = {each: value for each, value in document.items() if was.get(each) != value}
    drops = surplus(collection, document, was)
    if sets or drops:
        yield Change(collection, was, sets, drops)


def _cursor(evidence: Evidence, replayed: Replayed) -> int | None:
    """Return the correct cursor of the run; None if its attempt or status differs from the log."""
    is_current = replayed.fields.get("attempt") == evidence.run["attempt"]
    return resumption(evidence, replayed) if is_current else None


def _view(evidence: Evidence, replayed: Replayed, cursor: int) -> Iterator[Change]:
    """Yield the repair of the run: its cursor, and its view of the current attempt at that cursor.

    Headline numbers are those of the whole log: to apply its last events to them once more changes nothing.
    """
    view = view_at(evidence, cursor)
    fields: dict[str, Any] = {
        "lastEventSeq": cursor,
        "currentStage": stage_document(view.current_stage),
        "startedAt": view.started_at,
        "validation": view.validation,
    }
    fields |= {each: replayed.fields[each] for each in SUMMARY if each in replayed.fields}
    sets = {each: value for each, value in fields.items() if evidence.run.get(each) != value}
    drops = tuple(each for each in SUMMARY if evidence.run.get(each) is not None and each not in fields)
    if sets or drops:
        yield Change(evidence.collection, evidence.run, sets, drops)


def repaired(evidence: Evidence, repairs: Sequence[Repair]) -> Evidence:
    """Return the evidence after the repairs."""
    touched = {id(each.was): each for each in repairs if not isinstance(each, Insert)}
    inserted = [each for each in repairs if isinstance(each, Insert)]
    groups: dict[str, list[Document]] = {}
    broken = list(evidence.broken)
    for collection, documents in {**evidence.beside, "attempts": evidence.attempts}.items():
        misshapen = evidence.misshapen.get(collection, ())
        named = {_broken(collection, each) for each in misshapen}
        broken = [each for each in broken if each not in named]
        now = [after for each in (*documents, *misshapen) if (after := _after(each, touched)) is not None]
        now += [each.document for each in inserted if each.collection == collection]
        groups[collection] = [each for each in now if isinstance(each["_id"], str)]
        broken += [_broken(collection, each) for each in now if problem(collection, each) is not None]
    return replace(
        evidence,
        run=_after(evidence.run, touched) or evidence.run,
        attempts=groups.pop("attempts"),
        stages=groups.pop("stages"),
        artifacts=groups.pop("artifacts"),
        validations=groups.pop("validations"),
        of_kinds=groups,
        broken=broken,
        misshapen={},
    )


def _after(document: Document, touched: Mapping[int, Change | Remove]) -> Document | None:
    match touched.get(id(document)):
        case Change() as change:
            kept = {each: value for each, value in document.items() if each not in change.drops}
            return {**kept, **change.sets}
        case Remove():
            return None
        case _:
            return document


def _broken(collection: str, document: Document) -> str:
    return f"{collection} {name(document)}: {problem(collection, document)}"


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= VALUE_CHARS_MAX else f"{words[:VALUE_CHARS_MAX]}…"
