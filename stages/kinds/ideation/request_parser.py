"""Parses a request by the declared space: its own claim, near claims, ideas that it calls old; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from events.kinds.idea import Idea
from events.kinds.ideation import IdeationSpec
from events.kinds.space.data_sets import DEFAULT, SHIPPED
from events.kinds.space.effect import Direction
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.metrics import QUALITY
from events.kinds.space.understanding import understand
from events.runtime.errors import NotMeasurable
from stages.kinds.ideation.earlier_ideas import earlier_ideas
from stages.kinds.ideation.feasibility import obstacle
from stages.kinds.ideation.novelty import words
from stages.kinds.ideation.variations import Candidate, Liking, around
from stages.kinds.ideation.wording import Form, Saying, phrase_of, saying_of

NEAR: Final = 0.6  # pairs of letters that two words share: so near, one may be the other, mistyped
WORDS_MAX: Final = 300  # different words of a text that are compared
# The words that tell a measure from the others; `error` and `training` are in too many sentences.
_METRIC_KEYS: Final = {
    "accuracy": "accuracy accurate",
    "nll": "likelihood",
    "ece": "calibration calibrated overconfident",
    "brier": "brier",
    "rmse": "rmse regression squared",
    "training_seconds": "seconds speed faster",
    "parameters": "parameters",
}
OWN: Final = "it is the claim of the request"
NEAREST: Final = "it is near to the words of the request"


@dataclass(frozen=True, slots=True)
class Reading:
    """A request in terms of the declared space.

    `trouble` is why its own claim could not be read, and empty where it was; `filled_in` is what
    its text left open.
    """

    candidates: tuple[Candidate, ...]
    known: frozenset[Saying]
    trouble: str = ""
    filled_in: tuple[str, ...] = field(default=())


def read_request(spec: IdeationSpec, notes: Sequence[str] = ()) -> Reading:
    """Return what can be proposed for `spec`, the nearest first; `notes` are read like its context."""
    context = "\n".join((spec.additional_context, *notes))
    old = {part.short_hypothesis for part in earlier_ideas(context)}
    fresh = "\n".join(line for line in context.splitlines() if not any(part in line for part in old))
    everything = "\n".join((spec.idea, spec.title, fresh))
    liking = Liking(
        metrics=_near(everything, _METRIC_KEYS),
        data_sets=_near(everything, {each.name: each.title for each in SHIPPED.values()}),
    )
    known = frozenset(filter(None, map(said_by, earlier_ideas(context))))
    own = _own_claim(spec, fresh)
    if isinstance(own, str):
        return Reading(tuple(_nearest(everything, liking)), known, trouble=own)
    start, filled_in = own
    candidates = (Candidate(start, OWN), *around(start, liking))
    return Reading(candidates, known, filled_in=filled_in)


def _own_claim(spec: IdeationSpec, context: str) -> tuple[Saying, tuple[str, ...]] | str:
    """Return the request's claim, with what its text leaves open; else why there is none."""
    trouble = ""
    for abstract in (context, ""):  # the context may complete the idea, and must not spoil it
        idea = Idea(short_hypothesis=spec.idea, title=spec.title, abstract=abstract)
        try:
            understood = understand(idea)
        except NotMeasurable as error:
            trouble = error.message
            continue
        saying = saying_of(understood)
        if saying is not None:
            return saying, understood.claim.notes
        trouble = f"It is read as {understood.claim.sentence!r}, which has no parts that could be varied."
    return trouble


def said_by(idea: Idea) -> Saying | None:
    """Return the claim of the declared space that `idea` makes, if it makes one."""
    try:
        return saying_of(understand(idea))
    except NotMeasurable:
        return None


def _nearest(text: str, liking: Liking) -> list[Candidate]:
    """Return claims of the whole space, the nearest to `text` first, variations of the first between them."""
    data = liking.order_data_sets()[0] if liking.data_sets else DEFAULT
    metric = liking.order_metrics()[0] if liking.metrics else QUALITY[data.task]
    if data.task not in metric.tasks:
        data = next(each for each in SHIPPED.values() if each.task in metric.tasks)
    direction: Direction = "increase" if metric.higher_is_better else "decrease"
    phrases = {name: phrase_of(name) for name in INTERVENTIONS}
    named = [
        name for name, each in INTERVENTIONS.items() if re.search(rf"\b(?:{each.words})\b", text.lower())
    ]
    order = list(dict.fromkeys([*named, *_near(text, phrases), *INTERVENTIONS]))
    starts = [
        Candidate(Saying(form=Form(name), metric=metric, direction=direction, data=data), NEAREST)
        for name in order
    ]
    possible = [each for each in starts if obstacle(each.saying) is None]
    found: dict[Saying, Candidate] = {}
    for pair in zip_longest(possible, around(possible[0].saying, liking)):
        for each in pair:
            if each is not None:
                found.setdefault(each.saying, each)
    return list(found.values())


def _near(text: str, titles: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names whose titles are near to words of `text`, the nearest first."""
    pieces_of_text = [_pieces(word) for word in sorted(words(text))[:WORDS_MAX]]
    scores = {name: _nearness(words(title), pieces_of_text) for name, title in titles.items()}
    near = [name for name, score in scores.items() if score >= NEAR]
    return tuple(sorted(near, key=lambda name: -scores[name]))


def _nearness(title: Iterable[str], pieces_of_text: Sequence[frozenset[str]]) -> float:
    """Return how near the nearest words of a title and of a text are, from 0 to 1."""
    return max((_alike(_pieces(word), each) for word in title for each in pieces_of_text), default=0.0)


def _pieces(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[at : at + 2] for at in range(len(padded) - 1))


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))
