"""Drives the search of one stage: asks the policy, asks the researcher, trains, reports.

Law: it is handed visible data only; a node that fails becomes a buggy node, never the run's end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import torch

from events.catalog import NodeCompleted, NodeCreated, NodeExecuting, NodeRestored, NodeSelectedBest
from events.errors import PipelineError
from stages.context import Context, Stage
from stages.experiment.ledger import SearchState, Tried, state_of
from stages.experiment.metrics import Metric, is_better, naive_quality
from stages.experiment.recipe import described
from stages.experiment.record import Curve, StageRecord
from stages.experiment.researcher import Proposal, Researcher, recipe_of
from stages.experiment.seeds import seed_for
from stages.experiment.tree import (
    ROOT,
    Action,
    Debug,
    Draft,
    Improve,
    Node,
    NoGoodNode,
    Policy,
    Stop,
    Tree,
    choose,
    conclude,
)
from stages.experiment.trial import Bench, Point, Trial, run_trial

# Errors of the library or the device, not of the node: they end the run with their own code.
_FATAL_WORDS: Final = ("CUDA", "cuda", "out of memory", "no kernel image")
ERROR_MAX: Final = 500

Propose = Callable[[Node, Tree], Proposal | None]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of the search: its name, its bounds, and who proposes for it."""

    name: str
    policy: Policy
    draft: Callable[[Tree], Proposal | None]
    improve: Propose


@dataclass(slots=True)
class _Grown:
    """What grows while a stage runs."""

    tree: Tree
    closed: frozenset[str] = frozenset()
    tried: tuple[Tried, ...] = ()

    def take(self, tried: Tried) -> None:
        """Add a finished node."""
        self.tree = self.tree.grown(tried.node)
        self.tried = (*self.tried, tried)

    def curve(self, node: Node) -> Curve | None:
        """Return the learning curve of a node of this stage."""
        return next((each.curve for each in self.tried if each.node.id == node.id), None)


