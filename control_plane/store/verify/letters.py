"""Decodes the lines of dead letters again, pure."""

from __future__ import annotations

from collections.abc import Iterable

from control_plane.store.verify.evidence import Document
from events.codec import Refusal, decode_structured
from events.envelope import Event, storage_id


def asked_for(run_id: str, letters: Iterable[Document]) -> set[str]:
    """Return the ids of events by which it is judged whether lines were refused rightly."""
    events = map(read, letters)
    return {storage_id(run_id, each.source, each.id) for each in events if isinstance(each, Event)}


def text_of(letter: Document) -> str:
    """Return the line as it was kept, which may be its beginning."""
    return str(letter.get("line", ""))


def read(letter: Document) -> Event | Refusal:
    """Read the line again, as one event: a body of one event may have line breaks inside."""
    return decode_structured(text_of(letter).encode())
