"""Makes the researcher of a run, with its budget.

Law: the claim is chosen once. A later attempt measures the claim of the earlier one, and counts what that
one spent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from events.kinds.experiment import ExperimentSpec
from events.kinds.idea import Idea, idea_of
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.effect import Effect
from events.kinds.space.metrics import METRICS, metric_named
from events.kinds.space.understanding import Understood, understand
from events.runtime.errors import NotMeasurable, PipelineError
from stages.bounds import Unreadable
from stages.context import Context
from stages.kinds.experiment.record.ledger import ClaimState, EffectState, Past, SearchState
from stages.kinds.experiment.research.built_in import BY_SPACE, BuiltIn
from stages.kinds.experiment.research.modelled import ModelResearcher, choose
from stages.kinds.experiment.research.modelled.choosing import NOT_MEASURABLE
from stages.kinds.experiment.research.openness import Scope
from stages.kinds.experiment.research.proposal import Researcher
from stages.kinds.experiment.research.steering import Steering
from stages.models.budget import NOTHING, Budget, Spent
from stages.models.metered import Metered
from stages.models.model import Model
from stages.models.prices import Prices

NO_MODEL: Final = "NO_MODEL"
SPENDING: Final = "spending"  # the checkpoint in which the next attempt finds what was spent


@dataclass(slots=True)
class SpendingTracker:
    """The run's budget, and what is spent of it where the next attempt finds it."""

    context: Context
    budget: Budget
    _kept: Spent = NOTHING

    def check(self) -> None:
        """Let the next step begin. Raises `PipelineError` BUDGET_EXCEEDED."""
        self.keep()  # the pod's time passes between two bills as well
        self.budget.check()

    def time_left_s(self) -> float:
        """Return for how many seconds the pod's time may go on."""
        return self.budget.time_left_s()

    def keep(self) -> None:
        """Keep what is spent by now, where there is a limit to hold it against."""
        spent = self.budget.spent()
        if self.budget.is_limited and spent != self._kept:
            self._kept = spent
            self.context.checkpoint(SPENDING, spent.state())


@dataclass(frozen=True, slots=True)
class ChosenResearcher:
    """The researcher, within the run's budget; `spending` is checked before each step, `steering` answers notes."""

    researcher: Researcher
    spending: SpendingTracker
    steering: Steering
    is_costly: bool


def choose_researcher(
    context: Context, spec: ExperimentSpec, data_set: DataSet | None, epochs: int, past: Past
) -> ChosenResearcher:
    """Return the researcher for a run: a language model where the pod has one and the run allows it.

    Raises `PipelineError` NOT_MEASURABLE for an idea that cannot be measured.
    """
    tools, idea = context.tools, idea_of(spec.idea)
    budget = Budget(
        clock=context.clock,
        max_cost_usd=spec.max_cost_usd,
        max_tokens=spec.max_tokens,
        pod_usd_per_hour=tools.pod_usd_per_hour,
        spent=_spent(context),
    )
    spending = SpendingTracker(context, budget)
    if tools.model is None or spec.researcher == "built_in":
        understood = _understood(idea, data_set, wants_model=spec.researcher == "model")
        scope = Scope.of(understood.intervention)
        steering = Steering(scope, context.notes, context.emit, BY_SPACE)
        built_in = BuiltIn(understood, spec.seed, epochs, steering)
        return ChosenResearcher(built_in, spending, steering, is_costly=False)
    model: Model = Metered(tools.model, budget, Prices.load(tools.prices), context.emit, spending.keep)
    claim = _claim_for(model, context, spec, data_set, past)
    researcher = ModelResearcher(model, claim, idea, spec.seed, context.notes, context.log)
    scope = Scope.of_subject(claim.subject)
    steering = Steering(scope, context.notes, context.emit, model.name, reads_words=True)
    return ChosenResearcher(researcher, spending, steering, is_costly=True)


