"""What a person's note names: choices of a program with their values, and what nobody may choose any more, pure.

Law: a choice that is named is in the answer, with what stands in the way where it cannot be tried. What claims may
name too has the words that it has there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Final

from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.recipe import Recipe, Value, described, shown

VALUES_MAX: Final = 6  # of one choice in one note
STRENGTH: Final = "strength"  # stands for the number of the claim's intervention


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice that people may name: its words, and the numbers or the names that it can have.

    `names` maps the expression for a value to it; a choice of numbers has a range in their place.
    """

    field: str
    words: str
    low: float = 0.0
    high: float = 0.0
    names: Mapping[str, Value] = dataclass_field(default_factory=dict)

    @property
    def is_number(self) -> bool:
        return not self.names

    @property
    def label(self) -> str:
        """Return how people call it."""
        return described({self.field: ""}).strip() if self.field != STRENGTH else "strength"

    @property
    def extent(self) -> str:
        """Return in words what it can be."""
        if not self.is_number:
            return (
                f"{self.label} can be {', '.join(shown(each) for each in dict.fromkeys(self.names.values()))}"
            )
        if self.field == STRENGTH:
            return "the strength of the claim's intervention is a number"
        return f"{self.label} goes from {self.low:g} to {self.high:g}"


def _words(name: str, more: str = "") -> str:
    """Return the words of a declared intervention, as claims name it, and more for its number alone."""
    return "|".join(filter(None, (INTERVENTIONS[name].words, more)))


def _names(field: str, *more: str) -> Mapping[str, Value]:
    """Return the values of a choice by the expressions for them: those of claims, and each value's own name."""
    declared = {
        each.words: value
        for each in INTERVENTIONS.values()
        if isinstance(value := each.usual.get(field), str) and each.name.startswith(value)
    }
    own = dict.fromkeys((*declared.values(), *more))
    return {**declared, **{str(value).replace("_", " "): value for value in own}}


_SWITCH: Final[Mapping[str, Value]] = {"on": True, "off": False}

CHOICES: Final[tuple[Choice, ...]] = (
    Choice(field="lr", words=r"learning rates?|step size|lr", low=1e-6, high=1.0),
    Choice(field="width", words=r"width|(?:hidden )?neurons|hidden units", low=1, high=1024),
    Choice(field="depth", words=r"depth|(?:hidden )?layers", low=1, high=8),
    Choice(field="batch_size", words=r"(?:mini)? ?batch(?:es| ?size)?(?! ?norm)", low=4, high=512),
    Choice(field="epochs", words=r"(?:number of )?epochs", low=1, high=200),
    Choice(field="dropout", words=rf"(?:{_words('dropout')})(?: rate)?", low=0.0, high=0.9),
    Choice(field="weight_decay", words=_words("weight_decay", "l2"), low=0.0, high=0.3),
    Choice(field="momentum", words=r"momentum", low=0.0, high=0.999),
    Choice(field="warm_up", words=rf"(?:{_words('warm_up')})(?: share)?", low=0.0, high=0.8),
    Choice(
        field="gradient_clip", low=0.0, high=10.0,
        words=_words("gradient_clipping", r"(?:gradient )?clip(?:ping|ped)?(?: (?:the )?(?:gradients?|norm))*"),
    ),
    Choice(field="label_smoothing", words=_words("label_smoothing"), low=0.0, high=0.5),
    Choice(field="mix_up", words=_words("mix_up"), low=0.0, high=2.0),
    Choice(field="shift", words=_words("shift_augmentation", "(?:random )?shifts?"), low=0, high=2),
    Choice(field="noise", words=_words("noise_augmentation", "(?:input )?noise"), low=0.0, high=2.0),
    Choice(field="weight_average", words=_words("weight_averaging", "weight average"), low=0.0, high=0.999),
    Choice(field="members", words=_words("ensemble", "(?:ensemble )?members|ensemble size"), low=1, high=15),
    Choice(field="training_length", words=r"training length", low=0.05, high=8.0),
    Choice(field="optimiser", words=r"optimi[sz]er", names=_names("optimiser")),
    Choice(field="schedule", words=r"(?:learning rate |lr )?(?:schedule|decay|annealing)", names=_names("schedule", "linear", "constant")),
    Choice(field="activation", words=r"activations?", names=_names("activation")),
    Choice(field="normalisation", words=r"normali[sz]ation|norm", names=_names("normalisation", "none")),
    Choice(field="network", words=r"network", names=_names("network", "cnn", "mlp")),
    Choice(field="early_stop", words=_words("early_stopping"), names=_SWITCH),
    Choice(field="temperature", words=_words("temperature_scaling", "temperature"), names=_SWITCH),
    Choice(field="residual", words=_words("residual", "residual"), names=_SWITCH),
    Choice(field=STRENGTH, words=r"strength", low=0.0, high=1e9),
)  # fmt: skip
BY_FIELD: Final[Mapping[str, Choice]] = {each.field: each for each in CHOICES}
# What was said when the run was submitted, and what is registered before the intervention is tried.
FIXED: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "number of tries", r"(?:number of |more |fewer )?(?:tries|nodes|drafts|attempts)",
        "it is the same for both arms and set at submission: `nodes` of a new run changes it",
    ),
    (
        "number of units", r"(?:number of |more |fewer )?(?:units|splits|repetitions)",
        "it is registered before the intervention is tried: `preset` of a new run changes it",
    ),
    ("seed", r"(?:random )?seeds?", "it is set at submission: `seed` of a new run changes it"),
    ("data", r"data ?sets?|test rows|test data", "they are set at submission: `dataset` of a new run changes them"),
    (
        "measure", r"metric|measure|margin|significance|alpha|confidence level",
        "it is registered with the claim: a new run may claim something else",
    ),
    ("limit of time", r"time limit|program limit", "it is set at submission: `program_limit_s` of a new run changes it"),
    ("preset", r"preset", "it is set at submission: a new run may have another one"),
)  # fmt: skip
STEERABLE: Final = ", ".join(each.label for each in CHOICES if each.field != STRENGTH)

