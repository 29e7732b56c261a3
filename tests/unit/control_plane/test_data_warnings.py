"""The warnings about a run's data, as its page lists them."""

from __future__ import annotations

from typing import Any

from control_plane.kinds.experiment.parts import of_latest_attempt


def event(attempt: int, **data: Any) -> dict[str, Any]:
    return {"type": "ai.data.warned", "attempt": attempt, "data": data}


def test_each_warning_of_the_latest_attempt_is_listed_once() -> None:
    events = [event(1, says="old"), event(2, says="one"), event(2, says="two"), event(2, says="one")]
    assert of_latest_attempt(events) == [{"says": "one"}, {"says": "two"}]
    assert of_latest_attempt([]) == []


def test_what_is_no_warning_is_left_out() -> None:
    odd = [event(2), event(2, says=5), {"type": "x", "attempt": 2, "data": {"says": "x"}}]
    assert of_latest_attempt([*odd, event(1, says="one"), {**event(2), "data": "text"}]) == [{"says": "one"}]
