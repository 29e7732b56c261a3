"""A research idea, pure."""

from __future__ import annotations

import msgspec


class Idea(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A research idea: the seven fields of the AI-Scientist family; plain text fills the hypothesis."""

    short_hypothesis: str = msgspec.field(name="Short Hypothesis")
    name: str = msgspec.field(name="Name", default="")
    title: str = msgspec.field(name="Title", default="")
    related_work: str = msgspec.field(name="Related Work", default="")
    abstract: str = msgspec.field(name="Abstract", default="")
    experiments: str | list[str] = msgspec.field(name="Experiments", default="")
    risks: str | list[str] = msgspec.field(name="Risk Factors and Limitations", default="")


def idea_of(idea: str | Idea) -> Idea:
    """Return `idea` in its seven fields."""
    return idea if isinstance(idea, Idea) else Idea(short_hypothesis=idea)
