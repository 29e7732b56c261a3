"""Answers the notes of people: what becomes of each choice that one names, and which node tries it.

Law: every note that is read is answered, once for each thing that it names. A later answer takes the place of
an earlier one about the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import Any

from events.catalog import NoteAnswered, NoteOutcome, StageProgress, StageStarted
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCreated, NodeRestored
from events.kinds.space.interventions import Changes
from events.kinds.space.recipe import Value, described
from events.queue.notes import Note
from stages.kinds.experiment.research.openness import (
    APPLIED,
    TUNED,
    Part,
    Refusal,
    Scope,
    Wish,
    decided,
    is_open,
)
from stages.kinds.experiment.research.wishes import STEERABLE, field_of, read
from stages.ports import Notes, Reporter


@dataclass(slots=True)
class _Asked:
    """A wish of a note, open until a node has it."""

    number: int
    wish: Wish


@dataclass(slots=True)
class Steering:
    """Follows what the run says: notes are read as stages begin and go on, and nodes fulfil wishes.

    `reads_words` is whether the researcher, by this `name`, is shown the words of a note too.
    """

    scope: Scope
    notes: Notes
    emit: Callable[[Fact], None]
    name: str
    reads_words: bool = False
    stage: str = TUNED[0]
    _heard: set[int] = field(default_factory=set)
    _open: list[_Asked] = field(default_factory=list)
    _nodes: list[tuple[str, str, Mapping[str, Value]]] = field(default_factory=list)

    def listen(self, fact: Fact) -> None:
        """Take what the run has said."""
        match fact:
            case StageStarted(stage=stage) | StageProgress(stage=stage):
                self.hear(stage)
            case NodeCreated() | NodeRestored():
                self._created(fact.stage, fact.node, fact.params)

    def hear(self, stage: str) -> None:
        """Read new notes in a stage, and answer what can no longer be tried."""
        self.stage = stage
        if stage not in TUNED:
            for each in self._open:
                self._answer(each.number, "refused", each.wish.changes, "no try was left for it")
            self._open.clear()
        for note in self.notes.all():
            if note.number not in self._heard:
                self._heard.add(note.number)
                self._read(note)

    def wishes(self, part: Part) -> Sequence[Changes]:
        """Return what people wish to be tried now, the oldest first."""
        return [
            each.wish.changes
            for each in self._open
            if each.wish.part == part and is_open(each.wish, self.stage)
        ]

    def _read(self, note: Note) -> None:
        wishes, refused = decided(read(note.text), self.scope, self.stage)
        for each in refused:
            self._say(note.number, each)
        for wish in wishes:
            had = next((node for stage, node, has in self._nodes if _fulfils(wish, stage, has)), None)
            if had is not None:
                self._answer(note.number, "taken", wish.changes, f"{had} has it already", had)
                continue
            when = (
                "is tried at the next step that tunes"
                if is_open(wish, self.stage)
                else f"is kept for {APPLIED}"
            )
            self._open.append(_Asked(note.number, wish))
            self._answer(note.number, "waiting", wish.changes, when)
        if self.reads_words and self.stage in TUNED:
            says = f"{self.name} is shown it with each question from now on, and need not follow it"
            self._say(note.number, Refusal("passed_on", "", says))
        elif not wishes and not refused:
            outcome: NoteOutcome = "not_understood" if self.stage in TUNED else "too_late"
            what = f"no choice was found in it; with a value, these can be steered: {STEERABLE}"
            self._say(
                note.number, Refusal(outcome, "", what if self.stage in TUNED else "the search is over")
            )

    def _created(self, stage: str, node: str, params: Mapping[str, Any]) -> None:
        if stage not in TUNED:
            return
        has = {known: value for name, value in params.items() if (known := field_of(name)) is not None}
        self._nodes.append((stage, node, has))
        for each in tuple(self._open):
            if _fulfils(each.wish, stage, has):
                self._open.remove(each)
                self._answer(each.number, "taken", each.wish.changes, f"{node} tries it", node)

    def _answer(
        self, number: int, outcome: NoteOutcome, changes: Changes, says: str, node: str | None = None
    ) -> None:
        self.emit(
            NoteAnswered(number=number, outcome=outcome, about=described(changes), says=says, node=node)
        )

    def _say(self, number: int, refusal: Refusal) -> None:
        self.emit(
            NoteAnswered(number=number, outcome=refusal.outcome, about=refusal.about, says=refusal.says)
        )


@dataclass(frozen=True, slots=True)
class Attentive:
    """Reports like `reporter`, and lets `steering` hear what is said."""

    reporter: Reporter
    steering: Steering

    def say(self, fact: Fact) -> None:
        self.reporter.say(fact)
        self.steering.listen(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        self.reporter.made(path, name=name, content_type=content_type, stage=stage)


def _fulfils(wish: Wish, stage: str, has: Mapping[str, Value]) -> bool:
    """Return whether a node of a stage has what is wished."""
    return is_open(wish, stage) and all(_same(has.get(name), value) for name, value in wish.changes.items())


def _same(one: Value | None, other: Value) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=1e-6)
    return one == other
