"""Everything that a run measured, kept together: plots and paper take their numbers from here alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Annotated, Any, Final

from msgspec import Meta

from events.catalog import Conclusion
from events.kinds.experiment import Arm
from events.kinds.idea import Idea
from events.kinds.space.claim import Claim
from events.kinds.space.effect import Effect
from stages.bounds import (
    NODES_MAX,
    POINTS_MAX,
    SEEDS_MAX,
    Count,
    Key,
    Line,
    Notes,
    Number,
    Ordinal,
    Seed,
    Spread,
    Whole,
    Word,
)
from stages.kinds.experiment.judging.preconditions import NotMeasured
from stages.kinds.experiment.judging.replication import Replication
from stages.kinds.experiment.judging.switch import choices_of
from stages.kinds.experiment.statistics.earlier import Use
from stages.kinds.experiment.statistics.estimate import CONFIDENCE, rate_not_excluded
from stages.kinds.experiment.statistics.several import together
from stages.kinds.experiment.statistics.validation import TOO_GOOD, Judgement
from stages.kinds.experiment.tree import Node, NodeId, StageName
from stages.ports.literature import Work

ARMS: Final[tuple[Arm, ...]] = ("baseline", "intervention")


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch of a learning curve; losses are means."""

    epoch: Whole
    train_loss: Number
    watch_loss: Number


