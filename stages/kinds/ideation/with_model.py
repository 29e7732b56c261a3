"""The ideator with a language model: a draft, then rounds in which it judges its own idea.

Law: a failed call costs one idea. The model's statement that an idea is final counts only for an idea that
is whole and new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from events.kinds.idea import Idea
from events.kinds.ideation import IdeationSpec
from events.runtime.errors import Canceled, PipelineError
from stages.context import Stage
from stages.kinds.ideation.earlier_ideas import earlier_ideas
from stages.kinds.ideation.found_ideas import FoundIdeas
from stages.kinds.ideation.idea_fields import bounded, missing
from stages.kinds.ideation.literature_lookup import LookUps, without_references
from stages.kinds.ideation.model_prompts import (
    EARLIER_MAX,
    Drafted,
    Prompts,
    Reflected,
    Scene,
    near_duplicate,
)
from stages.kinds.ideation.novelty import same_as, similarity
from stages.kinds.ideation.progress import Place
from stages.models.budget import Budget
from stages.models.metered import Metered
from stages.models.model import Model, ModelError, Trouble
from stages.models.prices import Prices
from stages.models.structured import ask_for

FAILURES_MAX: Final = 3  # ideas in a row that a failed call may cost
BROKEN_OFF: Final = "ideation was broken off while this idea was worked on"
HOPELESS: Final[frozenset[Trouble]] = frozenset({"unauthorised", "quota"})  # the next call fails alike
PASSING: Final[frozenset[Trouble]] = frozenset({"unreachable", "timed_out", "rate_limited"})


@dataclass(frozen=True, slots=True)
class Version:
    """An idea as it stands after a question, with its problems and remarks.

    `problems` keep it from being final; `remarks` do not.
    """

    idea: Idea
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class WithModel:
    """Asks one model for the ideas of one request; `current` is the idea that is being worked on."""

    model: Metered
    spec: IdeationSpec
    found_ideas: FoundIdeas
    stage: Stage
    prompts: Prompts = field(default_factory=Prompts)
    current: Idea | None = None
    works: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model, spec: IdeationSpec, found_ideas: FoundIdeas, stage: Stage) -> WithModel:
        """Return an ideator whose every question is paid from the request's budget."""
        context = found_ideas.context
        budget = Budget(
            clock=context.clock,
            max_cost_usd=spec.max_cost_usd,
            max_tokens=spec.max_tokens,
            pod_usd_per_hour=context.tools.pod_usd_per_hour,
            spent=found_ideas.spent,
        )
        prices = Prices.load(context.tools.prices)
        return cls(Metered(model, budget, prices, context.emit), spec, found_ideas, stage)

    def run(self) -> None:
        """Begin every idea that is wanted and not there.

        Raises `PipelineError`: BUDGET_EXCEEDED, or MODEL_... where asking on is of no use.
        """
        failures = 0
        while self.found_ideas.begun < self.found_ideas.wanted:
            self.current = None
            try:
                self._find_one()
            except ModelError as error:
                failures += 1
                self._drop(f"the model gave no answer ({error.trouble}): {error.message}")
                if error.trouble in HOPELESS or failures == FAILURES_MAX:
                    raise _end_of(error) from error
            except PipelineError as error:
                self._drop(error.message)
                raise
            except Canceled:
                self._set_down()
                raise
            else:
                failures = 0

    def _find_one(self) -> None:
        """Draft an idea and reflect on it, until it is final or its rounds are over."""
        self.works = list(self.found_ideas.look_ups.search(self.spec.title))
        scene = self._scene(0)
        drafted = ask_for(self.model, self.prompts.ask_for_draft(scene), Drafted)
        version = self._taken(drafted)
        self._look_up(drafted.look_up or version.idea.title)
        for turn in range(1, self.spec.reflections + 1):
            scene = self._scene(turn)
            findings = (*version.problems, *version.remarks)
            reflected = ask_for(
                self.model, self.prompts.ask_to_reflect(scene, version.idea, findings), Reflected
            )
            version = self._taken(reflected)
            if reflected.is_final and not version.problems:
                self._finalise(version.idea)
                return
            self._look_up(reflected.look_up)
        if version.problems:
            self._drop(f"not final after {self.spec.reflections} rounds: {'; '.join(version.problems)}")
        else:
            self._finalise(version.idea)

    def _scene(self, turn: int) -> Scene:
        """Report where the work is, and return the context of the next question."""
        place = Place(self.found_ideas.begun + 1, self.found_ideas.wanted, turn, self.spec.reflections)
        self.stage.progress(place.fraction, place.activity)
        notes = [f"{note.by}: {note.text}" for note in self.found_ideas.context.notes.all()]
        return Scene(self.spec, place, self.found_ideas.look_ups, notes, self._shown_as_earlier(), self.works)

    def _earlier(self) -> list[Idea]:
        """Return every idea that is no longer new: named by the request, or finalised."""
        texts = (self.spec.additional_context, *(note.text for note in self.found_ideas.context.notes.all()))
        return [*(idea for text in texts for idea in earlier_ideas(text)), *self.found_ideas.ideas]

    def _shown_as_earlier(self) -> list[Idea]:
        """Return the earlier ideas for a question, of the fleet's those that are nearest to the request."""
        request = Idea(short_hypothesis=self.spec.idea, title=self.spec.title)
        fleet = sorted(self.spec.earlier, key=lambda each: similarity(request, each))
        own = self._earlier()
        return [*fleet[-max(0, EARLIER_MAX - len(own)) :], *own]

    def _taken(self, answer: Drafted) -> Version:
        """Return an answer as an idea, checked."""
        look_ups = self.found_ideas.look_ups
        idea, remarks = idea_of(answer, look_ups)
        self.current = idea
        problems = [f"{name} is empty" for name in missing(idea)]
        if (found := same_as(idea, self._earlier())) is not None:
            problems.append(near_duplicate(found))
        elif (found := same_as(idea, self.spec.earlier)) is not None:
            # what the request itself asks is worth an answer of its own, whoever has asked it before
            (remarks if self.found_ideas.begun == 0 else problems).append(near_duplicate(found))
        return Version(idea, tuple(problems), tuple(remarks))

    def _look_up(self, query: str) -> None:
        found = self.found_ideas.look_ups.search(query)
        self.works.extend(number for number in found if number not in self.works)

    def _finalise(self, idea: Idea) -> None:
        self.found_ideas.finalise(idea, self.model.budget.spent())

    def _set_down(self) -> None:
        if self.current is not None:
            self.found_ideas.set_down(self.current, BROKEN_OFF)

    def _drop(self, why: str) -> None:
        self.found_ideas.give_up(self.current, why, self.model.budget.spent())


