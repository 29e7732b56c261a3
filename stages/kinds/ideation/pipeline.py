"""Answers ideation requests: with the pod's language model where it has one, else from the declared space.

Law: every idea that was begun is in the one event of the request or in its failure; none vanishes.
"""

from __future__ import annotations

from typing import Final, NoReturn

from events.kinds.ideation import IdeationFailed, IdeationSpec, IdeationStarted
from events.runtime.errors import Canceled, PipelineError
from stages.context import Context, Stage
from stages.kinds.ideation.built_in import BuiltIn
from stages.kinds.ideation.found_ideas import FoundIdeas
from stages.kinds.ideation.with_model import WithModel
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
        found_ideas = FoundIdeas.of(context, spec.max_num_generations)
        try:
            _find(spec, found_ideas, stage)
        except Canceled:
            found_ideas.say()
            raise
        except PipelineError as error:
            _give_up(found_ideas, error)
        if not found_ideas.ideas:
            _fail(found_ideas, PipelineError(NO_IDEA, _why_none(found_ideas)))
        found_ideas.deliver()
        stage.progress(1.0, "every idea is written")
    return _summary(found_ideas)


def _find(spec: IdeationSpec, found_ideas: FoundIdeas, stage: Stage) -> None:
    model = found_ideas.context.tools.model
    if model is None:
        BuiltIn(spec, found_ideas, stage).run()
    else:
        WithModel.of(model, spec, found_ideas, stage).run()


def _give_up(found_ideas: FoundIdeas, error: PipelineError) -> None:
    """Keep what there is; a request that has ideas ends with them unless its budget is spent."""
    if not found_ideas.ideas:
        _fail(found_ideas, error)
    if error.code == BUDGET_EXCEEDED:
        found_ideas.deliver()
        raise error
    there = f"{len(found_ideas.ideas)} of {found_ideas.wanted} ideas are final, no more are begun"
    found_ideas.context.log(f"{there}: {error.message}", "warning")


def _fail(found_ideas: FoundIdeas, error: PipelineError) -> NoReturn:
    unfinished = found_ideas.keep_unfinished()
    found_ideas.context.emit(IdeationFailed(code=error.code, message=error.message, unfinished=unfinished))
    raise error


def _why_none(found_ideas: FoundIdeas) -> str:
    reasons = "; ".join(f"idea {each.number}: {each.why}" for each in found_ideas.unfinished)
    rest = "everything near to the request is known already: the request names it, or the fleet has it"
    return f"no idea was finalised. {reasons or rest}"


def _summary(found_ideas: FoundIdeas) -> str:
    ideas, unfinished = len(found_ideas.ideas), len(found_ideas.unfinished)
    rest = f", {unfinished} unfinished" if unfinished else ""
    plural = "idea" if ideas == 1 else "ideas"
    return f"{ideas} {plural}{rest}; the first: {found_ideas.ideas[0].title}"
