"""The tools of this pod for its pipelines, wired from the child's environment.

Law: a broken tool fails only the pipeline that uses it, with its own message: a probe runs where the
model's settings are wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import PipelineError
from stages.adapters.gpus import visible_gpus
from stages.adapters.literature import open_literature
from stages.adapters.models.opening import egress_policy_of, open_model
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.isolation.sandbox import POLICIES
from stages.models.model import Answer, Model, Question
from stages.ports import Tools
from stages.ports.literature import Literature, LookUpFailed, Work

SLOTS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Unusable:
    """Stands in for a tool that is broken here, and says why to whoever takes it up."""

    error: PipelineError

    @property
    def name(self) -> str:
        raise self.error

    def ask(self, question: Question) -> Answer:
        raise self.error

    def search(self, query: str, limit: int) -> list[Work]:
        raise LookUpFailed(self.error.message)


def tools(environ: Mapping[str, str], secrets: Iterable[str] = ()) -> Tools:
    """Return the tools of this pod; `environ` was checked when the worker started.

    `secrets` are the names of those in it that the run has named.
    """
    gpus = len(visible_gpus(environ))
    price = environ.get("PODFLEET_GPU_USD_PER_HOUR")
    return Tools(
        sandbox=LocalSandbox(
            clock=SystemClock(),
            policy=next((each for each in POLICIES if each == environ.get("PODFLEET_ISOLATION")), "strict"),
            gpus=tuple(filter(None, environ.get("CUDA_VISIBLE_DEVICES", "").split(","))),
        ),
        model=_model(environ),
        literature=_literature(environ),
        prices=Path(environ["PODFLEET_PRICES"]) if environ.get("PODFLEET_PRICES") else None,
        data_sets=data_sets(environ),
        slots=min(SLOTS_MAX, gpus or len(os.sched_getaffinity(0))),
        gpus=gpus,
        pod_usd_per_hour=float(price) if price else None,
        judge_secret=environ.get("PODFLEET_JUDGE_SECRET", ""),
        variables=environ,
        secrets=tuple(sorted(secrets)),
    )


def _model(environ: Mapping[str, str]) -> Model | None:
    """Return the language model that the settings name, if any."""
    try:
        return open_model(environ, clock=SystemClock(), ids=SystemIds())
    except PipelineError as error:
        return Unusable(error)


def _literature(environ: Mapping[str, str]) -> Literature | None:
    """Return the index of publications that the settings name, if any."""
    try:
        url = environ.get("PODFLEET_LITERATURE_URL")
        return open_literature(url, clock=SystemClock(), ids=SystemIds(), egress=egress_policy_of(environ))
    except PipelineError as error:
        return Unusable(error)


def data_sets(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of PODFLEET_DATASETS."""
    return tuple(Path(each) for each in environ.get("PODFLEET_DATASETS", "").split(os.pathsep) if each)
