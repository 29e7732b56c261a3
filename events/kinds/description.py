"""The description of a kind for people and programs, pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from events.kinds.fields import schema_of
from events.kinds.kind import Kind


def described(kind: Kind) -> dict[str, Any]:
    """Return what a kind does and takes, as the API tells it."""
    return {
        "name": kind.name,
        "says": kind.says,
        "isOpen": kind.queue.is_open,
        "stages": list(kind.stages),
        "specSchema": schema_of(kind.spec),
        "example": dict(kind.example),
        "labels": dict(kind.labels),
        "resultSets": [
            {"name": each.name, "title": each.title, "columns": [asdict(column) for column in each.columns]}
            for each in kind.results
        ],
        "headline": [asdict(column) for column in kind.headline],
        "needs": list(kind.needs),
    }
