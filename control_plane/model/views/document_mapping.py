"""Maps stored documents to structs: field by field, under the name that each has in JSON, pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from control_plane.model.presentation import plain
from events.answers.answer import Answer

View = TypeVar("View", bound=Answer)


def from_document(kind: type[View], document: Mapping[str, Any], **made: Any) -> View:
    """Return a stored document as a struct, with the fields `made` as they are given.

    What the struct may leave out is left out where it is not stored; anything else that is not is null.
    """
    for field, name, default, read in _fields(kind):
        if field not in made:
            made[field] = read(document[name]) if name in document else default
    return kind(**made)


@cache
def stored_names(kind: type[Answer]) -> Mapping[str, str]:
    """Return the stored name of each field, which is its name in JSON, or `_id`."""
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return {field: "_id" if name == "id" else name for field, name in names}


@cache
def _fields(kind: type[Answer]) -> tuple[tuple[str, str, Any, Callable[[Any], Any]], ...]:
    """Return of each field its own name, the stored one, its value where nothing is, and what reads it."""
    return tuple(
        (
            each.name,
            stored_names(kind)[each.name],
            _default(each),
            _reader(each.type),
        )
        for each in msgspec.structs.fields(kind)
    )


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _reader(annotation: Any) -> Callable[[Any], Any]:
    """Return what reads a value of this type: a mapping as the struct that it is, anything else as JSON."""
    if get_origin(annotation) is list:
        read = _reader(get_args(annotation)[0])
        return plain if read is plain else partial(_each, read)
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Answer):
            return partial(_part, kind, str in kinds)
        if get_origin(kind) is list:
            return _reader(kind)
    return plain


def _part(kind: type[Answer], may_be_text: bool, value: Any) -> Any:
    if isinstance(value, Mapping):
        return from_document(kind, value)
    return value if may_be_text and isinstance(value, str) else None  # what was cut away is told as text


def _each(read: Callable[[Any], Any], values: Any) -> list[Any]:
    found = map(read, values if isinstance(values, list) else ())
    return [each for each in found if each is not None]
