"""The idea of a hypothesis: its author's own, or the chosen generated one, pure.

It also lists earlier ideas of the fleet for a new request for ideas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from events.kinds.ideation import EARLIER_MAX
from events.runtime.errors import Conflict, Rejected

Idea = str | Mapping[str, Any]

CLAIM_CHARS_MAX: Final = 500  # of an earlier idea, enough to tell it from another
TITLE_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Ideas:
    """The ideas of a hypothesis; `choice` is the one that a person chose, None without a choice.

    `is_under_way` says that more ideas may follow.
    """

    own: Idea
    found: Sequence[Mapping[str, Any]]
    choice: int | None
    is_under_way: bool

    @property
    def index(self) -> int | None:
        """The number of the chosen idea, by default the first; None without ideas."""
        if not self.found:
            return None
        return self.choice if self.choice is not None and self.choice < len(self.found) else 0

    @property
    def chosen(self) -> Idea:
        """The idea that the hypothesis represents now."""
        return self.own if self.index is None else self.found[self.index]

    def take(self, wanted: int | None) -> Idea:
        """Return the idea to run: the one with this number, else the chosen one.

        Raises `Conflict` while ideas are still searched, `Rejected` for an unknown number.
        """
        if self.is_under_way:
            message = "its ideas are still being looked for; wait until ideation has ended, or cancel it"
            raise Conflict("ideation_under_way", message)
        if wanted is None:
            return self.chosen
        if wanted >= max(1, len(self.found)):
            raise Rejected("unknown_idea", f"there is no idea {wanted}: {_count(len(self.found))}")
        return self.found[wanted] if self.found else self.own


def ideas_of(hypothesis: Mapping[str, Any]) -> Ideas:
    """Return the ideas of a stored hypothesis."""
    ideation = hypothesis["ideation"]
    return Ideas(
        own=hypothesis["ideaJson"] or hypothesis["idea"],
        found=hypothesis["ideas"],
        choice=hypothesis.get("ideaIndex"),
        is_under_way=ideation is not None and not ideation["isOver"],
    )


def standing(hypothesis: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a hypothesis keeps of its search for ideas, by its paths, from what `ideas_of` takes.

    `ideaJson` is the idea that it represents now, in its fields; None while it has a text alone.
    """
    found, ideation = ideas_of(hypothesis), hypothesis["ideation"]
    return {
        "ideation.status": ideation["status"],
        "ideation.isOver": ideation["isOver"],
        "ideaJson": found.chosen if isinstance(found.chosen, Mapping) else None,
    }


def earlier_ideas(known: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the claims of ideas, each once, in the given order; ideas without a claim are left out."""
    claims: dict[str, str] = {}
    for each in known:
        claim, title = each.get("Short Hypothesis"), each.get("Title")
        if isinstance(claim, str) and (text := " ".join(claim.split())[:CLAIM_CHARS_MAX]):
            claims.setdefault(text, title[:TITLE_CHARS_MAX] if isinstance(title, str) else "")
    found = [{"Title": title, "Short Hypothesis": claim} for claim, title in claims.items()]
    return found[:EARLIER_MAX]


def _count(found: int) -> str:
    if found == 0:
        return "the hypothesis has its own idea only, which is number 0"
    return (
        f"the hypothesis has {found}, numbered from 0 to {found - 1}" if found > 1 else "it has 1, number 0"
    )
