"""A claim that can be measured: something is done, and measures move, or do not; pure."""

from __future__ import annotations

from dataclasses import dataclass

from events.kinds.space.data_sets import DataSet
from events.kinds.space.effect import Direction, Effect
from events.kinds.space.metrics import METRICS, QUALITY, Metric, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What will be measured: with `subject`, all `effects` are there. The first one leads the search."""

    subject: str
    effects: tuple[Effect, ...]
    data: DataSet
    train_examples: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> Metric:
        """Return the measure of the first effect."""
        return self.effects[0].metric

    @property
    def direction(self) -> Direction:
        """Return the direction of the first effect."""
        return self.effects[0].direction

    @property
    def metrics(self) -> frozenset[str]:
        """Return the names of all measures."""
        return frozenset(each.metric.name for each in self.effects)

    @property
    def task(self) -> Task:
        """Return whether classes or values are predicted."""
        return self.data.task

    @property
    def quality(self) -> Metric:
        """Return what says how good answers are: each class alike where the claim is about classes.

        Who ranks rows well may never answer a rare class, so that a ranking is judged as one.
        """
        if "auroc" in self.metrics:
            return METRICS["auroc"]
        is_by_class = any(each.metric.is_by_class for each in self.effects)
        return METRICS["balanced_accuracy"] if is_by_class else QUALITY[self.task]

    @property
    def selection(self) -> Metric:
        """Return the metric that the search optimises: the claim's own, unless that can be cheated."""
        return self.metric if self.metric.selects else self.quality

    @property
    def sentence(self) -> str:
        """Return the claim as one plain sentence."""
        parts = (f"the {measure} {each.words}" for each, measure in self._measures)
        return f"With {self.subject}, {', and '.join(parts)}."

    @property
    def question(self) -> str:
        """Return what is measured as a question, which claims nothing."""
        first, *more = (f"does the {measure} {each.question}" for each, measure in self._measures)
        return f"D{', and '.join((first[1:], *more))}{',' if more else ''} with {self.subject}?"

    @property
    def _measures(self) -> list[tuple[Effect, str]]:
        few = f" ({self.train_examples} training examples)" if self.train_examples else ""
        first, *more = self.effects
        where = f"{first.metric.title} on {self.data.title}{few}"
        return [(first, where), *((each, each.metric.title) for each in more)]
