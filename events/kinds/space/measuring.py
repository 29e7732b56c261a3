"""What a run of an idea will measure, in words, before it is queued; pure."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from events.kinds.idea import Idea
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.recipe import described
from events.kinds.space.understanding import Understood, file_named_in, understand
from events.runtime.errors import NotMeasurable

# Stands for a file that only a pod can read; each task that its target may have is tried.
_FILE: Final = DataSet(name="file", task="classification", rows=10**9, features=1, outputs=2, image_side=1)
_ENDING: Final = re.compile(r"\.(?:csv(?:\.gz)?|npz|parquet)\Z", re.IGNORECASE)


def measured(idea: Idea, dataset: str | None) -> str:
    """Return what will be measured, what was filled in, and both arms. Raises `NotMeasurable`."""
    named = dataset or file_named_in(idea)
    shipped = _shipped(named)
    if named is None or shipped is not None:
        return _told(understand(idea, shipped))
    place, _, target = named.strip().partition("#")
    path = PurePath(place)
    classes = replace(_FILE, name=_ENDING.sub("", path.name) or "the file", location=str(path), target=target)
    values = replace(classes, task="regression", outputs=1)
    found, refusals = [], []
    for each in (classes, values):
        try:
            found.append(_told(understand(idea, each)))
        except NotMeasurable as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    return " Or, where values are predicted: ".join(dict.fromkeys(found))


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
