"""Drives the search of one stage: asks the policy, asks the researcher, runs programs, reports.

Law: it is given visible data only. A node that fails becomes a buggy node, never the run's end. A stage
goes in rounds of a fixed width, so that the same seed makes the same search on a pod of any size: nodes of
a round are chosen one after the other, run side by side, and join the tree in the order of choice.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from events.files.open_beneath import place_beneath
from events.files.paths import RunPath
from events.kinds.experiment import (
    ABLATED,
    NodeCodeGenerated,
    NodeCompleted,
    NodeCreated,
    NodeExecuting,
    NodeRestored,
    NodeSelectedBest,
    best_of,
)
from events.kinds.space.metrics import Metric, is_better
from events.runtime.errors import PipelineError
from stages.context import Context, Stage
from stages.kinds.experiment.consistency import Course
from stages.kinds.experiment.judging.evaluation_set import Judges
from stages.kinds.experiment.record.ledger import ClaimState, SearchState, Tried, state_of
from stages.kinds.experiment.record.record import ARMS, Curve, Finalist, StageRecord
from stages.kinds.experiment.record.rows import Row, finalist_row, node_row
from stages.kinds.experiment.research.proposal import NoProposal, Proposal, Researcher
from stages.kinds.experiment.search.handover import ERRORS, handed_on
from stages.kinds.experiment.search.tree_file import TreeFile
from stages.kinds.experiment.search.worker_pool import TaskGroup, WorkerPool
from stages.kinds.experiment.seeds import seed_for
from stages.kinds.experiment.statistics.scores import naive_quality
from stages.kinds.experiment.tree import (
    ROOT,
    Action,
    Chosen,
    Debug,
    Draft,
    Improve,
    Node,
    NoGoodNode,
    Policy,
    Stop,
    Tree,
    Wait,
    choose,
    conclude,
)
from stages.kinds.experiment.trials.trial import Bench, Trials

WIDTH: Final = 4  # nodes of a round
FINALISTS: Final = 3
SILENCES_MAX: Final = 3  # rounds in a row without a usable proposal, after which a stage ends
LOG_CHARS: Final = 2_000

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
    """What grows while a stage runs; `begun` is the round under way, `silences` are the failures to propose since the last proposal."""

    tree: Tree
    closed: frozenset[str] = frozenset()
    tried: tuple[Tried, ...] = ()
    begun: tuple[Node, ...] = ()
    silences: tuple[NoProposal, ...] = ()

    def begin(self, sprout: Node) -> None:
        """Add a node to the round."""
        self.begun = (*self.begun, sprout)
        self.tree = self.tree.begun(sprout)

    def take(self, tried: Tried) -> None:
        """Keep the result of a node of the round."""
        self.tried = (*self.tried, tried)

    def close_round(self) -> None:
        """Let the round's nodes join the tree, in the order in which they were chosen."""
        by_id = {each.node.id: each for each in self.tried}
        before = tuple(each for each in self.tried if each.node.id not in {node.id for node in self.begun})
        round_ = tuple(by_id[node.id] for node in self.begun)
        self.tried = (*before, *round_)
        self.tree = self.tree.grown(*(each.node for each in round_))
        self.begun = ()

    def curves(self) -> tuple[Curve, ...]:
        """Return the learning curve of every node that has one."""
        return tuple(each.curve for each in self.tried if each.curve is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Searches stage by stage; `used_seeds` remembers what validation must not use again.

    `check` is called before each step and may end the run (a budget that is spent); `keeps_proposals` is
    whether proposals are expensive, so that they outlive the pod.
    """

    context: Context
    bench: Bench
    judges: Judges
    pool: WorkerPool
    researcher: Researcher
    metric: Metric
    quality: Metric
    naive: float
    seed: int
    repeats: int
    folder: Path
    check: Callable[[], None]
    forest: TreeFile
    claim: ClaimState
    judge: str  # the mark of the secret
    keeps_proposals: bool = False
    used_seeds: set[int] = field(default_factory=set)

    def run(
        self, plan: StagePlan, stage: Stage, root: StageRecord | None, known: SearchState | None = None
    ) -> StageRecord:
        """Search one stage to its end. Raises `PipelineError` where it has no node to hand on.

        `known` is how far an earlier attempt came: what it has tried is taken over, not executed again.
        """
        grown = _Grown(Tree(self.metric.higher_is_better, root.best if root else None))
        if known is not None and (known.root, known.claim) == (_root(grown), self.claim):
            self._take_up(grown, known)
        while not isinstance(stop := self._round(grown, plan, stage), Stop):
            pass
        outcome = conclude(grown.tree, plan.policy, plan.name)
        if isinstance(outcome, NoGoodNode):
            if len(grown.silences) >= SILENCES_MAX:
                last = grown.silences[-1]
                message = f"{stop.reason}, the last time because {last}; {outcome.message}"
                raise PipelineError(last.code, message, retryable=True)
            raise PipelineError(outcome.code, outcome.message)
        finalists = self._evaluated_again(grown, plan, stage, outcome)
        record = self._record(grown, plan, root, outcome, finalists, stop.reason)
        stage.progress(1.0, f"{plan.name} ends: {stop.reason}")
        self._announce(record, stage)
        state = SearchState(grown.tried, (), record, self.claim, _root(grown), self.judge)
        self.context.checkpoint(plan.name, state_of(state, is_complete=True))
        return record

    def take_over(self, record: StageRecord, attempt: int) -> None:
        """Report again the results of a stage that an earlier attempt has finished, and remember its seeds."""
        for node in record.nodes:
            self._use_seeds(node)
            self._say_restored(node, attempt)
        for finalist in record.finalists:
            self.used_seeds.update(finalist.seeds)
        self._announce(record, Stage(record.name, self.context))

    def course(self, plan: StagePlan, before: StageRecord | None) -> Course:
        """Return what the stage of a plan can be, against which its checkpoint is held."""
        return Course(
            stage=plan.name,
            root=before.best if before is not None else None,
            limit=plan.policy.limit,
            width=WIDTH,
            metric=self.metric.name,
            judge=self.judge,
            seeds=partial(self._seeds_again, plan.name),
        )

    def _seeds_again(self, stage: str, node: str) -> tuple[int, ...]:
        """Return the seeds from which a finalist of a stage is run again."""
        return tuple(seed_for(self.seed, stage, node, "again", number) for number in range(self.repeats))

    # --- rounds -----------------------------------------------------------------------------

    def _take_up(self, grown: _Grown, known: SearchState) -> None:
        """Put what earlier attempts tried into the tree; the round that was cut off stands open."""
        open_ids = {node.id for node in known.begun}
        finished = [each for each in known.tried if each.node.id not in open_ids]
        for each in finished:
            self._use_seeds(each.node)
            self._say_restored(each.node, each.attempt)
        grown.tried = tuple(finished)
        grown.tree = grown.tree.grown(*(each.node for each in finished))
        if not known.begun:
            return
        results = {each.node.id: each for each in known.tried}
        for sprout in known.begun:
            grown.begin(sprout)
            tried = results.get(sprout.id)
            if tried is None:
                self._say_created(sprout)
                continue
            self._use_seeds(sprout)
            self._say_restored(tried.node, tried.attempt)
            grown.take(tried)

    def _round(self, grown: _Grown, plan: StagePlan, stage: Stage) -> Stop | None:
        """Choose and run the nodes of one round; return the stage's end where there is nothing to choose."""
        limit = plan.policy.limit
        done = {each.node.id for each in grown.tried}
        with TaskGroup[Tried](self.pool) as tasks:
            for sprout in grown.begun:
                if sprout.id not in done:
                    tasks.start(sprout.id, self._execution(sprout))
            stop = self._fill(grown, plan, stage, lambda node: tasks.start(node.id, self._execution(node)))
            if not grown.begun:
                return stop
            self._show(stage, grown, limit)
            for _, tried in tasks.finished(lambda left: self._show(stage, grown, limit, left)):
                grown.take(tried)
                self._keep(grown, plan)
                self._say_completed(tried.node)
                self._show(stage, grown, limit)
        grown.close_round()
        best = grown.tree.best(with_root=plan.policy.keeps_root)
        if best is not None and best.metric is not None and plan.name != ABLATED:
            stage.metric(f"best_{best.arm}_{self.metric.name}", best.metric, len(grown.tree.nodes))
        return None

    def _fill(
        self, grown: _Grown, plan: StagePlan, stage: Stage, begin: Callable[[Node], None]
    ) -> Stop | None:
        """Choose nodes until the round is full, or until nothing more can be chosen before they are known."""
        while len(grown.begun) < WIDTH:
            self.check()
            number = len(grown.tree.nodes) + len(grown.tree.pending)
            chance = random.Random(seed_for(self.seed, plan.name, "policy", number)).random()  # noqa: S311 - a policy
            action = choose(grown.tree, plan.policy, grown.closed, chance)
            if isinstance(action, Wait | Stop):
                return action if isinstance(action, Stop) else None
            stage.progress(
                len(grown.tree.nodes) / plan.policy.limit,
                f"{self.researcher.name} thinks about node {number + 1} of at most {plan.policy.limit}",
            )
            try:
                proposal = self._proposal(plan, action, grown.tree)
            except NoProposal as silence:
                self.context.log(f"no proposal for {_aim(action)}: {silence}", "warning")
                if grown.begun:
                    return None
                grown.silences = (*grown.silences, silence)
                if len(grown.silences) >= SILENCES_MAX:
                    return Stop(f"the researcher gave no usable proposal {SILENCES_MAX} times in a row")
                continue
            grown.silences = ()
            if proposal is None:
                grown.closed |= {ROOT if isinstance(action, Draft) else action.node.id}
                continue
            sprout = _sprout(plan, action, grown.tree, proposal)
            grown.begin(sprout)
            self._say_created(sprout)
            if self.keeps_proposals:
                self._keep(grown, plan)
            begin(sprout)
        return None

    def _proposal(self, plan: StagePlan, action: Action, tree: Tree) -> Proposal | None:
        match action:
            case Draft():
                return plan.draft(tree)
            case Debug(node):
                return self.researcher.debug(node, tree)
            case Improve(node):
                return plan.improve(node, tree)
            case Wait() | Stop():
                raise AssertionError("a search at rest proposes nothing")

    def _keep(self, grown: _Grown, plan: StagePlan) -> None:
        state = SearchState(grown.tried, grown.begun, None, self.claim, _root(grown), self.judge)
        self.context.checkpoint(plan.name, state_of(state, is_complete=False))

    # --- execution --------------------------------------------------------------------------

    def _execution(self, sprout: Node) -> Callable[[int | None], Tried]:
        """Return the work of trying a node, for a slot of the pool."""

        def execute(gpu: int | None) -> Tried:
            self.context.emit(NodeExecuting(stage=sprout.stage, node=sprout.id))
            self._use_seeds(sprout)
            trials = self._run(sprout, [seed_for(self.seed, sprout.id, 0)], "tried", gpu)
            return self._judged(sprout, trials)

        return execute

    def _run(self, node: Node, seeds: Sequence[int], purpose: str, gpu: int | None) -> Trials:
        folder = place_beneath(self.folder, RunPath(f"{node.id}/{purpose}"))
        return self.bench.run(
            node.code, seeds=seeds, judges=self.judges, folder=folder, arm=node.arm, gpu=gpu
        )

    def _judged(self, sprout: Node, trials: Trials) -> Tried:
        """Return the node with what its program was worth."""
        attempt, (trial,) = self.context.attempt, trials.trials
        outcome = replace(sprout, seconds=round(trials.seconds, 3), log_tail=trials.log_tail[-LOG_CHARS:])
        if trial.scores is None:
            return Tried(replace(outcome, error=trial.error), None, attempt)
        node = replace(
            outcome,
            scores=dict(trial.scores),
            metric=trial.scores[self.metric.name],
            works=is_better(self.quality, trial.scores[self.quality.name], self.naive),
        )
        return Tried(node, Curve(node.id, trial.curve) if trial.curve else None, attempt)

    def _use_seeds(self, node: Node) -> None:
        self.used_seeds.add(seed_for(self.seed, node.id, 0))

    # --- the end of a stage -----------------------------------------------------------------

    def _evaluated_again(
        self, grown: _Grown, plan: StagePlan, stage: Stage, chosen: Chosen
    ) -> tuple[Finalist, ...]:
        """Run the best nodes again, each from several seeds of its own; one that fails now is left out.

        One with the intervention is run with its switch on and off, and its values are the means of both: what
        is handed on suits both arms alike.
        """
        candidates = grown.tree.finalists(FINALISTS, with_root=plan.policy.keeps_root)
        assert chosen.node in candidates or not candidates
        found: dict[str, Finalist] = {}
        with TaskGroup[Finalist | str](self.pool) as tasks:
            for node in candidates:
                tasks.start(node.id, self._evaluation(plan, node))
            say = f"evaluating {len(candidates)} candidates again from {self.repeats} seeds"
            stage.progress(1.0, say)
            for name, finalist in tasks.finished(lambda left: stage.progress(1.0, f"{say}; {left} left")):
                if isinstance(finalist, str):
                    self.context.log(f"{name} failed when it was evaluated again: {finalist}", "warning")
                else:
                    found[name] = finalist
        return tuple(found[node.id] for node in candidates if node.id in found)

    def _evaluation(self, plan: StagePlan, node: Node) -> Callable[[int | None], Finalist | str]:
        seeds = self._seeds_again(plan.name, node.id)

        def evaluate(gpu: int | None) -> Finalist | str:
            self.used_seeds.update(seeds)
            found: list[list[float]] = []
            for arm in ARMS[: 1 + ARMS.index(node.arm)]:
                trials = self._run(replace(node, arm=arm), seeds, f"again-{plan.name}-{arm}", gpu)
                if trials.error is not None:
                    return trials.error
                found.append([each.scores[self.metric.name] for each in trials.trials if each.scores])
            values = tuple(map(fmean, zip(*found, strict=True)))
            error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
            return Finalist(node.id, seeds, values, fmean(values), error)

        return evaluate

    def _record(
        self,
        grown: _Grown,
        plan: StagePlan,
        root: StageRecord | None,
        outcome: Chosen,
        finalists: tuple[Finalist, ...],
        ended: str,
    ) -> StageRecord:
        """Hand on a finalist by its fresh seeds; the single trial decides where there is none."""
        best, reason = outcome.node, outcome.reason
        if finalists:
            kept = root.best.id if root is not None and plan.policy.keeps_root else None
            first = handed_on(finalists, kept, higher_is_better=self.metric.higher_is_better)
            best = next(node for node in grown.tree.known if node.id == first.node)
            reason = (
                f"best mean validation metric over {_counted(len(first.seeds), 'seed')} among "
                f"{_counted(len(finalists), 'candidate')} ({_counted(len(grown.tree.nodes), 'node')} tried)"
            )
            if best == grown.tree.root:
                reason = (
                    f"the node handed over stays: over {_counted(len(first.seeds), 'seed')} no other of "
                    f"{_counted(len(finalists), 'candidate')} is better by more than {ERRORS:g} standard errors "
                    f"({_counted(len(grown.tree.nodes), 'node')} tried)"
                )
        curves = grown.curves()
        own = next((each for each in curves if each.node == best.id), None)
        curve = own or (root.curve if root is not None and root.best.id == best.id else Curve(best.id))
        return StageRecord(
            name=plan.name,
            limit=plan.policy.limit,
            nodes=grown.tree.nodes,
            best=best,
            reason=reason,
            ended=ended,
            curve=curve,
            curves=curves,
            finalists=finalists,
        )

    # --- what is said -----------------------------------------------------------------------

    def _show(self, stage: Stage, grown: _Grown, limit: int, left: int | None = None) -> None:
        """Report how far the stage is, and which nodes run now."""
        done = {each.node.id for each in grown.tried}
        running = [node for node in grown.begun if node.id not in done]
        finished = len(grown.tried)
        activity = f"{finished} of at most {limit} nodes finished"
        best = replace(grown.tree, nodes=tuple(each.node for each in grown.tried)).best()
        if best is not None:
            activity += (
                f"; {best_of(stage.name, best.arm)} is {best.id}, {self.metric.name} {best.metric:.4g}"
            )
        if running:
            names = ", ".join(node.id for node in running)
            activity += f"; runs {names}: {running[0].plan}"
        stage.progress(finished / limit, activity[:500])

    def _say_created(self, sprout: Node) -> None:
        self.forest.begin(sprout)
        self.context.emit(
            NodeCreated(
                stage=sprout.stage,
                node=sprout.id,
                plan=sprout.plan,
                parent=sprout.parent,
                params=dict(sprout.params),
                arm=sprout.arm,
            )
        )
        self.context.emit(NodeCodeGenerated(stage=sprout.stage, node=sprout.id, code=sprout.code))

    def _say_completed(self, node: Node) -> None:
        self.forest.add(node)
        self.context.emit(NodeCompleted(stage=node.stage, node=node.id, **self._outcome(node)))
        self._record_row(node_row(node, self.metric.name))

    def _say_restored(self, node: Node, attempt: int) -> None:
        self.forest.add(node)
        self.context.emit(
            NodeRestored(
                stage=node.stage,
                node=node.id,
                from_attempt=attempt,
                plan=node.plan,
                parent=node.parent,
                params=dict(node.params),
                code=node.code,
                arm=node.arm,
                **self._outcome(node),
            )
        )
        self._record_row(node_row(node, self.metric.name))

    def _record_row(self, row: Row) -> None:
        self.context.result(row.set, row.key, row.values, row.status)

    def _outcome(self, node: Node) -> dict[str, Any]:
        return {
            "buggy": node.buggy,
            "seconds": node.seconds,
            "metric": node.metric,
            "metric_name": self.metric.name,
            "scores": dict(node.scores),
            "error": node.error,
            "log_tail": node.log_tail or None,
        }

    def _announce(self, record: StageRecord, stage: Stage) -> None:
        """Report the node that a stage hands on, its re-evaluated values, and the best learning curve."""
        self.forest.choose(record)
        for finalist in record.finalists:
            for seed, value in zip(finalist.seeds, finalist.values, strict=True):
                stage.metric(f"again_{self.metric.name}_{finalist.node}", value, seed)
            stage.metric(f"again_mean_{finalist.node}", finalist.mean)
            if finalist.standard_error is not None:
                stage.metric(f"again_standard_error_{finalist.node}", finalist.standard_error)
            is_best = finalist.node == record.best.id
            self._record_row(finalist_row(record.name, finalist, is_best=is_best))
        first = next((each for each in record.finalists if each.node == record.best.id), None)
        self.context.emit(
            NodeSelectedBest(
                stage=record.name,
                node=record.best.id,
                metric=record.best.metric,
                reason=record.reason,
                mean=first.mean if first else None,
                standard_error=first.standard_error if first else None,
                seeds=list(first.seeds) if first else [],
                arm=record.best.arm,
            )
        )
        for point in record.curve.points:
            stage.metric("best_train_loss", point.train_loss, point.epoch)
            stage.metric("best_validation_loss", point.watch_loss, point.epoch)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _root(grown: _Grown) -> str | None:
    """Return the program from which a stage starts."""
    return grown.tree.root.code if grown.tree.root else None


def naive_of(quality: Metric, known: Any, judges: Judges) -> float:
    """Return what the best constant answer reaches: a node that is not better does not work."""
    return naive_quality(quality, known, judges.targets)


def _aim(action: Action) -> str:
    match action:
        case Draft():
            return "a new start"
        case Debug(node):
            return f"a repair of {node.id}"
        case Improve(node):
            return f"an improvement of {node.id}"
        case Wait() | Stop():
            return "nothing"


def _sprout(plan: StagePlan, action: Action, tree: Tree, proposal: Proposal) -> Node:
    """Return the node that `proposal` will become, not tried yet."""
    parent = action.node if isinstance(action, Debug | Improve) else tree.root
    return Node(
        id=f"{plan.name}/{len(tree.nodes) + len(tree.pending) + 1}",
        stage=plan.name,
        plan=proposal.plan,
        code=proposal.code,
        arm=proposal.arm,
        params=dict(proposal.params),
        parent=parent.id if parent else None,
        debugs=action.node.debugs + 1 if isinstance(action, Debug) else 0,
        condition=proposal.condition,
    )
