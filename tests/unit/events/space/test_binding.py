"""Which readings of somebody else bind a sentence to a claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from events.kinds.space.binding import Field, binding_problems
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.effect import Direction, Effect
from events.kinds.space.metrics import METRICS, metric_of_class

CLAIM: Final = Claim(
    subject="Lookahead with 5 steps", effects=(Effect(METRICS["accuracy"], "increase"),), data=SHIPPED["wine"]
)
SENTENCE: Final = "Lookahead with 5 steps improves the accuracy on wine"
QUOTES: Final[dict[Field, list[str]]] = {
    "intervention": ["Lookahead with 5 steps"], "metric": ["accuracy"], "direction": ["improves"],
    "data": ["on wine"],
}  # fmt: skip


def test_a_reading_that_binds_every_word_has_no_problem() -> None:
    assert binding_problems(SENTENCE, QUOTES, CLAIM) == []


def test_another_language_is_bound_by_quotation() -> None:
    quotes: dict[Field, list[str]] = {
        "intervention": ["Lookahead"], "metric": ["die Genauigkeit"], "direction": ["senkt"],
        "data": ["auf Wein"],
    }  # fmt: skip
    claim = Claim(
        subject="Lookahead", effects=(Effect(METRICS["accuracy"], "decrease"),), data=SHIPPED["wine"]
    )
    assert binding_problems("Lookahead senkt die Genauigkeit auf Wein", quotes, claim) == []


def test_a_sentence_without_end_is_not_bound() -> None:
    assert binding_problems(SENTENCE + " " * 4_000, QUOTES, CLAIM) == [
        "the sentence has over 4,000 characters"
    ]


@pytest.mark.parametrize(
    ("more", "field", "rows", "problem"),
    [
        ("with 50 examples", "condition", 50, ""),
        ("with 50 examples", "condition", None, "“with 50 examples” is not what is trained on"),
        ("with 50 examples", "condition", 60, "“with 50 examples” is not what is trained on"),
        ("with 10 % of the training data", "condition", 60, "is not what is trained on"),
        ("", "condition", 50, "no word of the sentence is bound to the rows to train on"),
        ("on my data", "data", None, "“on my data” is not wine"),
        ("and iris", "condition", None, "iris” is not wine"),
    ],
)
def test_rows_and_data_are_those_of_the_sentence(
    more: str, field: Field, rows: int | None, problem: str
) -> None:
    quotes = {**QUOTES, field: [*QUOTES.get(field, []), *[more] * bool(more)]}
    found = "; ".join(binding_problems(f"{SENTENCE} {more}", quotes, replace(CLAIM, train_examples=rows)))
    assert (problem in found) if problem else not found


def test_the_data_of_a_file_are_those_that_the_run_names() -> None:
    mine = replace(SHIPPED["wine"], name="mine", location="/data/mine.csv")
    sentence = SENTENCE.replace("on wine", "on my data")
    assert binding_problems(sentence, {**QUOTES, "data": ["on my data"]}, replace(CLAIM, data=mine)) == []


def test_a_part_of_a_number_is_no_number_of_the_subject() -> None:
    claim = replace(CLAIM, subject="Lookahead with 0.5 steps")
    assert "“5” is not in the subject" in binding_problems(SENTENCE, QUOTES, claim)


@pytest.mark.parametrize(
    ("sentence", "changed", "problem"),
    [
        (f"{SENTENCE} and iris", {}, "not bound: “and”, “iris”"),
        (f"{SENTENCE} of deep networks", {}, "deep"),
        (
            f"{SENTENCE} by 2 points",
            {"metric": ["accuracy", "by 2 points"]},
            "“by 2 points” is a size of the effect",
        ),
        (f"It is false that {SENTENCE}", {"direction": ["improves", "It is false that"]}, "is a negation"),
        (f"Rarely {SENTENCE}", {"direction": ["improves", "Rarely"]}, "“rarely” is a hedge"),
        (SENTENCE, {"data": ["on iris"]}, "“on iris” is no part of the sentence"),
        (SENTENCE, {"data": ["on wine", "wine"]}, ""),
        (SENTENCE, {"metric": ["accuracy", "the accuracy"]}, ""),
        (SENTENCE, {"metric": ["improves", "accuracy"]}, "“improves” is bound twice"),
        (SENTENCE, {"intervention": []}, "not bound"),
        (SENTENCE, {"direction": []}, "not bound"),
        (
            SENTENCE.replace("5", "7"),
            {"intervention": ["Lookahead with 7 steps"]},
            "“7” is not in the subject",
        ),
        (
            SENTENCE.replace("with 5", "with 0.5"),
            {"intervention": ["Lookahead with 0.5 steps"]},
            "“0.5” is not in the subject",
        ),
        (SENTENCE.replace("wine", "iris"), {"data": ["on iris"]}, "“on iris” is not wine"),
        (SENTENCE.replace("accuracy", "loss"), {"metric": ["loss"]}, "“loss” is not the accuracy"),
        (
            SENTENCE.replace("accuracy", "top-3 accuracy"),
            {"metric": ["top-3 accuracy"]},
            "is not the accuracy",
        ),
        (SENTENCE.replace("improves", "lowers"), {"direction": ["lowers"]}, "“lowers” says the opposite"),
        (SENTENCE.replace("accuracy", "error"), {"metric": ["error"], "direction": ["improves"]}, ""),
        (
            SENTENCE.replace("improves the accuracy", "reduces the error"),
            {"metric": ["error"], "direction": ["reduces"]},
            "",
        ),
        (SENTENCE.replace("improves", "boosts"), {"direction": ["boosts"]}, ""),
        (SENTENCE.replace("improves", "affects"), {"direction": ["affects"]}, "names no direction"),
        (
            SENTENCE.replace("improves", "brings no improvement in"),
            {"direction": ["brings no improvement in"]},
            "names no direction",
        ),
    ],
)
def test_what_a_reading_leaves_out_or_turns_round_is_a_problem(
    sentence: str, changed: dict[Field, Any], problem: str
) -> None:
    found = "; ".join(binding_problems(sentence, {**QUOTES, **changed}, CLAIM))
    assert (problem in found) if problem else not found


def of_class(name: str, words: str) -> Claim:
    return replace(CLAIM, effects=(Effect(metric_of_class(name, words), "increase"),))


@pytest.mark.parametrize(
    ("metric", "claim", "problem"),
    [
        ("recall for class 1", of_class("recall", "1"), ""),
        ("the accuracy of class 1", of_class("recall", "1"), ""),
        ("the recall of sort 1", of_class("recall", "1"), ""),
        ("recall for class 2", of_class("recall", "1"), "is not the"),
        ("precision for class 1", of_class("recall", "1"), "is not the"),
        ("recall", of_class("recall", "1"), "names class 1"),
        ("recall for class 1", CLAIM, "is not the accuracy"),
    ],
)
def test_a_measure_of_a_class_is_bound_with_its_class(metric: str, claim: Claim, problem: str) -> None:
    quotes: dict[Field, list[str]] = {
        "intervention": ["Lookahead"], "metric": [metric], "direction": ["raises"], "data": ["on wine"],
    }  # fmt: skip
    sentence = f"Lookahead raises {metric} on wine"
    found = "; ".join(binding_problems(sentence, quotes, replace(claim, subject="Lookahead")))
    assert (problem in found) if problem else not found


@pytest.mark.parametrize(
    ("intervention", "subject", "problem"),
    [
        ("Without Lookahead", "Lookahead", "“without” removes"),
        ("Without Lookahead", "no Lookahead", ""),
        ("Ohne Lookahead", "Lookahead", "“ohne” removes"),
        ("Lookahead instead of Adam", "Lookahead", "compares"),
        ("Lookahead instead of Adam", "Lookahead vs SGD", "“adam” is not in the subject"),
        ("Lookahead instead of Adam", "Lookahead instead of Adam", ""),
        ("Lookahead statt Adam", "Lookahead", "compares"),
    ],
)
def test_what_is_removed_or_compared_with_is_in_the_subject(
    intervention: str, subject: str, problem: str
) -> None:
    sentence, quotes = f"{intervention} improves accuracy on wine", {**QUOTES, "intervention": [intervention]}
    found = "; ".join(binding_problems(sentence, quotes, replace(CLAIM, subject=subject)))
    assert (problem in found) if problem else not found


@pytest.mark.parametrize(
    ("verb", "metric", "direction", "problem"),
    [
        ("senkt", "die Genauigkeit", "increase", "says the opposite"),
        ("senkt", "die Genauigkeit", "decrease", ""),
        ("verschlechtert", "die Genauigkeit", "increase", "says the opposite"),
        ("réduit", "la précision", "increase", "says the opposite"),
        ("verbessert", "die Genauigkeit nicht", "increase", "a negation"),
        ("n'améliore pas", "la précision", "increase", "a negation"),
        ("kann", "die Genauigkeit senken", "decrease", "a hedge"),
        ("no mejora", "la exactitud", "increase", "a negation"),
        ("mejora", "la exactitud", "increase", ""),
    ],
)
def test_words_of_other_languages_that_turn_a_meaning_are_held_against_a_reading(
    verb: str, metric: str, direction: Direction, problem: str
) -> None:
    claim = Claim(
        subject="Lookahead", effects=(Effect(METRICS["accuracy"], direction),), data=SHIPPED["wine"]
    )
    bound: dict[Field, list[str]] = {
        "intervention": ["Lookahead"], "direction": [verb], "metric": [metric],
    }  # fmt: skip
    found = "; ".join(binding_problems(f"Lookahead {verb} {metric}", bound, claim))
    assert (problem in found) if problem else not found
