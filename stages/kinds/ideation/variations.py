"""Different claims around one: another metric, strength, data set, rival, few examples, the removal; pure.

Law: the same start gives the same variations in the same order, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from events.kinds.space.data_sets import SHARES, SHIPPED, DataSet
from events.kinds.space.effect import Direction
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.metrics import METRICS, QUALITY, Metric
from stages.kinds.ideation.feasibility import expected_move
from stages.kinds.ideation.wording import Form, Saying, rivals_of

FEW_EXAMPLES: Final = range(20, 61)  # how many rows are few


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim that may become an idea, and why it is worth asking."""

    saying: Saying
    why: str


@dataclass(frozen=True, slots=True)
class Liking:
    """What the request's words are near to; it decides what is tried first."""

    metrics: Sequence[str] = ()
    data_sets: Sequence[str] = ()

    def order_metrics(self) -> list[Metric]:
        """Return all metrics, those that are liked first."""
        return [METRICS[name] for name in _liked_first(self.metrics, METRICS)]

    def order_data_sets(self) -> list[DataSet]:
        """Return all data sets, those that are liked first."""
        return [SHIPPED[name] for name in _liked_first(self.data_sets, SHIPPED)]


def around(start: Saying, liking: Liking) -> list[Candidate]:
    """Return what differs from `start` in one part, a part at a time in turn; `start` itself is left out."""
    axes = (
        _other_metrics(start, liking.order_metrics()),
        _other_data_sets(start, liking.order_data_sets()),
        _strengths(start),
        _rivals(start),
        _few_examples(start),
        _removal(start),
        _alternatives(start),
    )
    found: dict[Saying, Candidate] = {}
    for row in zip_longest(*axes):
        for candidate in row:
            if candidate is not None and candidate.saying != start:
                found.setdefault(candidate.saying, candidate)
    return list(found.values())


def _other_metrics(start: Saying, metrics: Sequence[Metric]) -> Iterator[Candidate]:
    for metric in metrics:
        if metric != start.metric and start.data.task in metric.tasks:
            found = replace(start, metric=metric, direction=expected_move(start, metric))
            is_price = metric.name == "training_seconds"
            why = "what the effect costs" if is_price else f"whether {metric.title} tells the same story"
            yield Candidate(found, why)


def _other_data_sets(start: Saying, data_sets: Sequence[DataSet]) -> Iterator[Candidate]:
    for data in data_sets:
        if data != start.data:
            metric = start.metric if data.task in start.metric.tasks else QUALITY[data.task]
            found = replace(start, data=data, metric=metric, direction=expected_move(start, metric))
            yield Candidate(found, f"whether the effect carries over to {data.title}")


def _strengths(start: Saying) -> Iterator[Candidate]:
    knob = INTERVENTIONS[start.form.name].knob
    if knob is None or start.form.strength is not None or start.form.instead_of is not None:
        return
    values = [changes[knob.name] for changes in INTERVENTIONS[start.form.name].strengths]
    for value, word in ((values[-1], "strongest"), (values[0], "weakest")):
        form = replace(start.form, strength=float(value))
        yield Candidate(
            replace(start, form=form), f"how the effect depends on the dose: the {word} usual one"
        )


def _rivals(start: Saying) -> Iterator[Candidate]:
    if start.form.is_removed or start.form.strength is not None:
        return
    for other in rivals_of(start.form.name):
        form = replace(start.form, instead_of=other)
        yield Candidate(replace(start, form=form), "whether it also beats what competes for the same choice")


def _few_examples(start: Saying) -> Iterator[Candidate]:
    few = min(int(start.data.open_rows * SHARES["train"] / 3), FEW_EXAMPLES[-1])
    if start.train_examples is None and few in FEW_EXAMPLES:
        found = replace(start, train_examples=few)
        yield Candidate(found, "whether the effect grows where there is little to learn from")


def _removal(start: Saying) -> Iterator[Candidate]:
    form = start.form
    if form.is_removed or form.instead_of is not None:
        return
    removed = Form(form.name, form.strength, is_removed=True)
    found = replace(start, form=removed, direction=_opposite(start.direction))
    yield Candidate(found, "whether taking it away undoes the effect, as it must if the effect is its own")


def _alternatives(start: Saying) -> Iterator[Candidate]:
    """Yield the same claim of every other intervention, those that follow in the space first."""
    names = list(INTERVENTIONS)
    at = names.index(start.form.name)
    for name in names[at + 1 :] + names[:at]:
        found = replace(start, form=Form(name))
        if start.metric.name == "training_seconds":
            found = replace(found, direction=expected_move(found, start.metric))
        elif start.form.is_removed:
            found = replace(found, direction=_opposite(start.direction))
        yield Candidate(found, "whether something else does the same")


def _opposite(direction: Direction) -> Direction:
    return "decrease" if direction == "increase" else "increase"


def _liked_first(liked: Sequence[str], known: Iterable[str]) -> list[str]:
    names = list(known)
    return [name for name in liked if name in names] + [name for name in names if name not in liked]