def idea_of(answer: Drafted, look_ups: LookUps) -> tuple[Idea, list[str]]:
    """Return an answer as an idea, and what was taken out of it."""
    taken_out: list[str] = []

    def sourced(name: str, text: str) -> str:
        kept = without_references(text)
        if len(kept) < len(text.strip()) and kept != text.strip():
            taken_out.append(f"{name} named works in its own words: those sentences were taken out")
        return kept

    unknown = sorted({each.work for each in answer.cited if not look_ups.knows(each.work)})
    if unknown:
        taken_out.append(f"no work has the number {', '.join(map(str, unknown))}: it is not cited")
    cited = [(each.work, each.relation) for each in answer.cited]
    sourced("related_work", answer.related_work)
    idea = Idea(
        name=answer.name,
        title=sourced("title", answer.title),
        short_hypothesis=sourced("short_hypothesis", answer.short_hypothesis),
        related_work=look_ups.related_work(cited, answer.related_work),
        abstract=sourced("abstract", answer.abstract),
        experiments=[sourced("experiments", each) for each in answer.experiments],
        risks=[sourced("risks", each) for each in answer.risks],
    )
    return bounded(idea), list(dict.fromkeys(taken_out))


def _end_of(error: ModelError) -> PipelineError:
    """Return why asking on is of no use."""
    help_: dict[Trouble, str] = {
        "unauthorised": "without a key and an address the pod's built-in researcher finds ideas",
        "quota": "the account of the pod's key has nothing left",
    }
    message = f"the model cannot be asked ({error.trouble}): {error.message}"
    if hint := help_.get(error.trouble):
        message = f"{message}; {hint}"
    code = f"MODEL_{error.trouble.upper()}"
    return PipelineError(code, message, retryable=error.trouble in PASSING)
