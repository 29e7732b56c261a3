"""The notes of people as answers, each with what became of it, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from control_plane.model.views.document_mapping import from_document
from events.answers.runs import Note, NoteAnswer
from events.catalog import NoteAnswered
from events.text.truncation import brief

ANSWERS_SHOWN: Final = 40  # of one note
TEXT_CHARS_MAX: Final = 1_000


def answered(notes: Iterable[Any], events: Iterable[Mapping[str, Any]]) -> list[Note | str]:
    """Return notes with their answers; of several about the same the last one counts.

    `events` are those of the answers. What cannot be read is left out; notes that were cut are told as text.
    """
    found: dict[int, dict[str, NoteAnswer]] = {}
    for event in sorted(events, key=lambda each: (each["attempt"], each.get("sequence") or 0)):
        fact = _fact(event)
        if fact is not None:
            about = str(brief(fact.about, TEXT_CHARS_MAX))
            found.setdefault(fact.number, {})[about] = NoteAnswer(
                outcome=fact.outcome,
                about=about,
                says=str(brief(fact.says, TEXT_CHARS_MAX)),
                node=None if fact.node is None else str(brief(fact.node, TEXT_CHARS_MAX)),
            )
    return [
        from_document(Note, each, answers=_shown(found.get(each.get("number", 0), {})))
        if isinstance(each, Mapping)
        else str(each)
        for each in notes
    ]


def _shown(answers: Mapping[str, NoteAnswer]) -> Sequence[NoteAnswer]:
    return [*answers.values()][:ANSWERS_SHOWN]


def _fact(event: Mapping[str, Any]) -> NoteAnswered | None:
    try:
        return msgspec.convert(event["data"], NoteAnswered)
    except msgspec.ValidationError:
        return None