_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?! ?%)(?![\w,.]*\d)|\d+(?:\.\d+)? ?%"
_JOINT: Final = r"(?: ?(?:,|/|or|and|then|vs\.?) ?)"
_LINK: Final = (
    r"(?: ?(?:[:=]|of|to|at|is|be|from|with|an?|the|norm|rate|value|strength|share|around|about|by))* ?"
)
_PARTED: Final = re.compile(r"(?<=[a-z])[-_](?=[a-z])")  # warm-up, label_smoothing
_NOT: Final = re.compile(
    r"\b(?:not?|never|without|avoid|don'?t|dont|except|stop|isn'?t|instead of|rather than)\b"
)


@dataclass(frozen=True, slots=True)
class Named:
    """One choice that a note names: the values to try, or why there are none."""

    label: str
    field: str = ""
    values: tuple[Value, ...] = ()
    problem: str = ""


def read(text: str) -> Sequence[Named]:
    """Return what a note names, each choice once."""
    words = _PARTED.sub(" ", " ".join(text.lower().replace("’", "'").split()))
    found: dict[str, Named] = {}
    for sentence in re.split(r"[;!?]|\.(?!\d)", words):
        for each in _in_sentence(sentence):
            found.setdefault(each.field or each.label, each)
    return tuple(found.values())


def field_of(name: str) -> str | None:
    """Return the choice that a program's author called `name`."""
    if name in BY_FIELD:
        return name
    words = name.lower().replace("_", " ")
    return next((each.field for each in CHOICES if re.fullmatch(each.words, words)), None)


def fits(choice: Choice, value: Value) -> bool:
    """Return whether a choice can have a value."""
    if not choice.is_number:
        return value in choice.names.values()
    is_counted = isinstance(Recipe().params().get(choice.field), int)
    return isinstance(value, int if is_counted else int | float) and choice.low <= value <= choice.high


def _in_sentence(sentence: str) -> Iterator[Named]:
    is_negated = _NOT.search(sentence) is not None
    left = sentence
    for choice in CHOICES:
        found, left = _taken(choice, left)
        if found is None:
            continue
        if found.problem:
            yield found
        elif is_negated and found.values not in ((False,), ("none",)):
            yield Named(choice.label, choice.field, problem="say what to try, not what to leave out")
        elif not found.values:
            yield Named(choice.label, choice.field, problem=f"name a value: {choice.extent}")
        else:
            yield found
    for label, words, why in FIXED:
        if re.search(rf"\b(?:{words})\b", left):
            yield Named(label, problem=why)


def _taken(choice: Choice, sentence: str) -> tuple[Named | None, str]:
    """Return what a sentence says of a choice, and the sentence without it."""
    value = _NUMBER if choice.is_number else "|".join(choice.names)
    values = rf"(?P<values>(?:{value})(?:{_JOINT}(?:{value})){{0,{VALUES_MAX - 1}}})"
    for pattern in (
        rf"\b(?:{choice.words})\b{_LINK}{values}(?![\w.])",
        rf"(?<![\w.]){values}(?: (?:for|as))?(?: the)? ?\b(?:{choice.words})\b",
    ):
        if match := re.search(pattern, sentence):
            if re.match(rf"{_JOINT}(?:{value})", sentence[match.end() :]):
                problem = f"name at most {VALUES_MAX} values"
                return Named(choice.label, choice.field, problem=problem), sentence[: match.start()]
            each = re.findall(value, match["values"])
            left = f"{sentence[: match.start()]} ¦ {sentence[match.end() :]}"
            return Named(choice.label, choice.field, tuple(_value(choice, one) for one in each)), left
    alone = _alone(choice)
    if match := re.search(rf"\b(?:{alone})\b", sentence):
        left = f"{sentence[: match.start()]} ¦ {sentence[match.end() :]}"
        is_name = not choice.is_number and _named(choice, match[0]) is not None
        found = (_value(choice, match[0]),) if is_name else (True,) if choice.names is _SWITCH else ()
        return Named(choice.label, choice.field, found), left
    return None, sentence


def _alone(choice: Choice) -> str:
    """Return the words that name a choice, or its value, without the other."""
    if choice.field in ("optimiser", "activation"):
        return "|".join((*choice.names, choice.words))
    return choice.words


def _named(choice: Choice, text: str) -> Value | None:
    """Return the value that a text names; None where it names none."""
    return next((value for words, value in choice.names.items() if re.fullmatch(words, text)), None)


def _value(choice: Choice, text: str) -> Value:
    if not choice.is_number:
        named = _named(choice, text)
        assert named is not None, "the text is one that names a value"
        return named
    number = float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    is_whole = isinstance(Recipe().params().get(choice.field), int) and number.is_integer()
    return int(number) if is_whole else number
