"""The suites that a run may name, and where this pod finds their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from events.kinds.benchmark import BenchmarkSpec
from stages.benchmark.suites.data.sources import DataSources
from stages.benchmark.suites.item import Item, Suite
from stages.context import Context


@dataclass(frozen=True, slots=True)
class Shelf:
    """Finds a suite by its name, the sources of a run, and the items of a suite."""

    suite: Callable[[str, BenchmarkSpec], Suite]
    sources: Callable[[Context], DataSources]
    load: Callable[[Suite, DataSources], list[Item]]


SHELF = None  # type: ignore
