"""Checks the refusal of each dead letter again, pure."""

from __future__ import annotations

from typing import Final, get_args

from control_plane.log.ingest import AHEAD_MAX, CUT
from control_plane.log.unclaimed_lines import LETTER_PREFIX
from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.projection import TOO_MANY_NUMBERS, artifact_prefix, artifact_problem
from control_plane.store.log.events import Arrival, storable
from control_plane.store.verify.dead_letters import read, text_of
from control_plane.store.verify.evidence import Document, Evidence
from events.catalog import ENDS, RunHeartbeat, RunSummarized
from events.codec import RefusalCode
from events.envelope import Event, content_hash, storage_id
from events.files.paths import BAD_PATH
from events.kinds.results import COLUMNS_MAX
from events.runtime.errors import Rejected

ASIDE: Final = "aside/"
LINE_KEPT_BYTES: Final = 16 * 1024  # a longer line was cut, and cannot be read again
UNSTORABLE: Final = "unstorable"


def wrongly_refused(evidence: Evidence | None, letter: Document) -> str | None:
    """Return why the refusal is wrong; None if it is right. Without evidence the run is unknown."""
    if str(letter["_id"]).startswith(ASIDE):
        return _set_aside(evidence, letter)
    text = text_of(letter)
    if text.endswith(CUT) or len(text.encode()) >= LINE_KEPT_BYTES:
        return None
    outcome = read(letter)
    if letter["code"] in get_args(RefusalCode):
        if isinstance(outcome, Event) and letter["code"] == UNSTORABLE:
            return "it can be stored" if _can_be_stored(outcome, letter) else None
        return "the line can be read" if isinstance(outcome, Event) else None
    if not isinstance(outcome, Event):
        return "the line cannot even be read"
    return _reason(evidence, letter, outcome)


def _reason(evidence: Evidence | None, letter: Document, event: Event) -> str | None:
    match letter["code"]:
        case "conflict":
            if str(letter["_id"]).startswith(LETTER_PREFIX):
                return None  # another line under its id waited for the claim, apart from the log
            if evidence is None:
                return None  # what waits for a run that does not exist is not read
            if event.sequence is None and isinstance(event.fact, RunHeartbeat):
                return None  # what it met is kept for a while only
            return None if _contradicts(evidence, event) else "nothing contradicts it"
        case "unknown_run":
            is_late = evidence is not None and evidence.run["createdAt"] < letter["at"]
            return "the run existed" if is_late else None
        case "forbidden" | "unclaimed":
            return "its own run token sent it" if _is_own(letter, event) else None
        case "far_ahead":
            return None if (event.sequence or 0) > AHEAD_MAX else "its sequence is not far ahead"
        case "illegal_transition":
            return None if event.sequence is None else "an event with a sequence decides nothing"
        case "sealed":
            return None if evidence is None or _was_closed(evidence.run, event) else "its record was open"
        case "deleted":
            return None if evidence is None else "its run is there"
        case "over_budget":
            return None  # a count of bytes that other lines have raised since
        case code:
            return f"no line is refused as {code!r}"


def _was_closed(run: Document, event: Event) -> bool:
    """Say whether the line may have arrived after the end; the next claim overwrites the settle."""
    if run.get("sealed") is not None or event.attempt != run["attempt"]:
        return True
    settled = run.get("settled")
    return settled is not None and event.sequence is not None and event.sequence > settled["last"]


def _is_own(letter: Document, event: Event) -> bool:
    """Say whether the holder of the attempt sent it, who may send all types except decisions."""
    return event.sequence is not None and letter["principal"] == f"{event.run_id}/a{event.attempt}"


def _contradicts(evidence: Evidence, event: Event) -> bool:
    """Say whether the log has another event with this id, or at this position."""
    identity = storage_id(event.run_id, event.source, event.id)
    if identity in evidence.hashes:
        return evidence.hashes[identity] != content_hash(event)
    held = evidence.positions.get(event.attempt, IntervalSet())
    return event.sequence is not None and event.sequence in held


def _can_be_stored(event: Event, letter: Document) -> bool:
    try:
        storable(event, Arrival("", letter["at"]))
    except Rejected:
        return False
    return True


def _set_aside(evidence: Evidence | None, letter: Document) -> str | None:
    if evidence is None:
        return "its run does not exist"
    attempt, sequence = letter["attempt"], letter["sequence"]
    own = [event for event in evidence.events if event.attempt == attempt]
    if letter["code"] == "after_end":
        ends = [event for event in own if event.type in ENDS and (event.sequence or 0) < sequence]
        return None if ends else f"attempt {attempt} had not ended before event {sequence}"
    if letter["code"] == TOO_MANY_NUMBERS:
        said = [event.fact.values for event in own if isinstance(event.fact, RunSummarized)]
        names = {name for values in said for name in values}
        return None if len(names) > COLUMNS_MAX else "there was room for its numbers"
    if letter["code"] in (BAD_PATH, "foreign_key"):
        prefix = artifact_prefix(evidence.run_id, attempt)
        data = [event.data for event in own if event.sequence == sequence]
        found = [artifact_problem(str(each.get("name")), str(each.get("key")), prefix) for each in data]
        return None if any(found) else "its name and its key are the attempt's own"
    return f"no event is set aside as {letter['code']!r}"
