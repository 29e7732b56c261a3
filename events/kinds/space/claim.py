"""A claim that can be measured: something is done, and a number moves in a direction; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from events.kinds.space.data_sets import DataSet
from events.kinds.space.metrics import QUALITY, Metric, Task

Direction = Literal["increase", "decrease"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What will be measured: with `subject`, the metric's own number moves in `direction`."""

    subject: str
    metric: Metric
    direction: Direction
    data: DataSet
    train_examples: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """Return whether classes or values are predicted."""
        return self.data.task

    @property
    def selection(self) -> Metric:
        """Return the metric that the search optimises: the claim's own, unless that can be cheated."""
        return self.metric if self.metric.selects else QUALITY[self.task]

    @property
    def sentence(self) -> str:
        """Return the claim as one plain sentence."""
        return f"With {self.subject}, the {self._measure} becomes {self._move}."

    @property
    def question(self) -> str:
        """Return what is measured as a question, which claims nothing."""
        return f"Does the {self._measure} become {self._move} with {self.subject}?"

    @property
    def _move(self) -> str:
        return "higher" if self.direction == "increase" else "lower"

    @property
    def _measure(self) -> str:
        few = f" ({self.train_examples} training examples)" if self.train_examples else ""
        return f"{self.metric.title} on {self.data.title}{few}"
