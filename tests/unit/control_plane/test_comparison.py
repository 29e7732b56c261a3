"""A run's documents against its log: equal ones are silent, a changed field is named with both values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import bson
import pytest

from control_plane.model.projection import AttemptView, Fold, artifact_id
from control_plane.model.run import Entry
from control_plane.store.log.events import Arrival, entry_document, storable
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.queries import OF_KINDS
from control_plane.verify.comparison import differences
from control_plane.verify.replay import Replayed, replay
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.kinds.ideation import IdeationGenerated
from events.testing import EPOCH, RUN_ID, make_line
from testing.simulation.store.replica_set import OPTIONS

LATER: Final = EPOCH + timedelta(hours=1)
SHA256: Final = "0" * 64
KEY: Final = f"runs/{RUN_ID}/a2/model.pt"
FIT: Final = {"name": "fit", "progress": 0.0, "activity": None}
FITTED: Final = {"name": "fit", "progress": 1.0, "activity": None}
PASSED: Final = {"verdict": "pass", "summary": "it holds"}
LOST: Final = {"code": "POD_LOST", "message": "its pod is gone"}
SETTLED: Final = {"outcome": "completed", "code": None, "message": None, "last": 8, "at": EPOCH}
SAID: Final = {"verdict": "pass", "notes": "well done", "reviewer": "me"}
CHARGED: Final = {"app": 0, "infra": 1, "preempted": 0}
BY_HAND: Final = "changed by hand"
EMPTY_AT_FIRST: Final = (
    "claimedBy", "claimedAt", "settled", "cancelRequested", "humanVerdict", "sealed", "currentStage",
    "error", "validation", "startedAt", "finishedAt",
)  # fmt: skip
UNSTEERED: Final[Mapping[str, Any]] = {"paused": False, "notes": []}
DECIDED: Final = ("pod", "claimedAt", "outcome", "code", "message", "endedAt", "revision")

# A first attempt whose pod was lost in its stage, and a second one that did all there is to do.
EVENTS: Final[Mapping[int, Sequence[Fact]]] = {
    1: [c.RunStarted(), c.StageStarted(stage="fit", index=1, total=1)],
    2: [
        c.RunStarted(),
        c.StageStarted(stage="fit", index=1, total=1),
        c.StageProgress(stage="fit", progress=0.5, activity="half way"),
        c.ArtifactRegistered(name="model.pt", key=KEY, size=3, sha256=SHA256, stage="fit"),
        c.ValidationAutoCompleted(verdict="pass", summary="it holds", scores={"r2": 0.9}),
        IdeationGenerated(ideas=[{"title": "one"}], unfinished=[{"title": "two"}]),
        c.StageCompleted(stage="fit", duration_s=1.5),
        c.RunCompleted(),
    ],
}


def make_claim(n: int, attempt: int, *, seq: int) -> Entry:
    """Return the claim of an attempt."""
    sets = {
        "attempt": attempt, "claimedBy": f"pod/{attempt}", "claimedAt": EPOCH, "lastEventSeq": 0,
        "currentStage": None, "startedAt": None, "validation": None, "settled": None, "error": None,
    }  # fmt: skip
    return Entry(n, "claim", f"pod/{attempt}", EPOCH, "QUEUED", "SCHEDULED", attempt - 1, seq, sets)


SUBMITTED: Final = {
    "priority": 5, "classKey": "probe/cpu/any", "queuedAt": EPOCH, "notBefore": None, "maxAttempts": 3,
    "queueDeadline": LATER, "failures": {**CHARGED, "infra": 0},
}  # fmt: skip
RESCUED: Final = {
    "failures": CHARGED, "error": LOST, "claimedBy": None, "claimedAt": None, "notBefore": EPOCH,
}  # fmt: skip
REVIEW: Final = Entry(
    7, "review", "reviewer:me", EPOCH, "AWAITING_HUMAN", "HUMAN_VALIDATED", 2, 8,
    {"finishedAt": EPOCH, "humanVerdict": SAID},
)  # fmt: skip
RESCUE: Final = Entry(3, "rescue", "rescuer", EPOCH, "RUNNING", "DELAYED", 1, 2, RESCUED)
END: Final = Entry(
    6, "end: completed", "pod/2#a2", EPOCH, "RUNNING", "AWAITING_HUMAN", 2, 8, {"settled": SETTLED}
)
DECISIONS: Final = (
    Entry(1, "submit", "user:me", EPOCH, None, "QUEUED", 0, 0, SUBMITTED),
    make_claim(2, 1, seq=0),
    RESCUE,
    Entry(4, "promote", "sweeper", EPOCH, "DELAYED", "QUEUED", 1, 2, {"notBefore": None}),
    make_claim(5, 2, seq=2),
    END,
    REVIEW,
)

# The run's fields of which the log tells, as they must be stored.
TOLD: Final[Mapping[str, Any]] = {
    "status": "HUMAN_VALIDATED",
    "revision": 7,
    "attempt": 2,
    "lastEventSeq": 8,
    "currentStage": FITTED,
    "startedAt": EPOCH,
    "validation": PASSED,
    **{
        name: SUBMITTED[name] for name in ("priority", "classKey", "queuedAt", "maxAttempts", "queueDeadline")
    },
    "notBefore": None,
    "failures": CHARGED,
    "claimedBy": "pod/2",
    "claimedAt": EPOCH,
    "settled": SETTLED,
    "error": None,
    "cancelRequested": None,
    "humanVerdict": SAID,
    "sealed": None,
    "finishedAt": EPOCH,
    "paused": False,
    "notes": [],
}
# And those of which it does not.
UNTOLD: Final[Mapping[str, Any]] = {
    "kind": "probe", "title": "a run", "review": "human", "lease": None, "tokens": [], "createdAt": EPOCH,
}  # fmt: skip
RUN: Final[Mapping[str, Any]] = {
    "_id": RUN_ID, **TOLD, **UNTOLD, "journal": [], "logOpen": False, "logIncomplete": None,
}  # fmt: skip

OF_ATTEMPT: Final = {"runId": RUN_ID, "attempt": 2}
DOCUMENTS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "attempts": [
        {
            "_id": f"{RUN_ID}/a1", "runId": RUN_ID, "attempt": 1, "pod": "pod/1", "claimedAt": EPOCH,
            "outcome": "lost", **LOST, "endedAt": EPOCH, "revision": 3, "lastEventSeq": 2,
            "currentStage": FIT, "startedAt": EPOCH, "validation": None, "error": None, "endSeq": None,
            "watchedUntil": None, "marks": {"workedFrom": EPOCH},
        },
        {
            "_id": f"{RUN_ID}/a2", **OF_ATTEMPT, "pod": "pod/2", "claimedAt": EPOCH, "outcome": "completed",
            "code": None, "message": None, "endedAt": EPOCH, "revision": 6, "lastEventSeq": 8,
            "currentStage": FITTED, "startedAt": EPOCH, "validation": PASSED, "error": None, "endSeq": 8,
            "watchedUntil": None, "marks": {"workedFrom": EPOCH, "workedUntil": EPOCH},
        },
    ],
    "stages": [
        {
            "_id": f"{RUN_ID}/a1/fit", "runId": RUN_ID, "attempt": 1, "name": "fit", "index": 1, "total": 1,
            "status": "RUNNING", "progress": 0.0, "startedAt": EPOCH, "order": 2, "seq": 2,
        },
        {
            "_id": f"{RUN_ID}/a2/fit", **OF_ATTEMPT, "name": "fit", "index": 1, "total": 1,
            "status": "COMPLETED", "progress": 1.0, "activity": None, "startedAt": EPOCH,
            "completedAt": EPOCH, "durationS": 1.5, "order": 2, "seq": 7,
        },
    ],
    "artifacts": [
        {
            "_id": artifact_id(RUN_ID, 2, "model.pt"), **OF_ATTEMPT, "name": "model.pt", "key": KEY,
            "size": 3, "sha256": SHA256, "contentType": "application/octet-stream", "stage": "fit",
            "registeredAt": EPOCH, "seq": 4,
        },
    ],
    "validations": [
        {
            "_id": f"{RUN_ID}/a2/auto", **OF_ATTEMPT, "by": "auto", **PASSED, "scores": {"r2": 0.9},
            "at": EPOCH, "seq": 5,
        },
        {
            "_id": f"{RUN_ID}/a2/human", **OF_ATTEMPT, "by": "human", "verdict": "pass",
            "summary": "well done", "reviewer": "me", "scores": {}, "at": EPOCH, "seq": 7,
        },
    ],
    "ideas": [
        {
            "_id": f"{RUN_ID}/a2/ideas", **OF_ATTEMPT, "ideas": [{"title": "one"}],
            "unfinished": [{"title": "two"}], "generatedAt": EPOCH, "seq": 6,
        },
    ],
}  # fmt: skip
NAMES_OF_NOBODY: Final = {"_id", "watchedUntil"}
# Every field of every document that the log tells of: collection, place in it, name.
PLACES: Final = [
    (collection, place, name)
    for collection, documents in DOCUMENTS.items()
    for place, document in enumerate(documents)
    for name in document
    if name not in NAMES_OF_NOBODY
]


def logged(entry: Entry) -> dict[str, Any]:
    """Return a decision as the log keeps it."""
    return entry_document(RUN_ID, entry, Arrival(f"p{entry.n}", EPOCH))


def journaled(entry: Entry) -> dict[str, Any]:
    """Return a decision as the run's journal keeps it until it is in the log."""
    document: dict[str, Any] = logged(entry)["data"]
    return {name: value for name, value in document.items() if name != "run_id"}


