"""What becomes of a choice that a note names: when it can be tried, or why it cannot, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from events.catalog import NoteOutcome
from events.kinds.space.interventions import Changes, Intervention, Knob
from events.kinds.space.recipe import Value, described
from stages.kinds.experiment.research.wishes import BY_FIELD, STRENGTH, Named, fits, read

Part = Literal["baseline", "strength"]

TUNED: Final = ("Stage_1", "Stage_2", "Stage_3")  # in which choices of the baseline can be tried
APPLIED: Final = "Stage_3"  # in which a strength can be


@dataclass(frozen=True, slots=True)
class Scope:
    """What the claim leaves open: the fields that it owns, and the number that can be refined, if any.

    `values` are those that are tried anyway.
    """

    title: str
    fields: frozenset[str]
    knob: Knob | None = None
    values: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, intervention: Intervention) -> Scope:
        """Return what the claim of a declared intervention leaves open."""
        values = tuple(pair for each in intervention.strengths for pair in each.items())
        return cls(intervention.title, intervention.fields, intervention.knob, values)

    @classmethod
    def of_subject(cls, subject: str) -> Scope:
        """Return what the claim about a subject leaves open, as far as its words say."""
        named = [each for each in read(subject) if each.field and each.field != STRENGTH]
        fixed = tuple((each.field, value) for each in named for value in each.values)
        number = next((BY_FIELD[each.field] for each in named if BY_FIELD[each.field].is_number), None)
        knob = None if number is None or fixed else Knob(number.field, number.low, number.high)
        return cls(subject, frozenset(each.field for each in named), knob, fixed)


@dataclass(frozen=True, slots=True)
class Wish:
    """Choices to try together, of the baseline or of the intervention's strength."""

    part: Part
    changes: Changes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a choice is not tried; `about` is what it is about."""

    outcome: NoteOutcome
    about: str
    says: str


def decided(named: Sequence[Named], scope: Scope, stage: str) -> tuple[Sequence[Wish], Sequence[Refusal]]:
    """Return what is tried of what a note names in `stage` or later, and what is not.

    Several values of a choice are several wishes; what a note names of the baseline beside each other is one.
    """
    joint: list[dict[str, Value]] = []
    strengths: list[Wish] = []
    refused: list[Refusal] = []
    for each in named:
        name = scope.knob.name if each.field == STRENGTH and scope.knob is not None else each.field
        for number, value in enumerate(each.values):
            if (refusal := _refusal(each, name, value, scope, stage)) is not None:
                refused.append(refusal)
            elif name in scope.fields:
                strengths.append(Wish("strength", {name: value}))
            else:
                joint += [{}] * (number + 1 - len(joint))
                joint[number] = {**joint[number], name: value}
        if each.problem:
            refused.append(Refusal("refused", each.label, each.problem))
    return [*(Wish("baseline", changes) for changes in joint if changes), *strengths], refused


def is_open(wish: Wish, stage: str) -> bool:
    """Return whether a wish can be tried in a stage."""
    return stage == APPLIED or (wish.part == "baseline" and stage in TUNED)


def _refusal(named: Named, name: str, value: Value, scope: Scope, stage: str) -> Refusal | None:
    choice = BY_FIELD[named.field]
    about = described({name: value})
    if name == STRENGTH:
        return Refusal("refused", about, f"the claim is about {scope.title}, which has no number to vary")
    if name in scope.fields and (name, value) not in scope.values:
        if scope.knob is None or scope.knob.name != name:
            return Refusal(
                "refused", about, f"the claim says {scope.title}, and nothing else is measured for it"
            )
        if not isinstance(value, int | float) or not scope.knob.low <= value <= scope.knob.high:
            low, high = scope.knob.low, scope.knob.high
            return Refusal("refused", about, f"it is tried from {low:g} to {high:g}")
    if named.field != STRENGTH and not fits(choice, value):
        return Refusal("refused", about, choice.extent)
    if stage not in TUNED:
        return Refusal("too_late", about, "the programs are chosen: a new run can try it")
    return None
