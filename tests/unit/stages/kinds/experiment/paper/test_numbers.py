"""What may be printed in a paper, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.record.numbers import (
    WORD_MAX,
    measure_of,
    metric_text,
    numbers_of,
    paper_title,
    shown_text,
    work_text,
)
from stages.kinds.experiment.testing import HOSTILE, make_record
from stages.ports.literature import Work

BREAK = "\N{ZERO WIDTH SPACE}"


@pytest.mark.parametrize(
    ("value", "decimals", "signed", "text"),
    [
        (0.97123, 4, False, "0.9712"), (0.5, 2, True, "+0.50"), (-0.25, 2, True, "−0.25"),
        (0.0, 4, True, "+0.0000"), (0.00001, 4, False, "1.00e−05"), (-3e9, 0, True, "−3.00e+09"),
        (5130.0, 0, False, "5130"),
    ],
)  # fmt: skip
def test_a_measure_is_printed_with_its_own_digits_and_never_as_a_zero_that_it_is_not(
    value: float, decimals: int, signed: bool, text: str
) -> None:
    assert metric_text(value, decimals, signed=signed) == text


@given(text=st.text(max_size=400))
def test_a_text_of_others_is_printed_on_one_line_within_its_limit_and_can_be_broken(text: str) -> None:
    shown = shown_text(text, 100)
    plain = shown.replace(BREAK, "")
    assert len(plain) <= 102
    assert all(char.isprintable() for char in plain)
    assert all(len(piece) < WORD_MAX for word in shown.split() for piece in word.split(BREAK))
    if text.isprintable() and len(text) <= 100:
        assert plain == " ".join(text.split())


def test_what_is_not_a_finite_number_cannot_be_referred_to() -> None:
    record = make_record()
    verdicts = replace(
        record.verdicts, means={"accuracy": (math.nan, 0.9), "training_seconds": (math.inf, 1.0)}
    )
    numbers = numbers_of(replace(record, verdicts=verdicts))
    assert "mean.accuracy.baseline" not in numbers
    assert "mean.training_seconds.baseline" not in numbers
    assert "mean.accuracy.intervention" in numbers


def test_every_number_says_on_which_events_it_rests() -> None:
    numbers = numbers_of(make_record(works=2))
    assert all(number.source for number in numbers if number.value)
    plain = {each["key"]: each for each in numbers.plain()["numbers"]}
    assert plain["unit_1.difference"]["rule"] == "difference"
    assert [source["about"] for source in plain["unit_1.difference"]["source"]] == [
        "test_accuracy_intervention",
        "test_accuracy_baseline",
    ]
    assert plain["nodes.tried"]["value"] == len(plain["nodes.tried"]["source"]) == 20


def test_a_title_asks_what_was_measured_whatever_the_idea_calls_itself() -> None:
    record = make_record()
    named = replace(record, idea=msgspec.structs.replace(record.idea, name="n", title="Dropout cures all"))
    for each in (record, named):
        assert paper_title(each) == record.claim.question
        assert paper_title(each).startswith("Does the accuracy on")


def test_a_measure_that_has_nothing_to_do_with_data_is_not_called_a_test_measure() -> None:
    assert measure_of(METRICS["accuracy"]) == "test accuracy"
    assert measure_of(METRICS["training_seconds"]) == "training time in seconds"


def test_a_reference_names_what_is_known_of_a_work_and_no_more() -> None:
    assert work_text(Work(title="On networks.", authors=(), year=None, venue="", url="")) == "On networks."
    many = Work(title="A", authors=tuple(f"B{n}" for n in range(9)), year=2_014, venue="JMLR", url="")
    assert work_text(many) == "B0, B1, B2, B3, B4, B5 et al. A. JMLR. 2014."


def test_hostile_texts_are_quoted_and_never_become_keys() -> None:
    numbers = numbers_of(make_record(text=HOSTILE, works=1))
    assert all(HOSTILE not in key for key in (*numbers.numbers, *numbers.quotes))
    assert numbers.quotes["idea"].said == HOSTILE
    assert "\x00" not in numbers.quotes["idea"].text
    assert numbers.resolved("{effect.mean} {no.such.key}") == f"{numbers.text('effect.mean')} {{no.such.key}}"
