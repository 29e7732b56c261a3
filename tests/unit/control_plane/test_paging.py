"""Cursors lead back to their own list, and no other text does."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.reads import paging
from events.runtime.errors import Rejected

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(KEYS, st.integers(-(2**63), 2**63 - 1))
def test_a_cursor_gives_its_key_back(text: str, number: int) -> None:
    cursor = paging.encode("runs", text, number)
    assert cursor.isascii()
    assert paging.decode("runs", cursor, str, int) == [text, number]


@given(
    st.one_of(
        st.text(max_size=100), st.binary(max_size=100).map(lambda raw: base64.urlsafe_b64encode(raw).decode())
    )
)
def test_no_other_text_is_a_cursor(text: str) -> None:
    with pytest.raises(Rejected) as caught:
        paging.decode("runs", text, str)
    assert caught.value.code == "bad_cursor"


@pytest.mark.parametrize(
    "cursor",
    [
        paging.encode("pods", "x"),
        paging.encode("runs"),
        paging.encode("runs", 7),
        paging.encode("runs", "a", "b"),
        base64.urlsafe_b64encode(b'["runs",{"$gt":""}]').decode(),
        base64.urlsafe_b64encode(b'["runs",true]').decode(),
    ],
)
def test_a_cursor_of_another_list_or_form_is_refused(cursor: str) -> None:
    with pytest.raises(Rejected):
        paging.decode("runs", cursor, str)


@pytest.mark.parametrize("limit", [0, -1, 201, 2**70])
def test_a_limit_outside_its_range_is_refused(limit: int) -> None:
    with pytest.raises(Rejected, match="from 1 to 200"):
        paging.limited(limit)
