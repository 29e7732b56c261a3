"""Writes a claim of the declared space as a sentence that parses to the same claim; pure.

Law: `understand` of the sentence returns the same claim, for every claim of the space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from events.kinds.space.data_sets import DataSet
from events.kinds.space.effect import Direction, Effect
from events.kinds.space.interventions import INTERVENTIONS, Intervention
from events.kinds.space.metrics import Metric
from events.kinds.space.understanding import Understood

# Where the title of an intervention would be read as another one, or not at all.
_PHRASES: Final[Mapping[str, str]] = {"nesterov": "Nesterov momentum", "noise_augmentation": "input noise"}
# How people say a strength; `{}` is the phrase without it.
_STRENGTHS: Final[Mapping[str, str]] = {
    "width": "{phrase} with {number} units",
    "training_length": "{phrase} at {number} times the length",
    "members": "an ensemble of {number} networks",
}


@dataclass(frozen=True, slots=True)
class Form:
    """How an intervention is meant: as it is, at one strength, in another's place, or taken away."""

    name: str
    strength: float | None = None
    instead_of: str | None = None
    is_removed: bool = False

    def intervention(self) -> Intervention:
        """Return what the experiment would do."""
        chosen = INTERVENTIONS[self.name]
        if self.strength is not None:
            chosen = chosen.pinned(self.strength)
        if self.instead_of is not None:
            chosen = chosen.instead_of(INTERVENTIONS[self.instead_of])
        return chosen.reversed() if self.is_removed else chosen

    def phrase(self) -> str:
        """Return the intervention as people write it in a sentence; a removal reads `without ...`."""
        phrase_text = phrase_of(self.name)
        if self.strength is not None:
            knob = INTERVENTIONS[self.name].knob
            assert knob is not None
            pattern = _STRENGTHS.get(knob.name, "{phrase} of {number}")
            phrase_text = pattern.format(phrase=phrase_text, number=number_of(self.strength))
        if self.instead_of is not None:
            phrase_text = f"{phrase_text} instead of {phrase_of(self.instead_of)}"
        return f"without {phrase_text}" if self.is_removed else phrase_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """A claim of the declared space, in parts that can be varied one by one."""

    form: Form
    metric: Metric
    direction: Direction
    data: DataSet
    train_examples: int | None = None

    @property
    def sentence(self) -> str:
        """Return the claim as one sentence."""
        phrase = self.form.phrase()
        opening = _upper(phrase) if self.form.is_removed else f"With {phrase}"
        return f"{opening}, the {self.metric.title} on {self.data.title}{self._few} becomes {self._move}."

    @property
    def title(self) -> str:
        """Return the claim as a heading."""
        return (
            f"{_upper(self.form.phrase())}: {self._move} {self.metric.title} on {self.data.title}{self._few}"
        )

    @property
    def name(self) -> str:
        """Return the claim as a name, to be made snake_case."""
        parts = [self.form.phrase(), self.metric.name, self.data.name]
        return " ".join([*parts, str(self.train_examples)] if self.train_examples else parts)

    @property
    def is_improvement(self) -> bool:
        """Return whether the claimed move is one for the better."""
        return (self.direction == "increase") == self.metric.higher_is_better

    def is_said_by(self, understood: Understood) -> bool:
        """Return whether what was read is this claim, whole."""
        claim = understood.claim
        return (
            understood.intervention == self.form.intervention()
            and claim.effects == (Effect(self.metric, self.direction),)
            and (claim.data, claim.train_examples) == (self.data, self.train_examples)
        )

    @property
    def _few(self) -> str:
        return f" ({self.train_examples} training examples)" if self.train_examples else ""

    @property
    def _move(self) -> str:
        return "higher" if self.direction == "increase" else "lower"


def saying_of(understood: Understood) -> Saying | None:
    """Return what was read in parts that can be varied; None where it has no such parts."""
    form = next((form for form in _forms(understood) if form.intervention() == understood.intervention), None)
    claim = understood.claim
    if form is None or claim.effects != (Effect(claim.metric, claim.direction),):
        return None  # nothing here varies a margin
    return Saying(
        form=form,
        metric=claim.metric,
        direction=claim.direction,
        data=claim.data,
        train_examples=claim.train_examples,
    )


def phrase_of(name: str) -> str:
    """Return an intervention of the space as people write it in a sentence."""
    return _PHRASES.get(name, INTERVENTIONS[name].title)


def rivals_of(name: str) -> tuple[str, ...]:
    """Return the interventions that decide the same choice as `name`."""
    mine = INTERVENTIONS[name]
    return tuple(other.name for other in INTERVENTIONS.values() if mine.competes_with(other))


def number_of(value: float) -> str:
    """Return a strength as it can be read back: digits and a point, no exponent."""
    return f"{value:.10f}".rstrip("0").rstrip(".")


def _forms(understood: Understood) -> Iterator[Form]:
    """Yield every form that may have been read, the plain one first."""
    read = understood.intervention
    name = read.name
    strengths: list[float | None] = [None]
    if (knob := INTERVENTIONS[name].knob) is not None and read.knob is None:
        named = [changes.get(knob.name) for changes in (*read.strengths, read.off)]
        strengths += [float(each) for each in named if isinstance(each, int | float)]
    for strength in strengths:
        for other in (None, *rivals_of(name)):
            for is_removed in (False, True):
                yield Form(name, strength, other, is_removed)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
