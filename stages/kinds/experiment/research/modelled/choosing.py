"""Lets a model define the measurement of an idea that is not read by its words.

Law: the model is asked once, and is held to the reader's own rule: every word of the sentence is bound, or nothing
is measured. A model that is unreachable for now is no reason for that.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from events.kinds.idea import Idea
from events.kinds.space.binding import Field, binding_problems
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.effect import Direction, Effect
from events.kinds.space.metrics import METRICS, OF_CLASS, Metric, metric_of_class
from events.kinds.space.sentences.words import plain
from events.kinds.space.understanding import class_words
from events.runtime.errors import PipelineError
from stages.kinds.experiment.research.modelled import prompt
from stages.kinds.experiment.research.modelled.answer import one_line
from stages.kinds.experiment.research.modelled.failure_policy import LASTING, code_of, given_up
from stages.models.model import Model, ModelError, Question
from stages.models.structured import ask_for
from stages.ports import Notes

NOT_MEASURABLE: Final = "NOT_MEASURABLE"
SUBJECT_MAX: Final = 120
READING_MAX: Final = 600
PROBLEMS_MAX: Final = 6
ROWS_MIN: Final = 10  # the fewest training rows that a claim may ask for
ROWS_SHARE: Final = 0.5  # of all rows: the rest is for watching and for the test
TEMPERATURE: Final = 0.2


class Quoted(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the sentence, as they stand there, and the field that they are bound to."""

    field: Field
    words: str


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers."""

    is_testable: bool
    reading: Annotated[str, msgspec.Meta(min_length=1)]
    subject: str = ""
    metric: str = ""
    of_class: str = ""
    direction: Direction | None = None
    data_set: str = ""
    train_examples: int | None = None
    bound: list[Quoted] = []
    left_out: list[str] = []


def choose(model: Model, idea: Idea, data: DataSet | None, notes: Notes) -> Claim:
    """Return what shall be measured for `idea`; `data` overrules the model's choice of data.

    Raises `PipelineError`: NOT_MEASURABLE where the model does not bind every word, MODEL_... where it could not be
    asked, or its answer was no good.
    """
    notes_text = prompt.notes_text(notes.all())
    question = Question(
        purpose="choose",
        system=prompt.system("choose", metrics=_metrics()),
        text="\n\n".join(each for each in (_data_sets(data), prompt.idea_text(idea), notes_text) if each),
        temperature=TEMPERATURE,
    )
    try:
        choice = ask_for(model, question, Choice)
    except ModelError as error:
        if error.trouble in LASTING:
            raise given_up(error) from error
        raise PipelineError(code_of(error.trouble), error.message, retryable=True) from error
    if not choice.is_testable:
        reading = one_line(choice.reading, READING_MAX)
        raise _refused(model, f"finds that it cannot be tested here: {reading}")
    return _claim(model, choice, idea, data)


def _claim(model: Model, choice: Choice, idea: Idea, data: DataSet | None) -> Claim:
    """Return the claim that `choice` stands for. Raises `PipelineError`."""
    subject = one_line(choice.subject, SUBJECT_MAX).rstrip(".")
    if not subject:
        raise _refused(model, "names no intervention")
    chosen = data or SHIPPED.get(choice.data_set)
    if chosen is None:
        raise _refused(model, f"names a data set that is none of {', '.join(SHIPPED)}")
    metric = _metric(model, choice, chosen)
    if choice.direction is None:
        raise _refused(model, "names no direction")
    most = int(chosen.rows * ROWS_SHARE)
    rows = choice.train_examples
    if rows is not None and not ROWS_MIN <= rows <= most:
        raise _refused(model, f"wants {rows} rows to train on, and {ROWS_MIN} to {most} can be")
    claim = Claim(
        subject=subject,
        effects=(Effect(metric, choice.direction),),
        data=chosen,
        train_examples=rows,
        notes=(f"{model.name} read the idea so: {one_line(choice.reading, READING_MAX)}",),
    )
    quotes: dict[Field, list[str]] = {}
    for each in choice.bound:
        quotes.setdefault(each.field, []).append(each.words)
    problems = [f"leaves out: {one_line(each, READING_MAX)}" for each in choice.left_out if each.strip()]
    problems += binding_problems(idea.short_hypothesis, quotes, claim)
    if problems:
        raise _refused(model, one_line("; ".join(problems[:PROBLEMS_MAX]), READING_MAX))
    return claim


def _metric(model: Model, choice: Choice, data: DataSet) -> Metric:
    """Return the measure that `choice` names for these data. Raises `PipelineError`."""
    fitting = [
        each.name
        for each in (*METRICS.values(), *OF_CLASS.values())
        if data.task in each.tasks and not each.is_told
    ]
    if choice.metric not in fitting:
        raise _refused(model, f"names a metric for {data.name} that is none of {', '.join(fitting)}")
    if choice.metric in METRICS:
        return METRICS[choice.metric]
    words, known = plain(choice.of_class).removeprefix("class "), class_words(data.classes)
    if known.count(words) != 1:
        raise _refused(model, f"names no one class of {data.name} for its {choice.metric}")
    return metric_of_class(choice.metric, words)


def _refused(model: Model, why: str) -> PipelineError:
    return PipelineError(NOT_MEASURABLE, f"The idea is not bound to a claim; the model {model.name}: {why}.")


def _metrics() -> str:
    lines = [
        f"- {each.name}: {each.title}, for {' and '.join(sorted(each.tasks))}; "
        f"{'higher' if each.higher_is_better else 'lower'} is better"
        for each in (*METRICS.values(), *OF_CLASS.values())
        if not each.is_told  # by programs that the model itself writes
    ]
    return "\n".join(lines)


def _data_sets(data: DataSet | None) -> str:
    if data is not None:
        return f"The data set is given: {prompt.facts_of(data)}."
    lines = [f"- {each.name}: {prompt.facts_of(each)}" for each in SHIPPED.values()]
    return "\n".join(["The data sets at hand; no other can be fetched:", *lines])
