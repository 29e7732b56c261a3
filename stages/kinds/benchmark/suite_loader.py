"""The suites that a run may name, and where this pod finds their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.kinds.benchmark import BenchmarkSpec
from stages.adapters.models.opening import egress_policy_of
from stages.context import Context
from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.data.loading import load
from stages.kinds.benchmark.suites.data.sources import HUB, DataSources
from stages.kinds.benchmark.suites.item import Item, Suite
from stages.kinds.benchmark.suites.own import own

NO_HUB: Final = "none"


@dataclass(frozen=True, slots=True)
class SuiteLoader:
    """Finds a suite by its name, the sources of a run, and the items of a suite."""

    suite: Callable[[str, BenchmarkSpec], Suite]
    sources: Callable[[Context], DataSources]
    load: Callable[[Suite, DataSources], list[Item]]


def _suite(name: str, spec: BenchmarkSpec) -> Suite:
    return next((own(each) for each in spec.own if each.name == name), None) or SUITES[name]


def sources_of(variables: Mapping[str, str], folders: tuple[Path, ...], cache: Path) -> DataSources:
    """Return the sources that settings name. Raises `PipelineError` with the code CONFIG."""
    hub = variables.get("PODFLEET_HUB_URL") or HUB
    return DataSources(
        folders=folders,
        cache=cache,
        egress=egress_policy_of(variables),
        hub="" if hub == NO_HUB else hub,
        token=variables.get("HF_TOKEN", ""),
    )


def _sources(context: Context) -> DataSources:
    tools = context.tools
    return sources_of(tools.variables, tools.data_sets, context.workspace / "data")


LOADER: Final = SuiteLoader(_suite, _sources, load)
