"""Which failure is tried again, and after how long."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.models.model import Trouble
from stages.models.retrying import (
    BACK_OFF_MAX_S,
    CROWD_MAX_S,
    RETRY_AFTER_MAX_S,
    TOTAL_MAX_S,
    GiveUp,
    Wait,
    decide,
    retry_after_of,
    trouble_of,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TROUBLES = get_args(Trouble)


@pytest.mark.parametrize("trouble", ["quota", "unauthorised", "refused", "cut_off"])
def test_what_money_or_another_question_would_mend_is_never_tried_again(trouble: Trouble) -> None:
    assert isinstance(decide(trouble, 1, retry_after_s=0.0, elapsed_s=0.0, jitter=0.0), GiveUp)


@given(
    trouble=st.sampled_from(TROUBLES),
    retry_after_s=st.none() | st.floats(0, 1e6),
    jitter=st.floats(0, 1, exclude_max=True),
    request_s=st.floats(0, 400),
)
def test_every_question_ends(
    trouble: Trouble, retry_after_s: float | None, jitter: float, request_s: float
) -> None:
    elapsed_s = 0.0
    for tries in range(1, 100):
        elapsed_s += request_s
        decision = decide(trouble, tries, retry_after_s=retry_after_s, elapsed_s=elapsed_s, jitter=jitter)
        if isinstance(decision, GiveUp):
            assert decision.reason
            return
        assert 0 <= decision.seconds <= max(BACK_OFF_MAX_S, RETRY_AFTER_MAX_S + CROWD_MAX_S)
        elapsed_s += decision.seconds
        assert elapsed_s < TOTAL_MAX_S
    pytest.fail("it would go on for ever")


def test_waits_grow_and_chance_decides_the_whole_of_them() -> None:
    longest = [
        decide("rate_limited", tries, retry_after_s=None, elapsed_s=0.0, jitter=1.0) for tries in range(1, 8)
    ]
    assert longest == [Wait(seconds) for seconds in (1, 2, 4, 8, 16, 30, 30)]
    assert decide("unreachable", 3, retry_after_s=None, elapsed_s=0.0, jitter=0.0) == Wait(0.0)


def test_a_server_that_says_when_is_not_asked_earlier() -> None:
    assert decide("rate_limited", 1, retry_after_s=20.0, elapsed_s=0.0, jitter=0.5) == Wait(20.5)


def test_a_server_that_wants_a_day_is_left_at_once() -> None:
    decision = decide("rate_limited", 1, retry_after_s=86_400.0, elapsed_s=0.0, jitter=0.0)
    assert isinstance(decision, GiveUp)
    assert "86400 s" in decision.reason


def test_no_wait_begins_that_would_end_after_the_limit() -> None:
    assert isinstance(decide("rate_limited", 1, retry_after_s=100.0, elapsed_s=850.0, jitter=0.0), GiveUp)
    assert isinstance(
        decide("rate_limited", 1, retry_after_s=1.0, elapsed_s=5.0, jitter=0.0, total_max_s=5.5), GiveUp
    )


@pytest.mark.parametrize(
    ("status", "words", "trouble"),
    [
        (400, "messages: field required", "refused"),
        (401, "", "unauthorised"),
        (402, "", "quota"),
        (403, "", "unauthorised"),
        (404, "", "refused"),
        (408, "", "timed_out"),
        (302, "", "refused"),
        (422, "", "refused"),
        (429, "slow down", "rate_limited"),
        (429, "insufficient_quota: pay first", "quota"),
        (429, "You exceeded your current quota", "quota"),
        (400, "Your credit balance is too low", "quota"),
        (500, "", "unreachable"),
        (502, "", "unreachable"),
        (503, "loading", "rate_limited"),
        (529, "overloaded_error", "rate_limited"),
    ],
)
def test_each_status_has_its_trouble(status: int, words: str, trouble: Trouble) -> None:
    assert trouble_of(status, words) == trouble


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        (
            {"retry-after": "Thu, 01 Jan 2026 15:00:30 GMT", "date": "Thu, 01 Jan 2026 15:00:00 GMT"},
            30.0,
        ),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT", "date": "soon"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": " "}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999999 00:00:00 GMT"}, None),
        ({"x-ratelimit-reset-requests": "1.5s"}, 1.5),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, BACK_OFF_MAX_S),
        ({"x-ratelimit-remaining-tokens": "90", "x-ratelimit-reset-tokens": "2s"}, None),
        ({"x-ratelimit-reset": str(NOW.timestamp() + 9)}, 9.0),
        ({"x-ratelimit-reset": str(int(NOW.timestamp() + 9) * 1000)}, 9.0),
        ({"anthropic-ratelimit-requests-reset": "2026-01-01T12:00:04Z"}, 4.0),
    ],
)
def test_what_servers_say_about_coming_back_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_of(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset"]), st.text()))
def test_no_header_is_too_odd_to_be_read(headers: dict[str, str]) -> None:
    seconds = retry_after_of(headers, NOW)
    assert seconds is None or seconds >= 0
