"""The parameters that a group varies: fields of a specification by name; dots lead into mappings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from events.runtime.errors import Rejected

Values = Mapping[str, Any]  # parameter to value


def assigned(spec: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return a specification with these values in their places.

    Raises `Rejected` for a name that leads into what has no fields.
    """
    made = dict(spec)
    for name, value in values.items():
        *path, last = name.split(".")
        place = made
        for part in path:
            inner = place.get(part, {})
            if not isinstance(inner, Mapping):
                message = f"parameter {name!r}: {part!r} is {inner!r}, and has no fields"
                raise Rejected("bad_parameter", message[:500])
            place[part] = place = dict(inner)
        place[last] = value
    return made


def in_json(value: Any) -> bytes:
    """Return a posted or stored value as JSON, the same for equal ones.

    Whole numbers beyond 32 bits come from the store in a type of the driver's own.
    """
    return msgspec.json.encode(value, enc_hook=int, order="deterministic")
