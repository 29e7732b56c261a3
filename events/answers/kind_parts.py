"""The parts of a run that its kind alone has, pure.

Law: in JSON each is a field of the run, under a name that the kind chose. In the struct they are the mapping
`rows`, so that a program reads those of a kind that it has not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from events.answers.runs import Run

ROWS: Final = "rows"
_NAMES: Final = dict(zip(Run.__struct_encode_fields__, Run.__struct_fields__, strict=True))


def spread(run: Run) -> dict[str, Any]:
    """Return the fields of a run by their names in JSON, each part as a field."""
    fields = {name: value for name, field in _NAMES.items() if (value := getattr(run, field)) is not UNSET}
    rows = fields.pop(ROWS)
    return {**fields, **rows}


def gathered(fields: Mapping[str, Any]) -> Run:
    """Return the run whose JSON this is; unknown lists are parts. Raises `msgspec.ValidationError`."""
    rows = {name: each for name, each in fields.items() if name not in _NAMES and isinstance(each, list)}
    return msgspec.convert({**fields, ROWS: rows}, Run)


def in_json(answer: Any) -> Any:
    """Return an answer, or a list of them, as the values of its JSON."""
    if isinstance(answer, list | tuple):
        return [in_json(each) for each in answer]
    return msgspec.to_builtins(spread(answer) if isinstance(answer, Run) else answer)


def with_parts(schema: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of a run with a field for each of the parts `names`."""
    properties = {name: each for name, each in schema["properties"].items() if name != ROWS}
    rows = {"type": "array", "items": {"type": "object"}}
    required = [name for name in schema["required"] if name != ROWS]
    return {
        **schema,
        "properties": {**properties, **dict.fromkeys(names, rows)},
        "required": [*required, *names],
    }
