"""What the outside sees of a stored document."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Int64
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.presentation import SPENT, plain, shown
from control_plane.model.views.runs import stage, usage

MOMENT = datetime(2026, 11, 21, 10, 0, 0, 123_000, UTC)


def test_internal_fields_stay_inside() -> None:
    document = {
        "_id": "r", "words": ["a"], "labelList": ["a=b"], "idempotency": {"key": "k"},
        "labels": {"words": "kept"},
        "lease": {"tokenHash": "secret", "until": MOMENT, "renewals": 3},
    }  # fmt: skip
    assert shown(document) == {
        "id": "r", "labels": {"words": "kept"}, "lease": {"until": "2026-11-21T10:00:00.123Z", "renewals": 3},
    }  # fmt: skip


def test_a_run_without_a_lease_shows_none() -> None:
    assert shown({"_id": "r", "lease": None}) == {"id": "r", "lease": None}


@pytest.mark.parametrize(
    ("status", "attempt", "run", "expected"),
    [
        ("RUNNING", 2, {"status": "RUNNING", "attempt": 2, "logOpen": True}, "RUNNING"),
        ("RUNNING", 2, {"status": "CANCELING", "attempt": 2, "logOpen": True}, "RUNNING"),
        # its pod has settled, and the last words of its log are on their way
        ("RUNNING", 2, {"status": "COMPLETED", "attempt": 2, "logOpen": True}, "RUNNING"),
        ("RUNNING", 1, {"status": "RUNNING", "attempt": 2, "logOpen": True}, "INTERRUPTED"),
        ("RUNNING", 1, {"status": "DELAYED", "attempt": 1, "logOpen": False}, "INTERRUPTED"),
        ("RUNNING", 1, {"status": "COMPLETED", "attempt": 2, "logOpen": False}, "INTERRUPTED"),
        ("COMPLETED", 1, {"status": "COMPLETED", "attempt": 2, "logOpen": False}, "COMPLETED"),
        ("FAILED", 1, {"status": "QUEUED", "attempt": 1, "logOpen": False}, "FAILED"),
    ],
)
def test_a_stage_whose_attempt_is_lost_does_not_run_for_ever(
    status: str, attempt: int, run: dict[str, Any], expected: str
) -> None:
    assert stage({"_id": "s", "attempt": attempt, "status": status}, run).status == expected


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.datetimes(timezones=st.just(UTC))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_whatever_is_stored_is_json_outside(value: object) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_what_was_spent_is_summed_and_told_by_model() -> None:
    spent = dict.fromkeys(SPENT, 0)
    groups = [
        {**spent, "_id": None, "events": 2, "gpuSeconds": 90.5, "costUsd": 0.25},
        {**spent, "_id": "m", "events": 3, "calls": 3, "promptTokens": 70, "unpricedCalls": 3},
    ]
    told = usage(groups, 100)
    assert (told.gpu_seconds, told.cost_usd, told.prompt_tokens, told.calls) == (90.5, 0.25, 70, 3)
    assert [(each.model, each.unpriced_calls) for each in told.models] == [("m", 3)]
    assert (told.is_partial, usage(groups, 5).is_partial) == (False, True)
    assert usage([], 5).cost_usd == 0
    absurd = usage([{**spent, "_id": "m", "events": 1, "calls": 1, "costUsd": math.inf}] * 2, 5)
    assert {absurd.cost_usd, absurd.models[0].cost_usd} == {sys.float_info.max}, "pages count with it"
    many = usage([{**spent, "_id": "m", "events": 1, "calls": Int64(1), "promptTokens": Int64(2**40)}], 5)
    assert {type(number) for number in (many.prompt_tokens, many.models[0].prompt_tokens)} == {int}
