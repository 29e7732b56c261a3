"""The ideas that an ideation found, as part of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from control_plane.reads.kinds.parts import KindPart, documents_of
from events.formatting import idea_name
from events.kinds.ideation import IDEAS

Json = dict[str, Any]


def of_latest(documents: Sequence[Json]) -> Sequence[Json]:
    """Return a row for each idea of the latest attempt that found any."""
    found = next((each for each in documents if each["ideas"]), None)
    if found is None:
        return []
    return [
        {"number": number, "name": idea_name(idea), "claim": idea.get("Short Hypothesis")}
        for number, idea in enumerate(found["ideas"])
        if isinstance(idea, Mapping)
    ]


PARTS: Final = (
    KindPart(
        name="ideas",
        title="Ideas",
        rank=60,
        columns=("number", "name", "claim"),
        read=documents_of(IDEAS),
        rows=of_latest,
        tab="ideas",
    ),
)
