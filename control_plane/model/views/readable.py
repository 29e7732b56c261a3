"""Stored documents as answers whose every field has its declared type, whatever a hand made of them; pure.

Law: a document that is no such answer is named with what is wrong in it, and holds up no other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from control_plane.model.views.document_mapping import from_document
from events.answers.answer import Answer
from events.runtime.errors import Conflict, Rejected

View = TypeVar("View", bound=Answer)
Seen = TypeVar("Seen")

ID_CHARS_MAX: Final = 100
PROBLEM_CHARS_MAX: Final = 300
# What reading a document of another form than its own meets.
_FAULTS: Final = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    Rejected,
)


class UnreadableDocument(Conflict):
    """A stored document is damaged: somebody has to mend or remove it."""

    def __init__(self, what: str, identity: str, problem: str) -> None:
        message = f"the stored {what} {identity} cannot be read: {problem}; mend or remove this document"
        super().__init__("unreadable_document", message)
        self.identity = identity
        self.problem = problem


@contextmanager
def reading_of(what: str, identity: Any) -> Iterator[None]:
    """Translate what is wrong with a document. Raises `UnreadableDocument`."""
    try:
        yield
    except UnreadableDocument:
        raise
    except _FAULTS as error:
        named = identity if isinstance(identity, str) else repr(identity)
        problem = str(error) if isinstance(error, msgspec.MsgspecError | Rejected) else repr(error)
        raise UnreadableDocument(what, named[:ID_CHARS_MAX], problem[:PROBLEM_CHARS_MAX]) from error


def readable(kind: type[View], what: str, document: Mapping[str, Any], **made: Any) -> View:
    """Return a stored document as a struct of the declared types. Raises `UnreadableDocument`."""
    with reading_of(what, document.get("_id")):
        return typed(from_document(kind, document, **made))


def those_readable(
    what: str, documents: Iterable[Mapping[str, Any]], view: Callable[[Mapping[str, Any]], Seen]
) -> list[Seen]:
    """Return what a view makes of these documents; damaged ones are left out, which lists name."""
    found: list[Seen] = []
    for document in documents:
        with suppress(UnreadableDocument), reading_of(what, document.get("_id")):
            found.append(view(document))
    return found


def typed(answer: View) -> View:
    """Return an answer whose fields have their types. Raises `msgspec.MsgspecError`, `TypeError`."""
    _decoder(type(answer)).decode(msgspec.json.encode(answer))
    return answer


@cache
def _decoder(kind: type[Answer]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
