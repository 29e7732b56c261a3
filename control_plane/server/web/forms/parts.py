"""The parts of a form that are made from a schema: their fields, the typed texts, and what these say.

Law: an empty field is not sent, and every problem is shown at its field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from control_plane.runs.options import LABELS_MAX
from control_plane.server.api.contract.bodies import AFTER_MAX, Json, StartOptionsBody
from control_plane.server.web.forms.fields import Unfit, read_body, typed_lines
from control_plane.server.web.forms.typed import text_of, value_of
from control_plane.server.web.forms.validation_errors import Path, complaints
from events.formatting import sentence
from events.kinds.declaring.fields import Field, fields_of, schema_of
from events.queue.requirements import LABELS_MAX as POD_LABELS_MAX
from events.queue.requirements import Requirements
from events.text.secret_names import OF_RUN_MAX, fault_of_named

T = TypeVar("T", bound=BaseModel)

LABELS: Final = Field(
    path=("labels",),
    shape="text",
    type="one a line, such as team=vision",
    limits=f"at most {LABELS_MAX}",
    is_long=True,
)
POD_LABELS: Final = Field(
    path=("labels",),
    shape="text",
    type="one a line, such as gpu=h100 or gpus=>=4",
    limits=f"at most {POD_LABELS_MAX}",
    says="Labels of the pod.",
    is_long=True,
)
SECRETS: Final = Field(
    path=("secrets",),
    shape="text",
    type="names, one a line, such as HF_TOKEN",
    limits=f"at most {OF_RUN_MAX}",
    says="Secrets for its environment.",
    is_long=True,
)
AFTER: Final = Field(
    path=("after",),
    shape="text",
    type="ids, one a line; groups as group:NAME",
    limits=f"at most {AFTER_MAX}",
    says="Runs that have to complete first.",
    is_long=True,
)
KEPT: Final = ("secrets", "project")  # by a run whose options are changed, and by its retries
OPTIONS: Final = ("priority", "max_attempts", "queue_limit_s", "not_before", "project")
EMPTY: Final = "say something here"

_STORABLE: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(Json)

# The path and the problem of each value of a body that would be refused, were its fields the whole of it.
Complaints = Callable[[dict[str, Any], bool], Iterator[tuple[Path, str]]]


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
    suggested: Collection[str] = ()  # the fields of which the page has values to choose from

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
    is_suggested: bool = False

    @property
    def hint(self) -> str:
        """The purpose of the field, and what it accepts, unless its choices are listed."""
        words = "" if self.field.choices else self.field.words
        if self.field.has_pairs:
            words = "One a line, NAME=value"
        elif self.field.shape in ("either", "json") and self.field.is_long:
            words = f"{words.removesuffix('JSON')} (JSON)".strip()
        return " ".join(sentence(each) for each in (self.field.says.removesuffix("."), words) if each)

    @property
    def described_by(self) -> str:
        """The ids of the texts that describe it."""
        words = {f"{self.id}-hint": self.hint, f"{self.id}-problem": self.problem}
        return " ".join(id for id, each in words.items() if each)


def option_parts(without: Sequence[str] = ()) -> tuple[Part, Part]:
    """Return the options of a run, as each form that queues one has them; a change does it without `KEPT`."""
    options = {each.name: each for each in fields_of(StartOptionsBody.model_json_schema())}
    named = [options[name] for name in OPTIONS if name not in without]
    typed = [each for each in (LABELS, SECRETS) if each.name not in without]
    asked = [
        POD_LABELS if each.path == POD_LABELS.path else each for each in fields_of(schema_of(Requirements))
    ]
    return (
        Part("What a pod must have", ("requires",), asked, is_aside=True),
        Part("The run itself", (), [*named, *typed], is_aside=True),
    )


def shown(
    parts: Sequence[Part], typed: Mapping[str, str], problems: Mapping[str, str]
) -> list[tuple[Part, list[Input]]]:
    """Return parts as a page shows them, each problem at its field."""
    found, number = [], 0
    for part in parts:
        inputs = []
        for name, field in part.named():
            number += 1
            text = typed_lines(typed.get(name, ""))
            is_suggested = field.path[-1] in part.suggested
            inputs.append(Input(f"f{number}", name, field, text, problems.get(name, ""), is_suggested))
        found.append((part, inputs))
    return found


def typed_as(parts: Sequence[Part], body: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that would say what a body has, by the names of the fields."""
    found = dict[str, str]()
    for part in parts:
        above: Any = body
        for name in part.above:
            above = above.get(name) if isinstance(above, Mapping) else None
        for name, field in part.named():
            if isinstance(above, Mapping) and field.path[-1] in above:
                value = above[field.path[-1]]
                found[name] = _text_of(field, value)
    return found


