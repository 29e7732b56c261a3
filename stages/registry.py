"""Which pipeline runs which kind, and what must be installed for it.

Law: importing this module imports no pipeline. Only the pod's child calls `load`; a new
kind of run is one row here.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stages.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a pipeline lives, and the modules without which it cannot run."""

    module: str
    attribute: str = "run"
    requires: tuple[str, ...] = ()


# In the order in which a process loads them: what a hybrid pod prefers, what is light, what is heavy.
PIPELINES: Final[Mapping[str, Entry]] = {
    "ideation": Entry("stages.ideation.pipeline"),
    "probe": Entry("stages.probe.pipeline"),
    "experiment": Entry(
        "stages.experiment.pipeline", requires=("torch", "sklearn", "matplotlib", "typst", "pypandoc")
    ),
}


def installed() -> tuple[str, ...]:
    """Return the kinds whose requirements are installed here; imports none of them."""
    return tuple(kind for kind, entry in PIPELINES.items() if not missing(entry))


def missing(entry: Entry) -> tuple[str, ...]:
    """Return the requirements of `entry` that are not installed."""
    return tuple(name for name in entry.requires if importlib.util.find_spec(name) is None)


def load(kinds: Iterable[str]) -> dict[str, Pipeline]:
    """Import the pipelines of `kinds`, with everything heavy that they need.

    Raises `KeyError` for a kind that nobody registered, `ImportError` for one that cannot
    be imported.
    """
    return {kind: _load(PIPELINES[kind]) for kind in kinds}


def imported(name: str) -> Any:
    """Return a module that a pipeline has imported, None where none has; one on its way is waited for."""
    return importlib.import_module(name) if name in sys.modules else None


def _load(entry: Entry) -> Pipeline:
    pipeline: Pipeline = getattr(importlib.import_module(entry.module), entry.attribute)
    return pipeline