def event(attempt: int, sequence: int, fact: Fact) -> dict[str, Any]:
    """Return an event as the log keeps it."""
    (decoded,) = decode_ndjson(make_line(fact, sequence=sequence, run_id=RUN_ID, attempt=attempt))
    assert isinstance(decoded.outcome, Event)
    stored: dict[str, Any] = bson.decode(storable(decoded.outcome, Arrival("p", EPOCH)).raw, OPTIONS)
    return stored


STORED_EVENTS: Final = tuple(
    event(attempt, sequence, fact)
    for attempt, facts in EVENTS.items()
    for sequence, fact in enumerate(facts, 1)
)


def make_evidence(
    *, run: Mapping[str, Any] = RUN, decisions: Sequence[Entry] = DECISIONS, **documents: Any
) -> Evidence:
    """Return the evidence of the run, with other documents where some are named."""
    log = [*map(logged, decisions), *STORED_EVENTS]
    beside = {name: documents.get(name, stored) for name, stored in DOCUMENTS.items()}
    return evidence_of(run, log, beside)


def evidence_of(
    run: Mapping[str, Any], log: Sequence[Mapping[str, Any]], beside: Mapping[str, Any]
) -> Evidence:
    of_every = {name: stored for name, stored in beside.items() if name not in OF_KINDS}
    of_kinds = {name: beside.get(name, ()) for name in OF_KINDS}
    return Evidence("runs", dict(run), log, dead_letters=[], now=LATER, of_kinds=of_kinds, **of_every)


