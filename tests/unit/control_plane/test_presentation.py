"""What the outside sees of a stored document."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from control_plane.presentation import plain, shown

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
