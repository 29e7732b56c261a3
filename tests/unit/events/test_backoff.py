"""The wait before a next try doubles, and has an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.runtime.backoff import back_off_s


@pytest.mark.parametrize(
    ("failures", "wait_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 32.0), (8, 60.0), (9, 60.0), (10**9, 60.0)]
)
def test_the_wait_doubles_up_to_its_limit(failures: int, wait_s: float) -> None:
    assert back_off_s(failures, first_s=0.5, max_s=60.0) == wait_s


@given(failures=st.integers(1, 10**6), share=st.floats(0.0, 1.0, exclude_max=True))
def test_chance_shortens_the_wait_and_never_prolongs_it(failures: int, share: float) -> None:
    whole_s = back_off_s(failures, first_s=2.0, max_s=300.0)
    assert back_off_s(failures, first_s=2.0, max_s=300.0, share=share) == pytest.approx(share * whole_s)


def test_before_the_first_failure_there_is_no_wait_to_ask_for() -> None:
    with pytest.raises(AssertionError):
        back_off_s(0, first_s=0.5, max_s=60.0)
