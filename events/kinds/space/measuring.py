"""What a run of an idea will measure, in words, before it is queued; pure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHARES, SHIPPED, DataSet
from events.kinds.space.recipe import described
from events.kinds.space.understanding import Understood, file_named_in, understand
from events.runtime.errors import NotMeasurable

# Stands for a file that only a pod can read; each task that its target may have is tried.
_FILE: Final = DataSet(name="file", task="classification", rows=10**9, features=1, outputs=2, image_side=1)
# The accuracy of a linear model on rows that it never saw; and by the number of looks how many units
# there are at most, and which effect, in deviations of a unit, they show in four of five runs.
LINEAR: Final = {"digits": 0.957, "wine": 0.981, "iris": 0.951, "breast_cancer": 0.975}
SEEN: Final = {1: (10, 2.89), 2: (20, 2.48), 3: (40, 2.31)}
_ENDING: Final = re.compile(r"\.(?:csv(?:\.gz)?|npz|parquet)\Z", re.IGNORECASE)


def measured(idea: Idea, dataset: str | None, looks: int = 1) -> str:
    """Return what will be measured, what was filled in, both arms, what is seen. Raises `NotMeasurable`."""
    named = dataset or file_named_in(idea)
    shipped = _shipped(named)
    if named is None or shipped is not None:
        found = understand(idea, shipped)
        return f"{_told(found)}{_power(found.claim, looks)}"
    place, _, target = named.strip().partition("#")
    path = PurePath(place)
    classes = replace(_FILE, name=_ENDING.sub("", path.name) or "the file", location=str(path), target=target)
    values = replace(classes, task="regression", outputs=1)
    told, refusals = [], []
    for each in (classes, values):
        try:
            told.append(_told(understand(idea, each)))
        except NotMeasurable as error:
            refusals.append(error)
    if not told:
        raise refusals[0]
    return f"{' Or, where values are predicted: '.join(dict.fromkeys(told))}{_power_in_deviations(looks)}"


def _power(claim: Claim, looks: int) -> str:
    """Return which effect would be shown, in points where a linear model foretells the accuracy."""
    linear = LINEAR.get(claim.data.name)
    is_foretold = any(each.metric.counts_rows for each in claim.effects) and claim.train_examples is None
    if linear is None or claim.data.location or not is_foretold:
        return _power_in_deviations(looks)
    reach = SEEN[looks][1]
    spread = math.sqrt(2 * linear * (1 - linear) / round(claim.data.open_rows * SHARES["test"]))
    return (
        f"{_shown_by(looks)} an effect on the accuracy that lies {100 * reach * spread:.1f} points from "
        "where the claim begins to hold, if the baseline is right as often as a linear model "
        f"({linear:.2f}) and both arms err on rows of their own; where they err on the same ones, smaller "
        "effects are seen."
    )


def _power_in_deviations(looks: int) -> str:
    return (
        f"{_shown_by(looks)} an effect that lies {SEEN[looks][1]:.1f} standard deviations of the difference "
        "in one unit from where the claim begins to hold, if rows are split at random; how large that is on "
        "these data is said with the verdict."
    )


def _shown_by(looks: int) -> str:
    most = "up to " if looks > 1 else ""
    return f" With {most}{SEEN[looks][0]} units, 80 % of such runs would show"


def names_file(idea: Idea, dataset: str | None) -> bool:
    """Return whether a run has data of its user's own."""
    named = dataset or file_named_in(idea)
    return named is not None and _shipped(named) is None


def _shipped(named: str | None) -> DataSet | None:
    return SHIPPED.get(re.sub(r"[\s_-]+", "_", (named or "").strip()).casefold())


def _told(understood: Understood) -> str:
    claim, intervention = understood.claim, understood.intervention
    tried = "; or ".join(described(each) for each in intervention.strengths)
    arms = f"The baseline has {described(intervention.off)}; what is tried: {tried}."
    return " ".join((claim.sentence, *claim.notes, arms))
