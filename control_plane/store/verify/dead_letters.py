"""Decodes the lines of dead letters again, pure."""

from __future__ import annotations

from collections.abc import Iterable

from control_plane.store.verify.evidence import Document
from events.codec import Refusal, decode_structured
from events.envelope import Event, storage_id


def asked_for(run_id: str, letters: Iterable[Document]) -> set[str]:
    """Return the ids of the events that are needed to check refusals."""
    events = map(read, letters)
    return {storage_id(run_id, each.source, each.id) for each in events if isinstance(each, Event)}


def text_of(letter: Document) -> str:
    """Return the line as stored, which may be cut."""
    return str(letter.get("line", ""))


def read(letter: Document) -> Event | Refusal:
    """Decode the line again, as one event: a body of one event may contain line breaks."""
    return decode_structured(text_of(letter).encode())
