"""The types of answers in the OpenAPI document; the values themselves are plain JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

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


class Answer(BaseModel):
    """Root of the answers that are told field by field."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class ColumnAnswer(Answer):
    """A column of a result set: its unit, and which direction is better."""

    name: str
    unit: str
    better: Literal["higher", "lower"] | None


class ResultSetAnswer(Answer):
    """Rows that runs of a kind record."""

    name: str
    columns: list[ColumnAnswer]


class KindAnswer(Answer):
    """A kind of run; the control plane alone makes runs of one that is not open.

    `spec_schema` is the JSON Schema of its specification, `example` one that can be run. `labels` maps a
    label to the field that it is taken from. `needs` are the modules of a pod that runs it, `live_pods` the
    number of pods that take its runs now.
    """

    name: str
    says: str
    is_open: bool
    stages: list[str]
    spec_schema: dict[str, Any]
    example: dict[str, Any]
    labels: dict[str, str]
    result_sets: list[ResultSetAnswer]
    needs: list[str]
    live_pods: int


class KindsAnswer(Answer):
    """Every kind, by name."""

    items: list[KindAnswer]
    next: None = None


class ComparedField(BaseModel):
    """One field, with its value in each run; null where a run has none."""

    field: str
    differs: bool
    values: list[Any]


class Comparison(BaseModel):
    """Runs side by side."""

    runs: list[str]
    fields: list[ComparedField]
