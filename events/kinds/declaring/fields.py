"""The fields of a specification, read from its JSON Schema, pure.

Law: forms, help and checks of input take a kind's fields from here, and name no kind. A schema may come from
another machine: what cannot be read in it is a field of any JSON.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import msgspec

from events.kinds.declaring.spec import Spec

Json = Mapping[str, Any]
Shape = Literal["integer", "number", "text", "choice", "either", "json", "group"]

NOTHING: Final = msgspec.UNSET
SHOWN_CHARS_MAX: Final = 200
PATTERN_CHARS_MAX: Final = 50  # of one that is told: what is longer is no help to a person
NOT_OF_PATTERN: Final = "It has a character that is not taken here, or too many"  # where it is not told
REFERENCES_MAX: Final = 8  # one that leads to another
# Limits of JSON Schema, in the order in which they are told.
LIMITS: Final[Mapping[str, str]] = {
    "exclusiveMinimum": "above {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
}
TYPES: Final[Mapping[str, str]] = {"string": "text", "boolean": "true or false", "object": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a specification; `path` leads to it from the top.

    `type` and `limits` are words for people. A `choice` takes one of `choices`. A `group` is an object of
    `fields`, none of which is a group. An `either` takes text, or JSON of a type in `takes`; `json` takes
    any. One that `is_long` needs several lines; one that `has_pairs` is an object of texts by any names.
    """

    path: tuple[str, ...]
    shape: Shape
    type: str
    limits: str = ""
    says: str = ""
    default: Any = NOTHING
    is_required: bool = False
    is_nullable: bool = False
    is_long: bool = False
    has_pairs: bool = False
    choices: tuple[Any, ...] = ()
    takes: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = ()

    @property
    def name(self) -> str:
        """Its path with dots, as `-p` takes it."""
        return ".".join(self.path)

    @property
    def words(self) -> str:
        """Its type and its limits."""
        return f"{self.type}, {self.limits}" if self.limits else self.type

    @property
    def texts(self) -> tuple[str, ...]:
        """Its choices as they are typed."""
        return tuple(map(shown, self.choices))

    @property
    def default_words(self) -> str:
        """Its default as text; empty where it has none, or null."""
        return "" if self.default is NOTHING or self.default is None else shown(self.default)


@cache
def schema_of(form: type[msgspec.Struct]) -> Json:
    """Return the JSON Schema of a specification; a type that msgspec does not know is any JSON."""
    return msgspec.json.schema(form, schema_hook=lambda kind: {"title": kind.__name__})


def fields_of(schema: Json) -> tuple[Field, ...]:
    """Return the fields of a schema, in its order; none if it is not the schema of an object."""
    definitions = _mapping(_mapping(schema).get("$defs"))
    return tuple(_fields(_resolved(schema, definitions), definitions, ()))


def is_limit(field: Field) -> bool:
    """Say whether a field limits an attempt, as that of every kind does."""
    return field.name in Spec.__struct_fields__


def arranged(fields: Sequence[Field]) -> list[Field]:
    """Return the fields, those that are required first, and the limits of an attempt last."""
    return sorted(fields, key=lambda each: (is_limit(each), not each.is_required))


def flat(fields: Sequence[Field]) -> Iterator[Field]:
    """Yield the fields, those of a group in its place."""
    for each in fields:
        yield from each.fields if each.shape == "group" else (each,)