def _claim_for(
    model: Model, context: Context, spec: ExperimentSpec, data_set: DataSet | None, past: Past
) -> Claim:
    """Return the claim that a model works on: as the idea's words say, else as an earlier attempt or it read them.

    Raises `PipelineError`.
    """
    idea = idea_of(spec.idea)
    try:
        claim = understand(idea, data_set).claim
    except NotMeasurable as error:
        if spec.researcher != "model":
            raise _not_measurable(error) from error
        return _chosen_before(model, context, data_set, past) or choose(model, idea, data_set, context.notes)
    told = next((each.metric for each in claim.effects if each.metric.is_told), None)
    if told is not None:
        why = f"The {told.title} would be told by the programs of {model.name} alone: use `researcher: built_in`."
        raise PipelineError(NOT_MEASURABLE, why)
    return claim


def _chosen_before(model: Model, context: Context, data_set: DataSet | None, past: Past) -> Claim | None:
    """Return the claim that an earlier attempt chose, if this run may have it."""
    begun = past.peek("Stage_1", SearchState)
    if begun is None or begun.claim is None:
        return None
    claim = claim_of(begun.claim, data_set)
    if claim is None:
        context.log("the claim of an earlier attempt is not used: this run cannot have it", "warning")
    elif any(each.metric.is_told for each in claim.effects):
        told = f"the {METRICS['parameters'].title}, which only the programs of {model.name} tell, and nobody can count"
        context.log(f"the claim of an earlier attempt is not used: it is about {told}", "warning")
        return None  # whoever left it may have lied: it ends no run
    return claim


def _understood(idea: Idea, data_set: DataSet | None, *, wants_model: bool) -> Understood:
    """Return an idea as its words say. Raises `PipelineError`: what only a model may read is for another pod."""
    try:
        return understand(idea, data_set)
    except NotMeasurable as error:
        if wants_model:
            why = f"This pod has no language model, which the idea needs to be read. {error.message}"
            raise PipelineError(NO_MODEL, why, retryable=True) from error
        raise _not_measurable(error) from error


def _not_measurable(error: NotMeasurable) -> PipelineError:
    return PipelineError(NOT_MEASURABLE, error.message)


def state_of_claim(claim: Claim) -> ClaimState:
    """Return a claim as a checkpoint keeps it."""
    return ClaimState(
        claim.subject,
        tuple(
            EffectState(each.metric.name, each.direction, each.kind, each.margin, each.is_default)
            for each in claim.effects
        ),
        claim.data,
        claim.train_examples,
        claim.notes,
    )


def _spent(context: Context) -> Spent:
    """Return what earlier attempts have spent, as far as it can be read."""
    earlier = context.restored(SPENDING)
    if earlier is None:
        return NOTHING
    try:
        return Spent.of(earlier.state)
    except Unreadable as error:
        context.log(
            f"what attempt {earlier.attempt} spent cannot be read, and counts as nothing: {error}", "warning"
        )
        return NOTHING


def claim_of(state: ClaimState, data_set: DataSet | None) -> Claim | None:
    """Return the claim that an earlier attempt chose; None where it is none that this run may have.

    The data are this pod's own: those that the run names, else some that ship.
    """
    data = data_set or SHIPPED.get(state.data.name)
    known = [metric_named(each.metric) for each in state.effects]
    metrics = [each for each in known if each is not None]
    if data is None or replace(data, location="") != replace(state.data, location=""):
        return None
    if (
        len({each.name for each in metrics}) < len(known)
        or any(data.task not in each.tasks for each in metrics)
        or any(each.kind != "superior" and not each.margin for each in state.effects)
        or state.train_examples not in (None, *range(1, data.rows))
    ):
        return None
    return Claim(
        subject=state.subject,
        effects=tuple(
            Effect(metric, each.direction, each.kind, each.margin, each.is_default)
            for metric, each in zip(metrics, state.effects, strict=True)
        ),
        data=data,
        train_examples=state.train_examples,
        notes=state.notes,
    )
