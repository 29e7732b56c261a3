"""An attempt's name as a value and as text."""

from __future__ import annotations

import pytest

from events.testing import RUN_ID
from events.text.attempt_id import AttemptId


def test_the_text_of_an_attempt_is_read_back() -> None:
    attempt_id = AttemptId(RUN_ID, 12)
    assert str(attempt_id) == f"{RUN_ID}/12"
    assert attempt_id.words == f"attempt 12 of run {RUN_ID}"
    assert AttemptId.read(str(attempt_id)) == attempt_id == (RUN_ID, 12)


@pytest.mark.parametrize("text", ["", "/", "run", "run/", "/1", "run/x", "run/-1", "run/1 ", "run/²"])
def test_what_names_no_attempt_is_none(text: str) -> None:
    assert AttemptId.read(text) is None