def found(evidence: Evidence) -> list[str]:
    return list(differences(evidence, replay(evidence.run_id, evidence.decisions, evidence.events)))


def with_field(collection: str, place: int, name: str, value: Any) -> list[dict[str, Any]]:
    """Return the documents of a collection, with one field of one of them changed."""
    documents = [dict(each) for each in DOCUMENTS[collection]]
    documents[place][name] = value
    return documents


def test_documents_that_the_log_tells_of_are_no_difference() -> None:
    assert found(make_evidence()) == []


def test_the_replay_tells_of_every_field_that_is_compared() -> None:
    evidence = make_evidence()
    told = replay(evidence.run_id, evidence.decisions, evidence.events)
    assert {**dict.fromkeys(EMPTY_AT_FIRST), **UNSTEERED, **told.fields} == TOLD


@pytest.mark.parametrize("name", TOLD)
def test_every_field_of_the_run_of_which_the_log_tells_is_compared(name: str) -> None:
    expected = [f"the run: {name} is '{BY_HAND}', the log says {TOLD[name]!r}"]
    assert found(make_evidence(run={**RUN, name: BY_HAND})) == expected


@pytest.mark.parametrize("name", UNTOLD)
def test_a_field_of_the_run_of_which_the_log_does_not_tell_is_not_compared(name: str) -> None:
    assert found(make_evidence(run={**RUN, name: BY_HAND})) == []


