"""Which parts of a text count as numbers that somebody typed."""

from __future__ import annotations

import pytest

from stages.kinds.experiment.paper.digits import typed_numbers


@pytest.mark.parametrize(
    "text",
    [
        "an accuracy of 0.97", "97%", "97 %", "a gain of +2", "(3)", "in 2024", "x=5", "five-fold: 5-fold",
        "learning rate 3e-4", "½ of the data", "x²", "٣ seeds", "十 seeds", "twice, at 64x64", "10k steps",
        "0.5/0.7", "1e-3",
        "twelve percent", "three times better", "two points more", "ninety-nine per cent", "v1.2.3",
    ],
)  # fmt: skip
def test_a_number_is_found_however_it_is_written(text: str) -> None:
    assert typed_numbers(text)


@pytest.mark.parametrize(
    "text",
    [
        "L2 regularisation and an F1 score", "ReLU6 and ResNet50", "two networks were trained",
        "the first of three stages", "no number at all", "",
        "many times better", "a hundred of them", "Adam, SGD",
    ],
)  # fmt: skip
def test_names_and_small_words_are_no_numbers(text: str) -> None:
    assert typed_numbers(text) == []


@pytest.mark.timeout(60)  # without a bound it takes hours
def test_a_text_of_spelled_numbers_alone_is_read_in_no_time() -> None:
    assert typed_numbers("two " * 131_072) == []
    assert typed_numbers("two " * 100 + "percent")
