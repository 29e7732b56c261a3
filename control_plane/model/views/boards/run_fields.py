"""Fields of runs that people name: `spec.PATH`, `label.NAME`, `summary.NAME`; pure.

Law: a name is checked before it comes near a query: the path of a field is a `FIELD_NAME`.
The dots in the name of a label divide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from events.kinds.declaring.spec import FIELD_NAME, value_at
from events.kinds.results import COLUMN_NAME
from events.runtime.errors import Rejected

FIELD_CHARS_MAX: Final = 200
FIELDS_MAX: Final = 8  # columns of one list
BAD_FIELD: Final = "bad_field"

Place = Literal["spec", "label", "summary"]
_NAMES: Final[Mapping[Place, re.Pattern[str]]] = {
    "spec": re.compile(FIELD_NAME),
    "label": re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}"),
    "summary": re.compile(COLUMN_NAME),
}


@dataclass(frozen=True, slots=True)
class RunField:
    """One field: where it stands, and its name there; `default` is what a specification means without it."""

    place: Place
    name: str
    default: Any = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.place}.{self.name}"

    @property
    def stored(self) -> str:
        """The stored field that holds it; labels are read whole, because their names have dots."""
        return "labels" if self.place == "label" else str(self)

    def of(self, run: Mapping[str, Any], spec: Any) -> Any:
        """Return the value of a stored run and its specification; None where it has none."""
        if self.place == "spec":
            return value_at(spec, self.name, self.default)
        named = run.get("labels" if self.place == "label" else "summary")
        return named.get(self.name) if isinstance(named, Mapping) else None


def read_field(text: str, places: Iterable[Place] = ("spec", "label", "summary")) -> RunField:
    """Return the field that a text names. Raises `Rejected` that says how a name looks."""
    place, _, name = text.partition(".")
    for each in places:
        if each == place and len(text) <= FIELD_CHARS_MAX and _NAMES[each].fullmatch(name):
            return RunField(each, name)
    known = " or ".join(f"{each}.{'PATH' if each == 'spec' else 'NAME'}" for each in places)
    raise Rejected(BAD_FIELD, f"{text[:60]!r} is no field: name one as {known}, such as {_example(places)}")


def read_fields(texts: Iterable[str]) -> Sequence[RunField]:
    """Return the fields that texts name, each once, divided by commas or not. Raises `Rejected`."""
    parts = dict.fromkeys(part.strip() for text in texts for part in text.split(","))
    fields = [read_field(each) for each in parts if each]
    if len(fields) > FIELDS_MAX:
        raise Rejected(BAD_FIELD, f"{len(fields)} columns are too many; {FIELDS_MAX} are the most")
    return fields


def _example(places: Iterable[Place]) -> str:
    examples = {"spec": "spec.seconds", "label": "label.team", "summary": "summary.value"}
    return next(examples[each] for each in places)
