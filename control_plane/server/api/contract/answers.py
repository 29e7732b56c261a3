"""The types of answers in the OpenAPI document; the values themselves are plain JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from events.lifecycle import Status

OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}

Items = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "A page of a list; `next` is the `after` of the next one.",
            "required": ["items"],
            "properties": {
                "items": {"type": "array", "items": OBJECT},
                "next": {"type": ["string", "null"]},
            },
        }
    ),
]
Run = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            **OBJECT,
            "description": "A run with its attempts, stages and validations.",
            "required": ["id", "kind", "status", "attempt", "priority", "createdAt"],
            "properties": {
                "id": {"type": "string"},
                "kind": {"type": "string"},
                "status": {"enum": [*Status]},
                "attempt": {"type": "integer", "minimum": 0},
                "priority": {"type": "integer"},
                "createdAt": {"type": "string", "format": "date-time"},
            },
        }
    ),
]
