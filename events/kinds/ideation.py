"""Ideation: ideas looked for on a hypothesis, pure.

Its runs wait in a queue of their own, and the control plane makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from events.kinds.declaring.fact import Fact, Name
from events.kinds.declaring.queues import REQUESTS
from events.kinds.declaring.spec import TITLE_MAX, Positive, Spec
from events.kinds.idea import Idea
from events.kinds.kind import DocumentSet, Index, Kind, Noun, Position, Projected

EARLIER_MAX: Final = 200  # ideas of the fleet that a new one is held against
IDEAS: Final = "ideas"  # the collection, and the key of an attempt's document in it


class IdeationSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ideas wanted for a hypothesis; it waits in `ideation_requests`, not among the runs.

    `earlier` is what the fleet had already when the request was made, the newest first.
    """

    title: str
    idea: str
    additional_context: str = ""
    reflections: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    max_num_generations: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5
    earlier: Annotated[list[Idea], msgspec.Meta(max_length=EARLIER_MAX)] = []
    max_cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_tokens: Positive | None = None


class IdeationStarted(Fact, frozen=True):
    """The generation of ideas has started."""


class IdeationGenerated(Fact, frozen=True):
    """Ideas were generated, each with seven fields; `unfinished` are drafts that were not completed."""

    ideas: list[dict[str, Any]]
    unfinished: list[dict[str, Any]] = []


class IdeationFailed(Fact, frozen=True):
    """No idea was generated, and why; `unfinished` are drafts that were not completed."""

    code: Name
    message: str
    unfinished: list[dict[str, Any]] = []


def _title(spec: IdeationSpec) -> str:
    return spec.title.strip()[:TITLE_MAX]


def _generated(fact: IdeationGenerated, position: Position) -> Iterable[Projected]:
    return (_ideas(fact.ideas, fact.unfinished, position),)


def _failed(fact: IdeationFailed, position: Position) -> Iterable[Projected]:
    return (_ideas([], fact.unfinished, position),) if fact.unfinished else ()


def _ideas(found: list[dict[str, Any]], unfinished: list[dict[str, Any]], position: Position) -> Projected:
    """Keep ideas unchanged: whether one can be run is checked when it is used."""
    return Projected(IDEAS, IDEAS, {"ideas": found, "unfinished": unfinished, "generatedAt": position.at})


def _count(data: Mapping[str, Any]) -> str:
    return f"{len(data['ideas'])} ideas, {len(data.get('unfinished', []))} unfinished"


KIND: Final = Kind(
    name="ideation",
    says="Generates ideas for a hypothesis, and checks each for novelty against the fleet's earlier ideas.",
    spec=IdeationSpec,
    example={"title": "Small data", "idea": "Which augmentation helps on small tables?"},
    pipeline="stages.kinds.ideation.pipeline",
    package="control_plane.kinds.ideation",
    title=_title,
    queue=REQUESTS,
    uses=frozenset({"model", "tools"}),
    facts={
        "ai.ideation.started": IdeationStarted,
        "ai.ideation.generated": IdeationGenerated,
        "ai.ideation.failed": IdeationFailed,
    },
    documents=(
        DocumentSet(
            IDEAS,
            "the ideas that an attempt generated, and its unfinished drafts",
            ("ideas", "unfinished", "generatedAt"),
        ),
    ),
    nouns=(
        Noun(
            collection="hypotheses",
            singular="hypothesis",
            says="Create hypotheses, choose ideas, launch runs.",
            writers={
                "propose": (
                    "title",
                    "idea",
                    "additionalContext",
                    "createdBy",
                    "createdAt",
                ),
                "propose, upkeep": ("ideation",),
                "propose, upkeep, launch": ("ideaJson",),
                "launch": ("ideaIndex",),
            },
            indexes=(
                Index("by_time", (("createdAt", -1),)),
                Index("by_standing", (("ideation.isOver", 1), ("_id", 1))),
            ),
            added={"ideation.isOver": False},
            command="podfleet.kinds.ideation",
        ),
    ),
    projections={IdeationGenerated: _generated, IdeationFailed: _failed},
    lines={"ai.ideation.generated": _count},
    codes={
        "NO_IDEA": "Add detail to the idea or its context, or propose it again on a pod with a model key.",
    },
)
