"""What a validation concludes, also one from before there were three conclusions."""

from __future__ import annotations

from typing import Any

import pytest

from events.answers.conclusions import conclusion


@pytest.mark.parametrize(
    ("validation", "word"),
    [
        ({"verdict": "pass"}, "supported"),
        ({"verdict": "fail"}, "refuted"),
        ({"verdict": "fail", "conclusion": None}, "refuted"),
        ({"verdict": "fail", "conclusion": "inconclusive"}, "inconclusive"),
        ({"verdict": "fail", "conclusion": "contradicted"}, "contradicted"),
        ({"verdict": "pass", "conclusion": "supported"}, "supported"),
        ({}, "refuted"),
    ],
)
def test_an_old_verdict_says_what_it_always_said(validation: dict[str, Any], word: str) -> None:
    assert conclusion(validation) == word