def test_what_nobody_has_filled_is_empty() -> None:
    submitted = {
        **SUBMITTED, "status": "QUEUED", "revision": 1, "attempt": 0, "lastEventSeq": 0, "currentStage": None,
        "startedAt": None,
    }  # fmt: skip
    log = [logged(DECISIONS[0])]
    beside: dict[str, Any] = dict.fromkeys(DOCUMENTS, ())
    for name in (None, *EMPTY_AT_FIRST):
        changed = {} if name is None else {name: BY_HAND}
        run = {**RUN, **dict.fromkeys(EMPTY_AT_FIRST), **submitted, **changed}
        evidence = evidence_of(run, log, beside)
        expected = [] if name is None else [f"the run: {name} is '{BY_HAND}', the log says None"]
        assert found(evidence) == expected


def test_a_run_from_before_people_could_steer_is_steered_by_nobody() -> None:
    run = {name: value for name, value in RUN.items() if name not in ("paused", "notes")}
    assert found(make_evidence(run=run)) == []


def test_a_run_that_lacks_a_field_has_another_value() -> None:
    run = {name: value for name, value in RUN.items() if name != "priority"}
    assert found(make_evidence(run=run)) == ["the run: priority is None, the log says 5"]


@pytest.mark.parametrize(("collection", "place", "name"), PLACES)
def test_every_field_beside_the_run_is_compared(collection: str, place: int, name: str) -> None:
    document = DOCUMENTS[collection][place]
    what = f"{collection} {document['_id']}: {name} is '{BY_HAND}', the log says {document[name]!r}"
    changed = with_field(collection, place, name, BY_HAND)
    assert found(make_evidence(**{collection: changed})) == [what]


@pytest.mark.parametrize("place", [0, 1])
def test_until_when_an_attempt_is_watched_is_not_compared(place: int) -> None:
    assert found(make_evidence(attempts=with_field("attempts", place, "watchedUntil", LATER))) == []


@pytest.mark.parametrize("collection", DOCUMENTS)
def test_a_document_that_is_gone_is_missed(collection: str) -> None:
    expected = [f"{collection} {each['_id']} is not stored" for each in DOCUMENTS[collection]]
    assert found(make_evidence(**{collection: []})) == expected


@pytest.mark.parametrize(
    ("collection", "why"),
    [
        ("attempts", "and the log tells of no such attempt"),
        ("stages", "and no event tells of it"),
        ("artifacts", "and no event tells of it"),
        ("validations", "and no event tells of it"),
        ("ideas", "and no event tells of it"),
    ],
)
def test_documents_of_which_nothing_tells_may_not_exist(collection: str, why: str) -> None:
    planted = [{"_id": identity} for identity in ("z", "y")]
    expected = [f"{collection} {identity} is stored, {why}" for identity in ("y", "z")]
    assert found(make_evidence(**{collection: [*planted, *DOCUMENTS[collection]]})) == expected


@pytest.mark.parametrize("collection", ["stages", "artifacts", "validations", "ideas"])
def test_a_field_of_which_no_event_tells_may_hold_nothing(collection: str) -> None:
    assert found(make_evidence(**{collection: with_field(collection, 0, "error", None)})) == []
    what = f"{collection} {DOCUMENTS[collection][0]['_id']}"
    expected = [f"{what}: error is '{BY_HAND}', and no event tells of it"]
    assert found(make_evidence(**{collection: with_field(collection, 0, "error", BY_HAND)})) == expected


def test_every_difference_is_told() -> None:
    evidence = make_evidence(
        run={**RUN, "priority": 6, "logOpen": True},
        attempts=with_field("attempts", 0, "pod", None),
        stages=[],
    )
    assert found(evidence) == [
        "the run: priority is 6, the log says 5",
        "the run: logOpen is True, but the log of attempt 2 is closed",
        f"attempts {RUN_ID}/a1: pod is None, the log says 'pod/1'",
        f"stages {RUN_ID}/a1/fit is not stored",
        f"stages {RUN_ID}/a2/fit is not stored",
    ]


def on_its_way(**documents: Any) -> Evidence:
    """Return the evidence while the end of the second attempt is in the log and still in the journal."""
    return make_evidence(run={**RUN, "journal": [journaled(END)]}, **documents)