def shown(value: Any) -> str:
    """Return a value as it is typed, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


def _fields(node: Json, definitions: Json, above: tuple[str, ...]) -> Iterator[Field]:
    required = node.get("required")
    for name, each in _mapping(node.get("properties")).items():
        is_required = isinstance(required, list | tuple) and name in required
        yield _field((*above, str(name)), _resolved(each, definitions), definitions, is_required)


def _field(path: tuple[str, ...], node: Json, definitions: Json, is_required: bool) -> Field:
    several = node.get("anyOf")
    variants = [_resolved(each, definitions) for each in several] if isinstance(several, list) else [node]
    others = [each for each in variants if each.get("type") != "null"]
    only = others[0] if len(others) == 1 else {}
    types = {_type(each) for each in others}
    default = node.get("default", NOTHING)
    is_nullable = len(others) < len(variants)
    takes_null = is_nullable and default is not None
    choices = _choices(only, takes_null=takes_null)
    takes = frozenset(types - {"string"} | ({"null"} if takes_null else set()))
    shape = "choice" if choices else _shape(types, takes)
    inner = tuple(_fields(only, definitions, path)) if len(path) == 1 and "properties" in only else ()
    if inner and all(each.shape != "json" for each in inner):
        shape = "group"
    return Field(
        path=path,
        shape=shape,
        type=" or ".join(dict.fromkeys(_type_words(each, definitions) for each in others)) or "JSON",
        limits=", ".join(_limits(only)),
        says=_says(node),
        default=default,
        is_required=is_required,
        is_nullable=is_nullable,
        is_long=shape == "json"
        or (shape == "either" and bool(takes & {"object", "array"}))
        or _is_long(only),
        has_pairs=shape == "json" and not is_nullable and _has_pairs(only, definitions),
        choices=choices,
        takes=takes,
        fields=inner if shape == "group" else (),
    )


def _shape(types: set[str], takes: frozenset[str]) -> Shape:
    if types == {"integer"}:
        return "integer"
    if types and types <= {"integer", "number"}:
        return "number"
    if types == {"string"} and not takes:
        return "text"
    return "either" if "string" in types and "" not in types else "json"


def _choices(node: Json, *, takes_null: bool) -> tuple[Any, ...]:
    """Return the values that a field can have, where they are few and each is typed in another way."""
    values = [True, False] if _type(node) == "boolean" else _list(node.get("enum"))
    if not values:
        return ()
    if takes_null and None not in values:
        values = [*values, None]
    texts = {shown(each) for each in values}
    return tuple(values) if len(texts) == len(values) and "" not in texts else ()


def _type(node: Json) -> str:
    """Return the JSON type that a schema names; empty where it names none or several."""
    found = node.get("type")
    return found if isinstance(found, str) else ""


def _type_words(node: Json, definitions: Json) -> str:
    values = _list(node.get("enum"))
    if values:
        return f"one of {', '.join(shown(each) for each in values)}"
    kind = _type(node)
    if kind == "object" and isinstance(node.get("title"), str):
        return str(node["title"])
    if kind == "array":
        inner = _resolved(node.get("items"), definitions)
        return f"list of {_type_words(inner, {})}" if inner else "list"
    if node.get("format") == "date-time":
        return "moment, such as 2026-01-31T17:00:00Z"
    words = TYPES.get(kind, kind or "JSON")
    return f"{words} ({node['format']})" if isinstance(node.get("format"), str) else words


def _limits(node: Json) -> Iterator[str]:
    for name, words in LIMITS.items():
        if name in node and not (name == "pattern" and len(str(node[name])) > PATTERN_CHARS_MAX):
            yield re.sub(r"\b1 (character|entr)(?:s|ies)\Z", _one, words.format(_bare(shown(node[name]))))


def _bare(limit: str) -> str:
    """Return a limit without what says that a pattern is of the whole text."""
    return limit.removeprefix(r"\A").removesuffix(r"\Z")


def _one(found: re.Match[str]) -> str:
    return "1 entry" if found[1] == "entr" else f"1 {found[1]}"


def _says(node: Json) -> str:
    """Return the first paragraph of a field's description, in one line."""
    found = node.get("description")
    text = inspect.cleandoc(found).partition("\n\n")[0] if isinstance(found, str) else ""
    return " ".join(text.split())


def _has_pairs(node: Json, definitions: Json) -> bool:
    """Say whether an object has texts alone, by names that nobody has declared."""
    each = _resolved(node.get("additionalProperties"), definitions)
    return _type(node) == "object" and "properties" not in node and _type(each) == "string"


def _is_long(node: Json) -> bool:
    most = node.get("maxLength")
    return isinstance(most, int) and most > SHOWN_CHARS_MAX


def _resolved(node: Any, definitions: Json) -> Json:
    """Return a schema merged with its reference; its own entries take precedence."""
    found = _mapping(node)
    for _ in range(REFERENCES_MAX):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            return found
        own = {name: each for name, each in found.items() if name != "$ref"}
        found = {**_mapping(definitions.get(reference.rpartition("/")[2])), **own}
    return {}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
