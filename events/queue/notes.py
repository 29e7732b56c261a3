"""What people tell a run while it works."""

from __future__ import annotations

import msgspec


class Note(msgspec.Struct, frozen=True, tag_field="frame", tag="note"):
    """Parent: a person wants the pipeline to know this; `number` counts the run's notes from 1."""

    number: int
    text: str
    by: str
