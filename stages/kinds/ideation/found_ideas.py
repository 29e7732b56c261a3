"""The ideas of a request so far: finished ones, and those that were begun and are not finished.

Law: an idea that was begun ends here, finalised or unfinished, and is safe before the next begins.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from events.kinds.idea import Idea
from events.kinds.ideation import IdeationGenerated
from stages.bounds import Line, Ordinal, Unreadable, read_state
from stages.context import Context
from stages.kinds.ideation.idea_fields import bounded, cut, missing, printable, public
from stages.kinds.ideation.literature_lookup import LOOK_UPS_MAX, WORKS_EACH, WORKS_MAX, LookUps
from stages.models.budget import NOTHING, Spent
from stages.ports.literature import Work

CHECKPOINT: Final = "ideation"
ARTIFACT: Final = "ideas.json"
UNFINISHED: Final = "unfinished_ideas.json"
WHY_BYTES_MAX: Final = 400
IDEAS_MAX: Final = 20  # of one request


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An idea that was begun and did not make it: its number in the request, what there is of it, and why."""

    number: int
    why: str
    idea: Idea | None

    def public(self) -> dict[str, Any]:
        """Return this in the form of the event."""
        return {"number": self.number, "why": self.why, "idea": public(self.idea) if self.idea else None}


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint keeps; `asked` names the works of each look-up by their numbers, from 1."""

    ideas: Annotated[list[Idea], msgspec.Meta(max_length=IDEAS_MAX)]
    works: Annotated[list[Work], msgspec.Meta(max_length=WORKS_MAX)]
    asked: Annotated[
        dict[Line, Annotated[list[Ordinal], msgspec.Meta(max_length=WORKS_EACH)]],
        msgspec.Meta(max_length=LOOK_UPS_MAX),
    ]
    spent: Spent


@dataclass(slots=True)
class FoundIdeas:
    """The ideas of one request; `spent` is what the model has cost in all attempts."""

    context: Context
    wanted: int
    look_ups: LookUps
    ideas: list[Idea] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    spent: Spent = NOTHING

    @classmethod
    def of(cls, context: Context, wanted: int) -> FoundIdeas:
        """Return what an earlier attempt has finalised; what it left unfinished is begun again."""

        def warn(message: str) -> None:
            context.log(message, "warning")

        found_ideas = cls(context, wanted, LookUps(context.tools.literature, warn))
        restored = context.restored(CHECKPOINT)
        if restored is None:
            return found_ideas
        try:
            found_ideas._restore(read_state(restored.state, Kept))
        except Unreadable as error:
            warn(
                f"the checkpoint of attempt {restored.attempt} cannot be read, ideation begins anew: {error}"
            )
        else:
            count = len(found_ideas.ideas)
            context.log(f"{count} of {wanted} ideas are there from attempt {restored.attempt}")
        return found_ideas

    @property
    def begun(self) -> int:
        """Return how many ideas have ended here."""
        return len(self.ideas) + len(self.unfinished)

    def finalise(self, idea: Idea, spent: Spent = NOTHING) -> Idea:
        """Take a finished idea in; return it as it is kept."""
        kept = bounded(idea, {each.name for each in self.ideas})
        self.ideas.append(kept)
        self._save(spent)
        self.context.log(f"idea {self.begun} of {self.wanted} is final: {kept.title}")
        return kept

    def give_up(self, idea: Idea | None, why: str, spent: Spent = NOTHING) -> None:
        """Take in what there is of an idea that will not be finished."""
        number = self.begun + 1
        reason = cut(printable(why), WHY_BYTES_MAX)
        self.unfinished.append(Unfinished(number, reason, bounded(idea) if idea else None))
        self._save(spent)
        self.context.log(f"idea {number} of {self.wanted} is not finished: {reason}", "warning")

    def set_down(self, idea: Idea, why: str) -> None:
        """Take in an idea whose work was broken off, unsaved: a later attempt begins it anew."""
        self.unfinished.append(Unfinished(self.begun + 1, why, bounded(idea)))

    def say(self) -> None:
        """Report what there is, without files: for an end that cannot wait."""
        if self.begun:
            self.context.emit(self._generated([each.public() for each in self.unfinished]))

    def deliver(self) -> None:
        """Hand over the finished ideas as a file and as the request's one event."""
        self._keep(ARTIFACT, [public(each) for each in self.ideas])
        self.context.emit(self._generated(self.keep_unfinished()))

    def keep_unfinished(self) -> list[dict[str, Any]]:
        """Hand over what was begun and not finished as a file, if there is any; return it."""
        unfinished = [each.public() for each in self.unfinished]
        if unfinished:
            self._keep(UNFINISHED, unfinished)
        return unfinished

    def _generated(self, unfinished: list[dict[str, Any]]) -> IdeationGenerated:
        return IdeationGenerated(ideas=[public(each) for each in self.ideas], unfinished=unfinished)

    def _keep(self, name: str, content: list[dict[str, Any]]) -> None:
        path: Path = self.context.workspace / name
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
        self.context.keep(path, name)

    def _save(self, spent: Spent) -> None:
        self.spent = spent
        state = Kept(list(self.ideas), self.look_ups.works, self.look_ups.asked, spent)
        self.context.checkpoint(CHECKPOINT, msgspec.to_builtins(state))

    def _restore(self, state: Kept) -> None:
        """Go on from what an earlier attempt kept. Raises `Unreadable` where it does not fit together."""
        if any(number > len(state.works) for numbers in state.asked.values() for number in numbers):
            raise Unreadable("a look-up found a work that is not there")
        for number, idea in enumerate(state.ideas[: self.wanted], start=1):
            if lacks := missing(idea):
                raise Unreadable(f"idea {number} is final and lacks {', '.join(lacks)}")
        for idea in state.ideas[: self.wanted]:
            self.ideas.append(bounded(idea, {each.name for each in self.ideas}))
        self.look_ups.works, self.look_ups.asked = state.works, state.asked
        self.spent = state.spent