def body_of(
    parts: Sequence[Part],
    typed: Mapping[str, str],
    wanted: dict[str, Any],
    body: type[T],
    complaining: Complaints,
) -> T:
    """Return the request body that the texts say, over what is `wanted`. Raises `Unfit` with all problems."""
    problems = dict[str, str]()
    for part in parts:
        try:
            _read(part, typed, wanted)
        except Unfit as unfit:
            problems |= unfit.fields
    known = {name for part in parts for name in (part.name, *dict(part.named()))} - {""}
    for path, words in complaining(wanted, not problems):
        name, rest = next(((name, rest) for name, rest in _upwards(path) if name in known), ("", ""))
        problems.setdefault(name, f"{rest}: {words}" if rest else words)
    try:
        made = read_body(body, wanted)
    except Unfit as unfit:
        problems = {**unfit.fields, **problems}
    if problems:
        raise Unfit([f"{name}: {words}".removeprefix(": ") for name, words in problems.items()], problems)
    return made


def values_in(part: Part, typed: Mapping[str, str]) -> dict[str, Any]:
    """Return what the texts of a part say, by field; an empty one is left out. Raises `Unfit`."""
    found: Any = {}
    _read(part, typed, found)
    for name in part.above:
        found = found.get(name, {})
    return dict(found)


def options_in(typed: Mapping[str, str], without: Sequence[str] = ()) -> StartOptionsBody:
    """Return the typed options of a run. Raises `Unfit`."""
    return body_of(option_parts(without), typed, {"requires": {}}, StartOptionsBody, of_requirements)


def options_given(typed: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed options that shall be others, by name; what is empty stays. Raises `Unfit`."""
    given = options_in(typed, KEPT).model_dump(exclude_unset=True)
    return {name: value for name, value in given.items() if name != "requires" or value}


def changed_names() -> set[str]:
    """Return the names of the fields of the options that a change may have."""
    return {name for part in option_parts(KEPT) for name, _ in part.named()}


def of_requirements(wanted: dict[str, Any], _: bool) -> Iterator[tuple[Path, str]]:
    """Yield the path and the problem of each requirement that would be refused."""
    found = complaints(Requirements, wanted["requires"])
    yield from ((("requires", *path), words) for path, words in found.items())


def label_lines(labels: Mapping[str, str]) -> str:
    """Return labels as they are typed."""
    return "\n".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _read(part: Part, typed: Mapping[str, str], wanted: dict[str, Any]) -> None:
    """Put the typed values of a group into the body. Raises `Unfit`."""
    texts = {name: typed_lines(typed.get(name, "")).strip() for name, _ in part.named()}
    is_told, problems = not part.name or any(texts.values()), dict[str, str]()
    for name, field in part.named():
        if texts[name]:
            try:
                value = _value_of(field, texts[name])
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


def _upwards(path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name of a field, then those of the objects above it, each with the rest of the path."""
    for length in range(len(path), 0, -1):
        yield ".".join(path[:length]), ".".join(path[length:])


def _put(wanted: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        wanted = wanted.setdefault(name, {})
    wanted[path[-1]] = value


def _text_of(field: Field, value: Any) -> str:
    if field in (SECRETS, AFTER):
        return "\n".join(value)
    return label_lines(value) if field in (LABELS, POD_LABELS) else text_of(field, value)


def _value_of(field: Field, text: str) -> Any:
    """Return the value of a text, which is not empty. Raises `ValueError` with advice."""
    if field is SECRETS:
        return _secrets(text)
    if field is AFTER:
        return _names(text, AFTER_MAX)
    return _labels(text) if field in (LABELS, POD_LABELS) else value_of(field, text)


def _secrets(text: str) -> list[str]:
    """Return the typed names of secrets, one per line. Raises `ValueError`."""
    names = _names(text, OF_RUN_MAX)
    for name in names:
        if fault := fault_of_named(name):
            raise ValueError(f"{name[:100]}: {fault}")
    return names


def _names(text: str, most: int) -> list[str]:
    """Return the typed names, one per line. Raises `ValueError`."""
    names = [*filter(None, map(str.strip, text.split("\n")))]
    if len(names) > most:
        raise ValueError(f"at most {most} names")
    return names


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
