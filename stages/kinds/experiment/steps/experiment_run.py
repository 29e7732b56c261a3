"""An experiment that runs: its specification, its researcher, and how much it may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from events.kinds.experiment import (
    STAGES,
    ExperimentSpec,
    looks_of,
)
from events.kinds.space.claim import Claim
from stages.context import Context
from stages.kinds.experiment.record.ledger import (
    Past,
)
from stages.kinds.experiment.research.proposal import Researcher
from stages.kinds.experiment.research.researcher_factory import ChosenResearcher

STAGES_TOTAL: Final = len(STAGES)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a preset spends; `repeats` are the seeds of a re-evaluation, `looks` the times that the claim is judged at most.

    The stage that applies the intervention has no limit of its own: it gets as many tries as the baseline had.
    """

    limits: Mapping[str, int]
    epochs: int
    repeats: int
    looks: int = 1


PRESETS: Final[Mapping[str, Effort]] = {
    "quick": Effort(limits={"Stage_1": 3, "Stage_2": 5, "Stage_4": 8}, epochs=20, repeats=3),
    "standard": Effort(
        limits={"Stage_1": 20, "Stage_2": 12, "Stage_4": 18},
        epochs=30,
        repeats=5,
    ),
}


def effort_of(spec: ExperimentSpec) -> Effort:
    """Return the preset's effort with the limits that the specification names."""
    preset = PRESETS[spec.preset]
    named: Mapping[str, int | None] = msgspec.structs.asdict(spec.nodes)
    limits = {name: named[name] or limit for name, limit in preset.limits.items()}
    return replace(preset, limits=limits, looks=looks_of(spec))


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """What every step of one run needs; `folder` is its own, `past` what earlier attempts left."""

    context: Context
    spec: ExperimentSpec
    effort: Effort
    chosen: ChosenResearcher
    past: Past
    folder: Path

    @property
    def claim(self) -> Claim:
        return self.researcher.claim

    @property
    def researcher(self) -> Researcher:
        return self.chosen.researcher
