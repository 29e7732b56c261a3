"""The prompts of ideation, and the form of the answers; pure but for reading the prompts of this package.

Law: foreign text is between tags and is bounded; the prompt stays small enough for a small model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Final

import msgspec

from events.kinds.idea import Idea
from events.kinds.ideation import IdeationSpec
from events.kinds.space.refusal import known_space
from stages.kinds.ideation.idea_fields import cut, printable, public
from stages.kinds.ideation.literature_lookup import LookUps
from stages.kinds.ideation.novelty import Nearest
from stages.kinds.ideation.progress import Place
from stages.models.model import Question

REQUEST_BYTES_MAX: Final = 8_000  # of the idea, and of its context
NOTE_BYTES_MAX: Final = 1_000
NOTES_MAX: Final = 10
EARLIER_MAX: Final = 40
WORKS_MAX: Final = 15
FINDING_BYTES_MAX: Final = 600
TEMPERATURE: Final = 0.7


class Cited(msgspec.Struct, frozen=True):
    """A work by its number in the list, and how the idea relates to it."""

    work: int
    relation: str = ""


class Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """An idea as the model writes it."""

    name: str
    title: str
    short_hypothesis: str
    abstract: str
    experiments: list[str]
    risks: list[str]
    related_work: str = ""
    cited: list[Cited] = []
    look_up: str = ""


class Reflected(Drafted, frozen=True, kw_only=True):
    """An idea after a round, and whether the model is done with it."""

    is_final: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """What every question about an idea shows: notes of people, earlier ideas, works by their numbers."""

    spec: IdeationSpec
    place: Place
    look_ups: LookUps
    notes: Sequence[str] = ()
    earlier: Sequence[Idea] = ()
    works: Sequence[int] = ()

    def shown(self) -> dict[str, str]:
        """Return the parts of a prompt that both questions have."""
        has_index = self.look_ups.literature is not None
        return {
            "number": str(self.place.idea),
            "ideas": str(self.place.ideas),
            "title": material(self.spec.title, REQUEST_BYTES_MAX),
            "idea": material(self.spec.idea, REQUEST_BYTES_MAX),
            "context": material(self.spec.additional_context, REQUEST_BYTES_MAX) or "none",
            "notes": _block(
                "notes_of_people", [material(note, NOTE_BYTES_MAX) for note in self.notes[-NOTES_MAX:]]
            ),
            "earlier": _block("earlier_ideas", [_line_of(idea) for idea in self.earlier[-EARLIER_MAX:]]),
            "works": _block(
                "works", material(self.look_ups.listed(self.works[-WORKS_MAX:]), 20_000).splitlines()
            ),
            "literature": "" if has_index else "There is no index here: look-ups find nothing, cite nothing.",
        }


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts of the questions."""

    system: str = field(default_factory=lambda: _text("system"))
    draft: str = field(default_factory=lambda: _text("draft"))
    reflect: str = field(default_factory=lambda: _text("reflect"))

    def ask_for_draft(self, scene: Scene) -> Question:
        """Return the question for a first version."""
        task = (
            "Make the request's own claim sharp: what is done, which number moves which way, on which data."
            if scene.place.idea == 1
            else "It has to differ from every earlier idea in what is claimed, not only in words."
        )
        return self._question("ideation_draft", Template(self.draft).substitute(scene.shown(), task=task))

    def ask_to_reflect(self, scene: Scene, idea: Idea, findings: Sequence[str]) -> Question:
        """Return the question for a better version, or for the word that there is none."""
        place = scene.place
        is_last = place.turn == place.turns
        objections = "\n".join(f"- {material(each, FINDING_BYTES_MAX)}" for each in findings)
        text = Template(self.reflect).substitute(
            scene.shown(),
            turn=str(place.turn),
            turns=str(place.turns),
            draft=material(msgspec.json.encode(public(idea)).decode(), 20_000),
            findings=objections or "- nothing to object",
            last="This is the last round: what you give now is what there is." if is_last else "",
        )
        return self._question("ideation_reflection", text)

    def _question(self, purpose: str, text: str) -> Question:
        system = Template(self.system).substitute(space=known_space())
        return Question(purpose=purpose, system=system, text=text, temperature=TEMPERATURE)


def near_duplicate(found: Nearest) -> str:
    """Return the part of a prompt about an idea that is too near to an earlier one."""
    return (
        f"the idea is nearly the same as the earlier idea {found.title!r} (similarity {found.similarity:.2f})"
    )


def material(text: str, size: int) -> str:
    """Return what others wrote as it may stand between tags: bounded, and unable to close them."""
    return cut(printable(text), size).replace("</", "< /")


def _line_of(idea: Idea) -> str:
    return material(
        f"- {idea.title}: {idea.short_hypothesis}" if idea.title else f"- {idea.short_hypothesis}", 500
    )


def _block(tag: str, lines: Sequence[str]) -> str:
    return "\n".join((f"<{tag}>", *lines, f"</{tag}>", "", "")) if lines else ""


def _text(name: str) -> str:
    return files("stages.kinds.ideation").joinpath("prompts", f"{name}.txt").read_text("utf-8")
