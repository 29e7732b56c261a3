"""The form of a new run, made from the schema of its kind: its fields, and the run that it describes.

Law: no kind is named here. An empty field is not sent, and every problem is shown at its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from control_plane.runs.options import LABELS_MAX
from control_plane.server.api.contract.bodies import Json, NewRun
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.forms.typed import value_of
from control_plane.server.web.forms.validation_errors import complaints
from events.formatting import sentence
from events.kinds import problem_with
from events.kinds.fields import Field, arranged, fields_of, is_limit, schema_of
from events.kinds.kind import Kind
from events.queue.requirements import Requirements

LABELS: Final = Field(
    path=("labels",),
    shape="text",
    type="one a line, such as team=vision",
    limits=f"at most {LABELS_MAX}",
    is_long=True,
)
OPTIONS: Final = ("priority", "max_attempts", "queue_limit_s", "not_before")
EMPTY: Final = "say something here"

_NAMED: Final = re.compile(r"`([^`]*)`")
_STORABLE: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(Json)


@dataclass(frozen=True, slots=True)
class Part:
    """A group of fields; `above` is the path of the object that contains them.

    A group that is `aside` is collapsed at first.
    """

    title: str
    above: tuple[str, ...]
    fields: Sequence[Field]
    says: str = ""
    is_aside: bool = False

    @property
    def name(self) -> str:
        """The name of their group; empty if they are in none."""
        return ".".join(self.above) if len(self.above) > 1 else ""

    def named(self) -> Iterator[tuple[str, Field]]:
        """Yield each field with its name in the form."""
        for each in self.fields:
            yield ".".join((*self.above, each.path[-1])), each


@dataclass(frozen=True, slots=True)
class Input:
    """A field as the page shows it: the typed text, and its problem."""

    id: str
    name: str
    field: Field
    text: str
    problem: str

    @property
    def hint(self) -> str:
        """The purpose of the field, and what it accepts, unless its choices are listed."""
        words = "" if self.field.choices else self.field.words
        if self.field.shape in ("either", "json") and self.field.is_long:
            words = f"{words.removesuffix('JSON')} (JSON)".strip()
        return " ".join(sentence(each) for each in (self.field.says.removesuffix("."), words) if each)

    @property
    def described_by(self) -> str:
        """The ids of the texts that describe it."""
        words = {f"{self.id}-hint": self.hint, f"{self.id}-problem": self.problem}
        return " ".join(id for id, each in words.items() if each)


@dataclass(frozen=True, slots=True)
class RunForm:
    """A new run of `kind`: the typed texts, by the names of the fields."""

    kind: Kind
    typed: Mapping[str, str]

    def parts(self) -> Iterator[Part]:
        """Yield the fields: first those of the specification, and among them the required ones."""
        fields = arranged(fields_of(schema_of(self.kind.spec)))
        limits = [each for each in fields if is_limit(each)]
        own = [each for each in fields if not is_limit(each)]
        yield Part("", ("spec",), [each for each in own if each.shape != "group"])
        for each in own:
            if each.shape == "group":
                yield Part(each.name, ("spec", each.name), each.fields, each.says)
        yield Part("Limits of an attempt", ("spec",), limits, is_aside=True)
        yield Part("What a pod must have", ("requires",), fields_of(schema_of(Requirements)), is_aside=True)
        options = {each.name: each for each in fields_of(NewRun.model_json_schema())}
        yield Part("The run itself", (), [*(options[name] for name in OPTIONS), LABELS], is_aside=True)

    def shown(self, problems: Mapping[str, str]) -> list[tuple[Part, list[Input]]]:
        """Return the form as the page shows it, each problem at its field."""
        found, number = [], 0
        for part in self.parts():
            inputs = []
            for name, field in part.named():
                number += 1
                text = typed_lines(self.typed.get(name, ""))
                inputs.append(Input(f"f{number}", name, field, text, problems.get(name, "")))
            found.append((part, inputs))
        return found

    def body(self) -> NewRun:
        """Return the run. Raises `Unfit` with all problems at once."""
        wanted: dict[str, Any] = {"kind": self.kind.name, "spec": {}, "requires": {}}
        problems = dict[str, str]()
        for part in self.parts():
            try:
                self._read(part, wanted)
            except Unfit as unfit:
                problems |= unfit.fields
        known = {name for part in self.parts() for name in (part.name, *dict(part.named()))} - {""}
        for path, words in self._complaints(wanted, is_whole=not problems):
            name, rest = next(((name, rest) for name, rest in _upwards(path) if name in known), ("", ""))
            problems.setdefault(name, f"{rest}: {words}" if rest else words)
        try:
            body = read_body(NewRun, wanted)
        except Unfit as unfit:
            problems = {**unfit.fields, **problems}
        if problems:
            raise Unfit([f"{name}: {words}".removeprefix(": ") for name, words in problems.items()], problems)
        return body

    def _read(self, part: Part, wanted: dict[str, Any]) -> None:
        """Put the typed values of a group into the specification. Raises `Unfit`."""
        texts = {name: typed_lines(self.typed.get(name, "")).strip() for name, _ in part.named()}
        is_told, problems = not part.name or any(texts.values()), dict[str, str]()
        for name, field in part.named():
            if texts[name]:
                try:
                    value = _labels(texts[name]) if field is LABELS else value_of(field, texts[name])
                    _STORABLE.validate_python({name: value})
                except ValidationError as error:
                    problems[name] = error.errors()[0]["msg"].removeprefix("Value error, ")
                except ValueError as error:
                    problems[name] = str(error)
                else:
                    _put(wanted, (*part.above, field.path[-1]), value)
            elif field.is_required and is_told:
                problems[name] = EMPTY
        if problems:
            raise Unfit([*problems.values()], problems)

    def _complaints(self, wanted: Json, *, is_whole: bool) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the path and the problem of each value that would be refused."""
        for name, form in (("spec", self.kind.spec), ("requires", Requirements)):
            found = complaints(form, wanted[name])
            yield from (((name, *path), words) for path, words in found.items())
            if name == "spec" and is_whole and not found:
                problem = problem_with(self.kind, msgspec.convert(wanted[name], form))
                if problem is not None:
                    named = _NAMED.search(problem)
                    yield (name, *(named[1].split(".") if named else ())), problem


def _upwards(path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name of a field, then those of the objects above it, each with the rest of the path."""
    for length in range(len(path), 0, -1):
        yield ".".join(path[:length]), ".".join(path[length:])


def _put(wanted: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        wanted = wanted.setdefault(name, {})
    wanted[path[-1]] = value


def _labels(text: str) -> dict[str, str]:
    """Return the typed labels, one per line. Raises `ValueError`."""
    found = {}
    lines = [*filter(None, map(str.strip, text.split("\n")))]
    if len(lines) > LABELS_MAX:
        raise ValueError(f"at most {LABELS_MAX} labels")
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise ValueError(f"{line[:100]!r} is not name=value, such as team=vision")
        found[name.strip()] = value.strip()
    return found