@pytest.mark.parametrize("name", DECIDED)
def test_what_a_decision_on_its_way_says_of_its_attempt_follows_in_a_moment(name: str) -> None:
    assert found(on_its_way(attempts=with_field("attempts", 1, name, BY_HAND))) == []
    problem = f"attempts {RUN_ID}/a1: {name} is '{BY_HAND}', the log says "
    problem += repr(DOCUMENTS["attempts"][0][name])
    assert found(on_its_way(attempts=with_field("attempts", 0, name, BY_HAND))) == [problem]


@pytest.mark.parametrize("name", sorted(set(DOCUMENTS["attempts"][1]) - NAMES_OF_NOBODY - set(DECIDED)))
def test_what_events_say_of_an_attempt_waits_for_no_decision(name: str) -> None:
    said = DOCUMENTS["attempts"][1][name]
    expected = [f"attempts {RUN_ID}/a2: {name} is '{BY_HAND}', the log says {said!r}"]
    assert found(on_its_way(attempts=with_field("attempts", 1, name, BY_HAND))) == expected


def test_an_attempt_may_be_stored_before_its_claim_is_in_the_log() -> None:
    planted = {"_id": f"{RUN_ID}/a3"}
    assert found(on_its_way(attempts=[*DOCUMENTS["attempts"], planted])) == []


@pytest.mark.parametrize("name", ["runId", "attempt"])
def test_an_attempt_of_which_only_events_tell_is_named_by_them(name: str) -> None:
    decisions, waiting = DECISIONS[:4], DECISIONS[4:]
    evidence = make_evidence(
        run={**RUN, "journal": [journaled(each) for each in waiting]},
        decisions=decisions,
        attempts=with_field("attempts", 1, name, BY_HAND),
    )
    said = DOCUMENTS["attempts"][1][name]
    expected = [f"attempts {RUN_ID}/a2: {name} is '{BY_HAND}', the log says {said!r}"]
    assert found(evidence) == expected


def test_a_decision_that_only_the_journal_has_is_told_of_the_run_and_not_yet_of_its_documents() -> None:
    waiting = make_evidence(
        run={**RUN, "journal": [journaled(REVIEW)]},
        decisions=DECISIONS[:-1],
        validations=DOCUMENTS["validations"][:1],
    )
    assert found(waiting) == []


def test_a_persons_verdict_may_stand_beside_the_run_before_the_log_has_it() -> None:
    journal = [journaled(REVIEW)]
    evidence = make_evidence(run={**RUN, "journal": journal}, decisions=DECISIONS[:-1])
    assert found(evidence) == []
    planted = [*DOCUMENTS["validations"], {"_id": f"{RUN_ID}/a1/human"}]
    expected = [f"validations {RUN_ID}/a1/human is stored, and no event tells of it"]
    assert found(replace(evidence, validations=planted)) == expected


def marks(
    *,
    is_open: bool,
    mark: Mapping[str, int] | None = None,
    cursor: int = 3,
    last: int | None = None,
    end_seq: int | None = None,
    attempt: int = 2,
    is_folded: bool = True,
    decision: Entry | None = None,
) -> list[str]:
    """Return what is wrong with the marks of a log that stands at `cursor`, after one decision or none."""
    settled = None if last is None else {"last": last}
    told = Replayed({"attempt": attempt, "lastEventSeq": cursor, "settled": settled})
    if is_folded:
        told.attempts[attempt] = Fold(AttemptView(RUN_ID, attempt, end_seq=end_seq), cursor)
    run = {**RUN, **told.fields, "logOpen": is_open, "logIncomplete": mark}
    decisions = [] if decision is None else [decision]
    problems = differences(make_evidence(run=run, decisions=decisions), told)
    return [each for each in problems if each.startswith(("the run: log", "the run: the log"))]


MARK: Final = {"from": 4, "to": 5}
CLOSED: Final = "the run: logOpen is True, but the log of attempt 2 is closed"
WHOLE: Final = f"the run: logIncomplete is {MARK}, but the log is whole"
GIVEN_UP: Final = "the run: the log is given up, events 4–5 are missing, but logIncomplete is"


