"""Everything that a run measured, kept together: plots and paper take their numbers from here alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from events.runs import Idea
from stages.experiment.claim import Claim
from stages.experiment.recipe import Value
from stages.experiment.tree import Node
from stages.experiment.trial import Point
from stages.experiment.validation import CONFIDENCE, Judgement


@dataclass(frozen=True, slots=True)
class Curve:
    """The learning curve of a node, averaged over its repeats."""

    node: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One finished stage of the search."""

    name: str
    limit: int
    nodes: tuple[Node, ...]
    best: Node
    reason: str
    ended: str
    curve: Curve


@dataclass(frozen=True, slots=True)
class Setting:
    """Under what conditions the run was made."""

    run_id: str
    attempt: int
    seed: int
    preset: str
    repeats: int
    epochs: int
    device: str
    versions: Mapping[str, str]
    split: Mapping[str, int]
    features: int
    outputs: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The judgement on the claim's metric, and the means of every other metric beside it."""

    judgement: Judgement
    means: Mapping[str, tuple[float, float]]  # metric: baseline, intervention

    def scores(self, claim: Claim) -> dict[str, Any]:
        """Return the numbers as the validation event carries them."""
        judgement = self.judgement
        interval = judgement.interval
        return {
            "metric": claim.metric.name,
            "direction": claim.direction,
            "seeds": [pair.seed for pair in judgement.pairs],
            "baseline": [pair.baseline for pair in judgement.pairs],
            "intervention": [pair.intervention for pair in judgement.pairs],
            "differences": [pair.difference for pair in judgement.pairs],
            "mean_difference": interval.mean if interval else None,
            "ci_low": interval.low if interval else None,
            "ci_high": interval.high if interval else None,
            "confidence": CONFIDENCE,
            "n": len(judgement.pairs),
            "means": {
                name: {"baseline": one, "intervention": other} for name, (one, other) in self.means.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A whole run, measured."""

    idea: Idea
    claim: Claim
    setting: Setting
    stages: tuple[StageRecord, ...]
    verdicts: Verdicts

    @property
    def baseline(self) -> Node:
        """Return the node that stands for "without"."""
        return self.stage("Stage_2").best

    @property
    def intervention(self) -> Node:
        """Return the node that stands for "with"."""
        return self.stage("Stage_3").best

    def stage(self, name: str) -> StageRecord:
        """Return the record of one stage."""
        return next(stage for stage in self.stages if stage.name == name)

    def has_intervention(self, node: Node) -> bool:
        """Return whether `node` was trained with the intervention."""
        off: Mapping[str, Value] = self.claim.intervention.off
        return any(node.params[name] != value for name, value in off.items())


def as_results(record: Record) -> dict[str, Any]:
    """Return every number of the run as plain data, for `results.json`."""
    claim = record.claim
    return {
        "idea": {
            "Name": record.idea.name,
            "Title": record.idea.title,
            "Short Hypothesis": record.idea.short_hypothesis,
        },
        "claim": {
            "sentence": claim.sentence,
            "intervention": claim.intervention.name,
            "metric": claim.metric.name,
            "direction": claim.direction,
            "dataset": claim.dataset,
            "train_examples": claim.train_examples,
            "selection_metric": claim.selection.name,
            "notes": list(claim.notes),
        },
        "setting": asdict(record.setting),
        "stages": [asdict(stage) for stage in record.stages],
        "validation": {
            "verdict": record.verdicts.judgement.verdict,
            "reason": record.verdicts.judgement.reason,
            "scores": record.verdicts.scores(claim),
        },
    }
