"""Lets a model define the measurement: one intervention, one measure, one direction, one data set.

Law: what the model decided by itself is in the claim's notes. If the model cannot read an idea, the idea is
parsed by its words, or refused with both reasons. A model that is unreachable for now is no reason for
that: the measurement is chosen once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

import msgspec

from events.kinds.idea import Idea
from events.runtime.errors import PipelineError
from stages.experiment.research.modelled import prompt
from stages.experiment.research.modelled.answer import one_line
from stages.experiment.research.modelled.failure_policy import LASTING, PASSING, code_of, given_up
from stages.models.model import Model, ModelError, Question, Trouble
from stages.models.structured import ask_for
from stages.ports import Notes, Say
from stages.space.claim import Claim, Direction
from stages.space.data_sets import SHIPPED, DataSet
from stages.space.metrics import METRICS
from stages.space.understanding import understand

ROUNDS_MAX: Final = 3  # questions until a choice fits together
SUBJECT_MAX: Final = 120
READING_MAX: Final = 600
LEFT_OUT_MAX: Final = 6
ROWS_MIN: Final = 10  # the fewest training rows that a claim may ask for
ROWS_SHARE: Final = 0.5  # of all rows: the rest is for watching and for the test
TEMPERATURE: Final = 0.2


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answers."""

    is_testable: bool
    reading: Annotated[str, msgspec.Meta(min_length=1)]
    subject: str = ""
    metric: str = ""
    direction: Direction | None = None
    data_set: str = ""
    train_examples: int | None = None
    left_out: list[str] = []


def choose(model: Model, idea: Idea, data: DataSet | None, notes: Notes, say: Say) -> Claim:
    """Return what shall be measured for `idea`; `data` overrules the model's choice of data.

    `say` logs where the model could not define it and the idea's words were parsed instead.

    Raises `PipelineError`: CONFIG where neither the model nor the idea's words define it, MODEL_... where
    the model could not be asked, or its answers were no good.
    """
    notes_text = prompt.notes_text(notes.all())
    question = Question(
        purpose="choose",
        system=prompt.system("choose", metrics=_metrics()),
        text="\n\n".join(each for each in (_data_sets(data), prompt.idea_text(idea), notes_text) if each),
        temperature=TEMPERATURE,
    )
    trouble: Trouble | None = None
    try:
        settled = _settled(model, question, data)
    except ModelError as error:
        if error.trouble in LASTING:
            raise given_up(error) from error
        if error.trouble in PASSING:
            raise PipelineError(code_of(error.trouble), error.message, retryable=True) from error
        trouble = error.trouble
        settled = f"the model {model.name} gave no usable answer ({trouble})"
    if isinstance(settled, Claim):
        return settled
    say(f"the idea is read by its words: {settled}")
    try:
        claim = understand(idea, data).claim
    except PipelineError as error:
        message = f"{settled}; and by its words: {error.message}"
        if trouble is None:
            raise PipelineError(error.code, message) from error
        raise PipelineError(code_of(trouble), message, retryable=True) from error
    return replace(claim, notes=(f"The idea was read by its words: {settled}.", *claim.notes))


def _settled(model: Model, question: Question, data: DataSet | None) -> Claim | str:
    """Return the claim, or why the model could not define it. Raises `ModelError`."""
    prompt, problems = question, ""
    for _ in range(ROUNDS_MAX):
        choice = ask_for(model, prompt, Choice)
        if not choice.is_testable:
            return f"the model {model.name} finds that it cannot be tested here: {one_line(choice.reading, READING_MAX)}"
        claim = _claim(model, choice, data)
        if isinstance(claim, Claim):
            return claim
        problems = claim
        prompt = replace(
            question, text=f"{question.text}\n\nYour last answer does not fit: {problems} Answer anew."
        )
    return f"the model {model.name} gave no choice that fits: {problems}"


def _claim(model: Model, choice: Choice, data: DataSet | None) -> Claim | str:
    """Return the claim that `choice` stands for, or what is wrong with it."""
    subject = one_line(choice.subject, SUBJECT_MAX).rstrip(".")
    if not subject:
        return "`subject` is empty; name the intervention."
    chosen = data or SHIPPED.get(choice.data_set)
    if chosen is None:
        return f"`data_set` is none of {', '.join(SHIPPED)}."
    metric = METRICS.get(choice.metric)
    fitting = [name for name, each in METRICS.items() if chosen.task in each.tasks and not each.is_told]
    if metric is None or metric.name not in fitting:
        return f"`metric` does not fit {chosen.task} on {chosen.name}; it is one of {', '.join(fitting)}."
    if choice.direction is None:
        return "`direction` is missing; it is increase or decrease, of the measure's own number."
    most = int(chosen.rows * ROWS_SHARE)
    rows = choice.train_examples
    if rows is not None and not ROWS_MIN <= rows <= most:
        return f"`train_examples` is not from {ROWS_MIN} to {most}; give null where the idea is not about few rows."
    reading = f"{model.name} read the idea so: {one_line(choice.reading, READING_MAX)}"
    left_out = [
        f"Not as the idea says it: {one_line(each, READING_MAX)}" for each in choice.left_out if each.strip()
    ]
    return Claim(
        subject=subject,
        metric=metric,
        direction=choice.direction,
        data=chosen,
        train_examples=rows,
        notes=(reading, *left_out[:LEFT_OUT_MAX]),
    )


def _metrics() -> str:
    lines = [
        f"- {each.name}: {each.title}, for {' and '.join(sorted(each.tasks))}; "
        f"{'higher' if each.higher_is_better else 'lower'} is better"
        for each in METRICS.values()
        if not each.is_told  # by programs that the model itself writes
    ]
    return "\n".join(lines)


def _data_sets(data: DataSet | None) -> str:
    if data is not None:
        return f"The data set is given: {prompt.facts_of(data)}."
    lines = [f"- {each.name}: {prompt.facts_of(each)}" for each in SHIPPED.values()]
    return "\n".join(["The data sets at hand; no other can be fetched:", *lines])
