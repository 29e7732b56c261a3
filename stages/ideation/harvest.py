"""What a request has brought in so far: ideas that are finished, and those that were begun and are not.

Law: an idea that was begun ends here, finalised or unfinished, and is safe before the next begins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from events.catalog import IdeationGenerated
from events.runs import Idea
from stages.budget import NOTHING, Spent
from stages.context import Context
from stages.ideation.form import bounded, cut, printable, public
from stages.ideation.look_ups import LookUps
from stages.literature import Work

CHECKPOINT: Final = "ideation"
ARTIFACT: Final = "ideas.json"
UNFINISHED: Final = "unfinished_ideas.json"
WHY_BYTES_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An idea that was begun and did not make it: its number in the request, what there is of it, and why."""

    number: int
    why: str
    idea: Idea | None

    def public(self) -> dict[str, Any]:
        """Return this as the event says it."""
        return {"number": self.number, "why": self.why, "idea": public(self.idea) if self.idea else None}


@dataclass(slots=True)
class Harvest:
    """The ideas of one request; `spent` is what the model has cost in all attempts."""

    context: Context
    wanted: int
    look_ups: LookUps
    ideas: list[Idea] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    spent: Spent = NOTHING

    @classmethod
    def of(cls, context: Context, wanted: int) -> Harvest:
        """Return what an earlier attempt has finalised; what it left unfinished is begun again."""

        def warn(message: str) -> None:
            context.log(message, "warning")

        harvest = cls(context, wanted, LookUps(context.tools.literature, warn))
        restored = context.restored(CHECKPOINT)
        if restored is not None:
            harvest._restore(restored.state)
            count = len(harvest.ideas)
            context.log(f"{count} of {wanted} ideas are there from attempt {restored.attempt}")
        return harvest

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
        """Tell what there is, without files: for an end that cannot wait."""
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
        state = {
            "ideas": [public(each) for each in self.ideas],
            "works": msgspec.to_builtins(self.look_ups.works),
            "asked": self.look_ups.asked,
            "spent": spent.state(),
        }
        self.context.checkpoint(CHECKPOINT, state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.ideas = msgspec.convert(state["ideas"], list[Idea])[: self.wanted]
        self.look_ups.works = msgspec.convert(state["works"], list[Work])
        self.look_ups.asked = msgspec.convert(state["asked"], dict[str, list[int]])
        self.spent = Spent.of(state["spent"])
