"""The suites that a run may name, and where this pod finds their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from events.kinds.benchmark import BenchmarkSpec
from stages.adapters.models.opening import egress_policy_of
from stages.benchmark.suites.catalogue import SUITES
from stages.benchmark.suites.data.loading import load
from stages.benchmark.suites.data.sources import HUB, DataSources
from stages.benchmark.suites.item import Item, Suite
from stages.benchmark.suites.own import own
from stages.context import Context

NO_HUB: Final = "none"


@dataclass(frozen=True, slots=True)
class SuiteLoader:
    """Finds a suite by its name, the sources of a run, and the items of a suite."""

    suite: Callable[[str, BenchmarkSpec], Suite]
    sources: Callable[[Context], DataSources]
    load: Callable[[Suite, DataSources], list[Item]]


def _suite(name: str, spec: BenchmarkSpec) -> Suite:
    return next((own(each) for each in spec.own if each.name == name), None) or SUITES[name]


def _sources(context: Context) -> DataSources:
    variables = context.tools.variables
    hub = variables.get("PODFLEET_HUB_URL") or HUB
    return DataSources(
        folders=context.tools.data_sets,
        cache=context.workspace / "data",
        egress=egress_policy_of(variables),
        hub="" if hub == NO_HUB else hub,
        token=variables.get("HF_TOKEN", ""),
    )


LOADER: Final = SuiteLoader(_suite, _sources, load)