@dataclass(frozen=True, slots=True)
class Curve:
    """The learning curve of a node; empty where its program reported none."""

    node: NodeId
    points: Annotated[tuple[Point, ...], Meta(max_length=POINTS_MAX)] = ()


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate of a stage's end, run again from several seeds of its own.

    `values` are the selection metric on validation data, one a seed; `standard_error` is None for one seed.
    """

    node: NodeId
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=SEEDS_MAX)]
    values: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=SEEDS_MAX)]
    mean: Number
    standard_error: Spread | None


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One finished stage of the search."""

    name: StageName
    limit: Count
    nodes: Annotated[tuple[Node, ...], Meta(max_length=NODES_MAX)]
    best: Node
    reason: Line
    ended: Line
    curve: Curve
    curves: Annotated[tuple[Curve, ...], Meta(max_length=NODES_MAX)] = ()
    finalists: Annotated[tuple[Finalist, ...], Meta(max_length=NODES_MAX)] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """Under what conditions the run was made; `notes` list the changes of the data on the way."""

    run_id: Word
    attempt: Ordinal
    seed: Seed
    preset: Word
    repeats: Count
    epochs: Count
    researcher: Line
    isolation: Word
    device: Word
    versions: Annotated[Mapping[Word, Word], Meta(max_length=50)]
    split: Annotated[Mapping[Key, Count], Meta(max_length=20)]
    features: Count
    outputs: Count
    notes: Notes = ()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The judgement on each effect of the claim, and the means of every metric.

    `replication` is where it was measured, if that is the second time; `references` are the mean qualities of the
    reference models in the same units, and `nothing` is why nothing was measured, if nothing was. `use` is which
    verdict on these rows it is.
    """

    judgements: tuple[Judgement, ...]
    means: Mapping[str, tuple[float, float]]  # metric: baseline, intervention
    replication: Replication | None = None
    references: Mapping[str, float] = field(default_factory=dict)
    nothing: NotMeasured | None = None
    switch: tuple[str, ...] = ()  # what it changes in the program, a line each
    tries: tuple[int, int] = (0, 0)  # without the intervention, and with it
    use: Use | None = None
    untouched: Mapping[str, float] = field(
        default_factory=dict
    )  # means of the tuned baseline, where it was run

    @property
    def judgement(self) -> Judgement:
        """Return the judgement on the first effect."""
        return self.judgements[0]

    @property
    def conclusion(self) -> Conclusion:
        """Return what is concluded of the whole claim."""
        return together(self.judgements)

    @property
    def reason(self) -> str:
        """Return why."""
        if len(self.judgements) == 1:
            return self.judgement.reason
        return "; ".join(
            f"the claim about the {each.plan.metric.title} is {each.conclusion} ({each.reason})"
            for each in self.judgements
        )

    @property
    def is_too_good(self) -> bool:
        """Return whether a part of it is not believed of one measurement."""
        return any(each.reason == TOO_GOOD for each in self.judgements)

    def scores(self, claim: Claim) -> dict[str, Any]:
        """Return the numbers as the validation event carries them; those of further effects in `claims`."""
        judgement = self.judgement
        told = [_told(*each) for each in zip(claim.effects, self.judgements, strict=True)]
        return {
            **told[0],
            "seeds": [pair.seed for pair in judgement.pairs],
            "baseline": [pair.baseline for pair in judgement.pairs],
            "intervention": [pair.intervention for pair in judgement.pairs],
            "differences": [pair.difference for pair in judgement.pairs],
            **({"claims": told} if len(told) > 1 else {}),
            "confidence": CONFIDENCE,
            "level": judgement.plan.level,
            **_looked(judgement),
            "n": len(judgement.pairs),
            "units_registered": judgement.plan.units,
            "test_rows": judgement.plan.test_rows,
            "failed": {
                arm: sum(pair.failed[place] for pair in judgement.pairs) for place, arm in enumerate(ARMS)
            },
            "failures_not_excluded": rate_not_excluded(judgement.plan.units),
            "means": {
                name: {"baseline": one, "intervention": other} for name, (one, other) in self.means.items()
            },
            "references": dict(self.references),
            **({"untouched": dict(self.untouched)} if self.untouched else {}),
            "tries": dict(zip(ARMS, self.tries, strict=True)),
            "switch": list(self.switch),
            **({"not_measured": list(self.nothing.found)} if self.nothing else {}),
            **({"replication": self.replication.scores()} if self.replication else {}),
            **({"data_use": self.use.scores()} if self.use else {}),
        }


def _looked(judgement: Judgement) -> dict[str, Any]:
    """Return at which look it was judged, and how many were registered, where there are several."""
    plan = judgement.plan
    return {"look": plan.look, "looks_registered": len(plan.looks)} if plan.looks else {}


def _told(effect: Effect, judgement: Judgement) -> dict[str, Any]:
    """Return what was claimed of a measure, and what was found."""
    interval, region = judgement.interval, judgement.plan.region
    return {
        "metric": effect.metric.name,
        "direction": effect.direction,
        "claimed": effect.kind,
        "above": region.low if isfinite(region.low) else None,
        "below": region.high if isfinite(region.high) else None,
        "margin": effect.margin,
        "is_default_margin": effect.is_default,
        "conclusion": judgement.conclusion,
        "mean_difference": interval.mean if interval else None,
        "ci_low": interval.low if interval else None,
        "ci_high": interval.high if interval else None,
        "p_value": interval.p_value if interval else None,
        **({} if judgement.p_corrected is None else {"p_corrected": judgement.p_corrected}),
        "smallest_seen": interval.seen if interval else None,
        "in_test_rows": judgement.in_test_rows,
    }


@dataclass(frozen=True, slots=True)
class Record:
    """A whole run, measured."""

    idea: Idea
    claim: Claim
    setting: Setting
    stages: tuple[StageRecord, ...]
    verdicts: Verdicts
    works: tuple[Work, ...] = ()  # earlier publications that a look-up found
    others: tuple[str, ...] = ()  # other pods whose word a part of it is; "" for one that is not known

    @property
    def baseline(self) -> Node:
        """Return the node that stands for "without": the very program of "with", its switch off."""
        return arms_with_switch(self.intervention)[0]

    @property
    def intervention(self) -> Node:
        """Return the node that stands for "with"."""
        return self.stage("Stage_3").best

    def stage(self, name: str) -> StageRecord:
        """Return the record of one stage."""
        return next(stage for stage in self.stages if stage.name == name)


def arms_with_switch(node: Node) -> tuple[Node, Node]:
    """Return a program with the intervention as both arms: its switch off, and on as it was tried."""
    params = {**node.params, **choices_of(node.code, is_on=False)}
    off = replace(node, arm="baseline", params=params, metric=None, scores={}, condition="")
    return off, node


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
            "intervention": claim.subject,
            "effects": [
                {
                    "metric": each.metric.name,
                    "direction": each.direction,
                    "kind": each.kind,
                    "margin": each.margin,
                    "is_default": each.is_default,
                }
                for each in claim.effects
            ],
            "dataset": claim.data.name,
            "train_examples": claim.train_examples,
            "selection_metric": claim.selection.name,
            "notes": list(claim.notes),
        },
        "setting": asdict(record.setting),
        "stages": [asdict(stage) for stage in record.stages],
        "validation": {
            "verdict": "pass" if record.verdicts.conclusion == "supported" else "fail",
            "conclusion": record.verdicts.conclusion,
            "reason": record.verdicts.reason,
            "scores": record.verdicts.scores(claim),
        },
    }
