"""Scores answers by the judgement of a model.

Law: what is judged may speak to the model that judges it. It stands between marks that its author could not
know, and only a plain RIGHT or WRONG counts; anything else is no grade.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.parsing.thought import without_thought
from stages.kinds.benchmark.suites.payload import Wanted
from stages.kinds.benchmark.suites.prompting import prompt_of
from stages.kinds.benchmark.suites.scorers.plain import NO_ANSWER
from stages.models.model import ModelError, Question

PURPOSE: Final = "grading"
TOKENS_MAX: Final = 1_024
ANSWER_CHARS_MAX: Final = 20_000
SHOWN_CHARS: Final = 200


def model_graded(item: Item, answer: str, scoring: Scoring) -> Score:
    """Score an answer as the grading model judges it. Raises what a metered model raises for its budget."""
    assert isinstance(item.payload, Wanted)
    said = without_thought(answer)[:ANSWER_CHARS_MAX]
    if not said:
        return Score(outcome="unparsed", why=NO_ANSWER)
    if scoring.model is None:
        return Score(outcome="error", why="no model grades answers on this pod")
    try:
        grade = without_thought(scoring.model.ask(question_of(item, item.payload, said)).text)
    except ModelError as error:
        return Score(outcome="error", why=f"the grading model did not answer: {error.message}"[:SHOWN_CHARS])
    words = re.findall(r"[A-Z]+", grade.upper())
    if words[-1:] == ["RIGHT"] and "WRONG" not in words:
        return Score(outcome="right", value=1.0, parsed=said[:SHOWN_CHARS])
    if words[-1:] == ["WRONG"] and "RIGHT" not in words:
        return Score(
            outcome="wrong", parsed=said[:SHOWN_CHARS], why="the grading model says that it is wrong"
        )
    return Score(outcome="error", parsed=said[:SHOWN_CHARS], why=f"this is no grade: {grade[:SHOWN_CHARS]!r}")


def question_of(item: Item, wanted: Wanted, said: str) -> Question:
    """Return what the grading model is asked; the marks around the answer follow from what is right."""
    mark = sha256("\n".join((item.id, wanted.question, *wanted.texts)).encode()).hexdigest()[:16]
    text = prompt_of(
        "grade",
        mark=f"=== {mark} ===",
        question=wanted.question,
        expected=" or ".join(wanted.texts),
        answer=said,
    )
    return Question(purpose=PURPOSE, system="", text=text, temperature=0.0, tokens_max=TOKENS_MAX)