@pytest.mark.parametrize(
    "ended",
    [{"end_seq": 3}, {"end_seq": 2}, {"last": 3}, {"last": 2}, {"end_seq": 3, "last": 9}, {"last": 0}],
    ids=str,
)
def test_the_log_of_an_attempt_that_ended_at_its_cursor_is_closed_and_whole(ended: dict[str, int]) -> None:
    assert marks(is_open=False, **ended) == []
    assert marks(is_open=True, **ended) == [CLOSED]
    assert marks(is_open=False, mark=MARK, **ended) == [WHOLE]
    assert marks(is_open=True, mark=MARK, **ended) == [CLOSED, WHOLE]


def test_a_run_that_nobody_has_claimed_has_no_log_to_wait_for() -> None:
    assert marks(is_open=False, attempt=0, cursor=0) == []
    closed = CLOSED.replace("attempt 2", "attempt 0")
    assert marks(is_open=True, mark=MARK, attempt=0, cursor=0) == [closed, WHOLE]


def test_nobody_waits_for_the_log_of_a_rescued_attempt_and_what_it_lacks_may_be_marked() -> None:
    rescue = replace(RESCUE, attempt=2)
    assert marks(is_open=False, decision=rescue) == []
    assert marks(is_open=True, decision=rescue) == [CLOSED]
    assert marks(is_open=False, mark=MARK, decision=rescue) == []


@pytest.mark.parametrize(
    "decision",
    [None, RESCUE, replace(RESCUE, attempt=3), replace(DECISIONS[3], attempt=2)],
    ids=["none", "a rescue of the one before", "of the one after", "another than a rescue"],
)
@pytest.mark.parametrize(
    "log",
    [{"is_folded": False}, {"end_seq": None}, {"end_seq": 4}],
    ids=["nothing said", "no end said", "an end behind a gap"],
)
def test_the_log_of_an_attempt_that_goes_on_is_open_and_unmarked(
    decision: Entry | None, log: dict[str, Any]
) -> None:
    def goes_on(is_open: bool, mark: Mapping[str, int] | None) -> str:
        return f"the run: logOpen is {is_open}, logIncomplete {mark}, but attempt 2 goes on"

    def seen(is_open: bool, mark: Mapping[str, int] | None) -> list[str]:
        return marks(is_open=is_open, mark=mark, decision=decision, **log)

    assert seen(is_open=True, mark=None) == []
    assert seen(is_open=False, mark=None) == [goes_on(False, None)]
    assert seen(is_open=True, mark=MARK) == [goes_on(True, MARK)]


@pytest.mark.parametrize("mark", [None, MARK, {"from": 1, "to": 2}])
def test_the_log_of_a_settled_attempt_may_wait_for_its_rest(mark: Mapping[str, int] | None) -> None:
    assert marks(is_open=True, mark=mark, last=4) == []


@pytest.mark.parametrize(
    ("mark", "fits"),
    [
        (MARK, True),
        (None, False),
        ({"from": 3, "to": 5}, False),
        ({"from": 5, "to": 5}, False),
        ({"from": 4, "to": 4}, False),
        ({"from": 4, "to": 6}, False),
    ],
)
def test_a_log_that_was_given_up_names_exactly_what_it_lacks(
    mark: Mapping[str, int] | None, fits: bool
) -> None:
    assert marks(is_open=False, mark=mark, last=5) == ([] if fits else [f"{GIVEN_UP} {mark}"])


@pytest.mark.parametrize("name", [None, *EMPTY_AT_FIRST, *UNSTEERED])
def test_a_log_that_tells_of_nothing_is_of_a_run_that_nobody_claimed(name: str | None) -> None:
    empty = {**dict.fromkeys(EMPTY_AT_FIRST), **UNSTEERED}
    changed = {} if name is None else {name: BY_HAND}
    run = {**RUN, **empty, **changed, "logOpen": True}
    beside: dict[str, Any] = dict.fromkeys(DOCUMENTS, ())
    evidence = evidence_of(run, [], beside)
    unlike = [] if name is None else [f"the run: {name} is '{BY_HAND}', the log says {empty[name]!r}"]
    closed = "the run: logOpen is True, but the log of attempt 0 is closed"
    assert list(differences(evidence, Replayed())) == [*unlike, closed]
