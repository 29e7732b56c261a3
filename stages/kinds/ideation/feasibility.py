"""The prospects of a claim before any measurement: can it be decided, and in which direction; pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from events.kinds.space.data_sets import SHARES
from events.kinds.space.effect import Direction
from events.kinds.space.metrics import METRICS, Metric
from stages.kinds.ideation.wording import Saying

# What decides the number of parameters; nothing else moves it.
_SIZE_FIELDS: Final = frozenset({"width", "depth", "network", "members", "normalisation"})
# What takes work off the training; everything else that moves its time adds some.
_QUICKER: Final = frozenset({"narrower", "shallower", "larger_batches", "shorter_training", "early_stopping"})
# Of what a verdict is measured on; below, one example moves an accuracy by more than most effects.
TEST_ROWS_MIN: Final = 60


def obstacle(saying: Saying) -> str | None:
    """Return why no experiment can decide `saying`; None where one can."""
    intervention, metric, data = saying.form.intervention(), saying.metric, saying.data
    if data.task not in metric.tasks:
        return f"{metric.title} is not measured on {data.title}"
    if "images" in intervention.needs and data.image_side is None:
        return f"{intervention.title} needs images, and {data.title} has none"
    if "classes" in intervention.needs and data.task != "classification":
        return f"{intervention.title} needs classes, and {data.title} has none"
    if metric.name == "parameters":
        counted = "follows from the recipe by counting" if _resizes(intervention.fields) else "stays as it is"
        return f"the number of parameters {counted}: there is nothing to measure"
    if intervention.name == "temperature_scaling" and metric.name == "accuracy":
        return "temperature scaling leaves the order of the classes as it is, and so the accuracy"
    return None


def expected_move(saying: Saying, metric: Metric) -> Direction:
    """Return the move of `metric` that is in the sense of `saying`: its gain, or the price of it."""
    if metric.name == METRICS["training_seconds"].name:
        takes_work_off = saying.form.name in _QUICKER
        return "decrease" if takes_work_off != saying.form.is_removed else "increase"
    return "increase" if metric.higher_is_better == _is_gain(saying) else "decrease"


def doubts(saying: Saying) -> list[str]:
    """Return what makes the answer less certain than it looks, the gravest first."""
    found = []
    data, metric = saying.data, saying.metric
    test_rows = round(data.open_rows * SHARES["test"])
    if test_rows < TEST_ROWS_MIN:
        found.append(
            f"{data.title} is small: about {test_rows} rows decide, so only large effects stand out."
        )
    if metric.noisy:
        found.append(f"The {metric.title} depends on the load of the machine; arms have to run in turn.")
    if metric.name == "ece":
        found.append(
            "A calibration error depends on its bins, and a worse classifier can be well calibrated."
        )
    if saying.train_examples:
        found.append(
            "With so little to learn from, the draw of the training rows may outweigh the intervention."
        )
    if saying.form.strength is not None:
        found.append("Only one strength is tried; another one may act differently, even the other way round.")
    if saying.form.is_removed:
        found.append("A baseline tuned with the intervention may suffer from any change, whatever it is.")
    if saying.form.instead_of is not None:
        found.append("The comparison holds at the settings tried; each of the two may prefer its own.")
    found.append(f"One data set and small networks: a result on {data.title} need not carry over to others.")
    return found


def _is_gain(saying: Saying) -> bool:
    """Return whether the claim is an improvement; a price in time is no loss of quality."""
    if saying.metric.name == METRICS["training_seconds"].name:
        return not saying.form.is_removed
    return saying.is_improvement


def _resizes(fields: Collection[str]) -> bool:
    return not _SIZE_FIELDS.isdisjoint(fields)
