"""Makes the researcher of a run, with its budget.

Law: the claim is chosen once. A later attempt measures the claim of the earlier one, and counts what that
one spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from events.kinds.experiment import ExperimentSpec
from events.kinds.idea import idea_of
from stages.bounds import Unreadable
from stages.context import Context
from stages.experiment.record.ledger import ClaimState, Past, SearchState
from stages.experiment.research.built_in import BuiltIn
from stages.experiment.research.modelled import ModelResearcher, choose
from stages.experiment.research.proposal import Researcher
from stages.models.budget import NOTHING, Budget, Spent
from stages.models.metered import Metered
from stages.models.model import Model
from stages.models.prices import Prices
from stages.space.claim import Claim
from stages.space.data_sets import SHIPPED, DataSet
from stages.space.metrics import METRICS
from stages.space.understanding import understand

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

    def keep(self) -> None:
        """Keep what is spent by now, where there is a limit to hold it against."""
        spent = self.budget.spent()
        if self.budget.is_limited and spent != self._kept:
            self._kept = spent
            self.context.checkpoint(SPENDING, spent.state())


@dataclass(frozen=True, slots=True)
class ChosenResearcher:
    """The researcher, within the run's budget; `check` is called before each step."""

    researcher: Researcher
    check: Callable[[], None]
    is_costly: bool


def choose_researcher(
    context: Context, spec: ExperimentSpec, data_set: DataSet | None, epochs: int, past: Past
) -> ChosenResearcher:
    """Return the researcher for a run: a language model where the pod has one, else the built-in one.

    Raises `PipelineError` with the code CONFIG for an idea that cannot be measured.
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
    begun = past.peek("Stage_1", SearchState)
    chosen = begun.claim if begun is not None else None
    claim = claim_of(chosen, data_set) if chosen is not None else None
    if chosen is not None and claim is None:
        context.log("the claim of an earlier attempt is not used: this run cannot have it", "warning")
    if tools.model is None:
        understood = understand(idea, data_set)
        built_in = BuiltIn(understood, spec.seed, epochs, context.notes, context.log)
        return ChosenResearcher(built_in, spending.check, is_costly=False)
    model: Model = Metered(tools.model, budget, Prices.load(tools.prices), context.emit, spending.keep)
    if claim is not None and claim.metric.is_told:
        measure = (
            f"the {claim.metric.title}, which only the programs of {model.name} tell, and nobody can count"
        )
        context.log(f"the claim of an earlier attempt is not used: it is about {measure}", "warning")
        claim = None  # whoever left it may have lied: it ends no run
    if claim is None:
        claim = choose(model, idea, data_set, context.notes, context.log)
    researcher = ModelResearcher(model, claim, idea, spec.seed, context.notes, context.log)
    return ChosenResearcher(researcher, spending.check, is_costly=True)


def state_of_claim(claim: Claim) -> ClaimState:
    """Return a claim as a checkpoint keeps it."""
    return ClaimState(
        claim.subject, claim.metric.name, claim.direction, claim.data, claim.train_examples, claim.notes
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
    metric = METRICS.get(state.metric)
    if data is None or replace(data, location="") != replace(state.data, location=""):
        return None
    if (
        metric is None
        or data.task not in metric.tasks
        or state.train_examples not in (None, *range(1, data.rows))
    ):
        return None
    return Claim(
        subject=state.subject,
        metric=metric,
        direction=state.direction,
        data=data,
        train_examples=state.train_examples,
        notes=state.notes,
    )
