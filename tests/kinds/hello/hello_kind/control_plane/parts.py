"""The greetings of a run."""

from __future__ import annotations

from control_plane.reads.kinds.parts import KindPart, documents_of
from hello_kind import GREETINGS

PARTS = (
    KindPart(
        name=GREETINGS, title="Greetings", rank=60, columns=("to", "text"), read=documents_of(GREETINGS)
    ),
)