@dataclass(frozen=True, slots=True)
class Search:
    """Searches stage by stage; `used_seeds` remembers what validation must not use again."""

    context: Context
    bench: Bench
    researcher: Researcher
    metric: Metric
    quality: Metric
    seed: int
    repeats: int
    folder: Path
    used_seeds: set[int] = field(default_factory=set)

    def run(
        self, plan: StagePlan, stage: Stage, root: StageRecord | None, known: Sequence[Tried] = ()
    ) -> StageRecord:
        """Search one stage to its end. Raises `PipelineError` where it has no node to hand on.

        `known` are nodes that an earlier attempt has tried: the search, which chooses the same
        again, takes their results instead of training them.
        """
        ledger = {each.node.id: each for each in known}
        grown = _Grown(Tree(self.metric.higher_is_better, root.best if root else None))
        chance = random.Random(seed_for(self.seed, plan.name, "policy"))  # noqa: S311 - a policy, no secret
        while not isinstance(action := choose(grown.tree, plan.policy, grown.closed, chance.random()), Stop):
            proposal = self._proposal(plan, action, grown.tree)
            if proposal is None:
                grown.closed |= {ROOT if isinstance(action, Draft) else action.node.id}
            else:
                sprout = _sprout(plan, action, grown.tree, proposal)
                self._grow(grown, plan, stage, sprout, proposal, ledger.get(sprout.id))
        outcome = conclude(grown.tree, plan.policy, plan.name)
        if isinstance(outcome, NoGoodNode):
            raise PipelineError(outcome.code, outcome.message)
        stage.progress(1.0, f"{plan.name} ends: {action.reason}")
        best = outcome.node
        self.context.emit(
            NodeSelectedBest(stage=plan.name, node=best.id, metric=best.metric, reason=outcome.reason)
        )
        curve = grown.curve(best) or (root.curve if root else None)
        assert curve is not None
        for point in curve.points:
            stage.metric("best_train_loss", point.train_loss, point.epoch)
            stage.metric("best_validation_loss", point.watch_loss, point.epoch)
        record = StageRecord(
            plan.name, plan.policy.limit, grown.tree.nodes, best, outcome.reason, action.reason, curve
        )
        self.context.checkpoint(plan.name, state_of(SearchState(grown.tried, record), is_complete=True))
        return record

    def take_over(self, record: StageRecord) -> None:
        """Remember what a stage used that an earlier attempt has finished."""
        for node in record.nodes:
            self._use_seeds(node)

    def _proposal(self, plan: StagePlan, action: Action, tree: Tree) -> Proposal | None:
        match action:
            case Draft():
                return plan.draft(tree)
            case Debug(node):
                return self.researcher.debug(node, tree)
            case Improve(node):
                return plan.improve(node, tree)
            case Stop():
                raise AssertionError("a search that stopped proposes nothing")

    def _grow(
        self,
        grown: _Grown,
        plan: StagePlan,
        stage: Stage,
        sprout: Node,
        proposal: Proposal,
        known: Tried | None,
    ) -> None:
        """Add one node: train it, or take what an earlier attempt found for the same recipe."""
        number, limit = len(grown.tree.nodes) + 1, plan.policy.limit
        if known is not None and known.node.params == sprout.params:
            self._restore(grown, known)
        else:
            activity = f"training node {number} of {limit}: {described(proposal.changed)}"
            self._try(grown, plan, stage, sprout, activity)
        stage.progress(number / limit, f"finished node {number} of {limit}")
        best = grown.tree.best(with_root=plan.policy.keeps_root)
        if best is not None and best.metric is not None:
            stage.metric(f"best_{self.metric.name}", best.metric, number)

    def _restore(self, grown: _Grown, known: Tried) -> None:
        node = known.node
        self._use_seeds(node)
        grown.take(known)
        self.context.emit(
            NodeRestored(
                stage=node.stage,
                node=node.id,
                from_attempt=known.attempt,
                plan=node.plan,
                parent=node.parent,
                params=dict(node.params),
                buggy=node.buggy,
                seconds=round(node.seconds, 3),
                metric=node.metric,
                metric_name=self.metric.name,
                error=node.error,
            )
        )

    def _try(self, grown: _Grown, plan: StagePlan, stage: Stage, sprout: Node, activity: str) -> None:
        """Train one node, and report it from its creation to its end; its end only when it is safe."""
        emit = self.context.emit
        emit(
            NodeCreated(
                stage=plan.name,
                node=sprout.id,
                plan=sprout.plan,
                parent=sprout.parent,
                params=dict(sprout.params),
            )
        )
        stage.progress(len(grown.tree.nodes) / plan.policy.limit, activity)
        emit(NodeExecuting(stage=plan.name, node=sprout.id))
        node, curve = self._tried(sprout)
        grown.take(Tried(node, curve, self.context.attempt))
        self.context.checkpoint(plan.name, state_of(SearchState(grown.tried), is_complete=False))
        emit(
            NodeCompleted(
                stage=plan.name,
                node=node.id,
                buggy=node.buggy,
                seconds=round(node.seconds, 3),
                metric=node.metric,
                metric_name=self.metric.name,
                error=node.error,
            )
        )

    def _tried(self, sprout: Node) -> tuple[Node, Curve | None]:
        """Train the node's repeats in a folder of its own; an error makes it buggy."""
        folder = self.folder / sprout.id
        folder.mkdir(parents=True)  # fails where anything lies there: no stale result is ever read
        (folder / "recipe.json").write_text(json.dumps(dict(sprout.params), indent=1), encoding="utf-8")
        begun_s = self.bench.clock.monotonic_s()
        try:
            trials = [self._trial(sprout, repeat) for repeat in range(self.repeats)]
        except (ValueError, ArithmeticError, RuntimeError) as error:
            if is_fatal(error):
                raise
            text = f"{type(error).__name__}: {error}"[:ERROR_MAX]
            (folder / "error.txt").write_text(text, encoding="utf-8")
            return replace(sprout, error=text, seconds=self.bench.clock.monotonic_s() - begun_s), None
        seconds = self.bench.clock.monotonic_s() - begun_s
        scores = mean_scores([trial.scores for trial in trials])
        node = replace(
            sprout,
            scores=scores,
            metric=scores[self.metric.name],
            works=self._works(scores),
            seconds=seconds,
        )
        curve = Curve(node.id, _mean_curve([trial.curve for trial in trials]))
        (folder / "scores.json").write_text(json.dumps(scores, indent=1), encoding="utf-8")
        return node, curve

    def _trial(self, sprout: Node, repeat: int) -> Trial:
        self._use_seeds(sprout)
        seed = seed_for(self.seed, sprout.id, repeat)
        return run_trial(self.bench, recipe_of(sprout), judge=self.bench.watch, seed=seed)

    def _use_seeds(self, node: Node) -> None:
        self.used_seeds.update(seed_for(self.seed, node.id, repeat) for repeat in range(self.repeats))

    def _works(self, scores: Mapping[str, float]) -> bool:
        naive = naive_quality(self.bench.facts.task, self.bench.train.targets, self.bench.watch.targets)
        return is_better(self.quality, scores[self.quality.name], naive)


def is_fatal(error: Exception) -> bool:
    """Return whether `error` tells of the machine and not of the node."""
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in _FATAL_WORDS)


def mean_scores(scores: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each score."""
    return {name: fmean(each[name] for each in scores) for name in scores[0]}


def _sprout(plan: StagePlan, action: Action, tree: Tree, proposal: Proposal) -> Node:
    """Return the node that `proposal` will become, not tried yet."""
    parent = action.node if isinstance(action, Debug | Improve) else tree.root
    return Node(
        id=f"{plan.name}/{len(tree.nodes) + 1}",
        stage=plan.name,
        plan=proposal.plan,
        params=proposal.recipe.params(),
        parent=parent.id if parent else None,
        debugs=action.node.debugs + 1 if isinstance(action, Debug) else 0,
        condition=proposal.condition,
    )


def _mean_curve(curves: list[tuple[Point, ...]]) -> tuple[Point, ...]:
    return tuple(
        Point(points[0].epoch, fmean(p.train_loss for p in points), fmean(p.watch_loss for p in points))
        for points in zip(*curves, strict=True)
    )
