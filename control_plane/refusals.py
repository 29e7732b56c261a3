"""Was a line refused rightly? Each dead letter is judged again, pure."""

from __future__ import annotations

from typing import Final, get_args

from control_plane.evidence import Document, Evidence
from control_plane.projection import artifact_prefix
from control_plane.store.events import Arrival, storable
from events.catalog import ENDS
from events.codec import RefusalCode, decode_ndjson
from events.envelope import Event, content_hash, storage_id
from events.errors import Rejected

ASIDE: Final = "aside/"
LINE_KEPT_BYTES: Final = 16 * 1024  # a longer line was cut, and cannot be read again
UNSTORABLE: Final = "unstorable"


def wrongly_refused(evidence: Evidence | None, letter: Document) -> str | None:
    """Return why the refusal does not hold; None where it does. Without evidence the run is unknown."""
    if str(letter["_id"]).startswith(ASIDE):
        return _set_aside(evidence, letter)
    line = str(letter.get("line", "")).encode()
    if len(line) >= LINE_KEPT_BYTES:
        return None
    read = [decoded.outcome for decoded in decode_ndjson(line)]
    outcome = read[0] if len(read) == 1 else None
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
            return (
                None if evidence is not None and _contradicts(evidence, event) else "nothing contradicts it"
            )
        case "unknown_run":
            is_late = evidence is not None and evidence.run["createdAt"] < letter["at"]
            return "the run existed" if is_late else None
        case "forbidden":
            return "its own run token sent it" if _is_own(letter, event) else None
        case "illegal_transition":
            return None if event.sequence is None else "an event with a sequence decides nothing"
        case "over_budget":
            return None  # a count of bytes that other lines have raised since
        case code:
            return f"no line is refused as {code!r}"


def _is_own(letter: Document, event: Event) -> bool:
    """Say whether the holder of the attempt sent it, who may say all but what decides."""
    return event.sequence is not None and letter["principal"] == f"{event.run_id}/a{event.attempt}"


def _contradicts(evidence: Evidence, event: Event) -> bool:
    """Say whether the log holds another event under this id, or at this position."""
    identity = storage_id(event.run_id, event.source, event.id)
    for stored in evidence.log:
        if stored["_id"] == identity:
            return bool(stored["hash"] != content_hash(event))
    return event.sequence is not None and event.sequence in evidence.sequences(event.attempt)


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
    if letter["code"] == "foreign_key":
        prefix = artifact_prefix(evidence.run_id, attempt)
        keys = [str(event.data.get("key")) for event in own if event.sequence == sequence]
        return None if any(not key.startswith(prefix) for key in keys) else "its key is the attempt's own"
    return f"no event is set aside as {letter['code']!r}"
