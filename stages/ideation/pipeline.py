"""Answers ideation requests: with the pod's language model where it has one, else from the declared space.

Law: every idea that was begun is in the one event of the request or in its failure; none vanishes.
"""

from __future__ import annotations

from typing import Final, NoReturn

from events.kinds.ideation import IdeationFailed, IdeationSpec, IdeationStarted
from events.runtime.errors import Canceled, PipelineError
from stages.context import Context, Stage
from stages.ideation.built_in import BuiltIn
from stages.ideation.harvest import Harvest
from stages.ideation.with_model import WithModel
from stages.models.budget import CODE as BUDGET_EXCEEDED

STAGE: Final = "ideation"
NO_IDEA: Final = "NO_IDEA"


def run(context: Context) -> str:
    """Find ideas for a request; return one line that sums them up."""
    spec = context.spec
    if not isinstance(spec, IdeationSpec):
        raise PipelineError("CONFIG", f"ideation needs a request for ideas, not {type(spec).__name__}")
    context.emit(IdeationStarted())
    with context.stage(STAGE, index=1, total=1) as stage:
        harvest = Harvest.of(context, spec.max_num_generations)
        try:
            _find(spec, harvest, stage)
        except Canceled:
            harvest.say()
            raise
        except PipelineError as error:
            _give_up(harvest, error)
        if not harvest.ideas:
            _fail(harvest, PipelineError(NO_IDEA, _why_none(harvest)))
        harvest.deliver()
        stage.progress(1.0, "every idea is written")
    return _summary(harvest)


def _find(spec: IdeationSpec, harvest: Harvest, stage: Stage) -> None:
    model = harvest.context.tools.model
    if model is None:
        BuiltIn(spec, harvest, stage).run()
    else:
        WithModel.of(model, spec, harvest, stage).run()


def _give_up(harvest: Harvest, error: PipelineError) -> None:
    """Keep what there is; a request that has ideas ends with them unless its budget is spent."""
    if not harvest.ideas:
        _fail(harvest, error)
    if error.code == BUDGET_EXCEEDED:
        harvest.deliver()
        raise error
    there = f"{len(harvest.ideas)} of {harvest.wanted} ideas are final, no more are begun"
    harvest.context.log(f"{there}: {error.message}", "warning")


def _fail(harvest: Harvest, error: PipelineError) -> NoReturn:
    unfinished = harvest.keep_unfinished()
    harvest.context.emit(IdeationFailed(code=error.code, message=error.message, unfinished=unfinished))
    raise error


def _why_none(harvest: Harvest) -> str:
    reasons = "; ".join(f"idea {each.number}: {each.why}" for each in harvest.unfinished)
    rest = "everything near to the request is known already: the request names it, or the fleet has it"
    return f"no idea was finalised. {reasons or rest}"


def _summary(harvest: Harvest) -> str:
    ideas, unfinished = len(harvest.ideas), len(harvest.unfinished)
    rest = f", {unfinished} unfinished" if unfinished else ""
    plural = "idea" if ideas == 1 else "ideas"
    return f"{ideas} {plural}{rest}; the first: {harvest.ideas[0].title}"
