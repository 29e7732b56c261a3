"""What routes answer with, as far as the OpenAPI document tells; the values themselves are plain JSON."""

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
Comparison = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "Each field with its value in each of `runs`, null where it has none.",
            "required": ["runs", "fields"],
            "properties": {
                "runs": {"type": "array", "items": {"type": "string"}},
                "fields": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["field", "differs", "values"],
                        "properties": {
                            "field": {"type": "string"},
                            "differs": {"type": "boolean"},
                            "values": {"type": "array", "items": {}},
                        },
                    },
                },
            },
        }
    ),
]
