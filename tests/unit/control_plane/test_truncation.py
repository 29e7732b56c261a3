"""What is cut so that no answer is as long as a pod wants it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bson import Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from events.text.truncation import FIELDS_MAX, brief, brief_data, brief_list

MANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=10), inner, max_size=20),
    max_leaves=200,
)


@given(MANY)
def test_what_is_short_stays_as_it_is(value: Any) -> None:
    assert brief(value, 1 << 20) == value


@given(MANY, st.integers(min_value=0, max_value=200))
def test_what_is_long_is_not(value: Any, chars_max: int) -> None:
    assert len(json.dumps(brief(value, chars_max), ensure_ascii=False)) < 20 * chars_max + 30_000


def test_a_cut_says_what_it_left_out() -> None:
    assert brief("abcdef", 2) == "ab… 4 more characters"
    assert brief([1, 2, 3], 16) == [1, "… 2 more"]
    assert brief({"verdict": "pass", "summary": "x" * 50}, 20)["summary"].endswith("more characters")
    assert brief({"a": "x" * 50, "b": 1, "c": [1], "d": []}, 20) == {
        "a": f"{'x' * 19}… 31 more characters", "b": 1, "c": "… 1 more", "d": [],
    }  # fmt: skip
    assert len(brief({str(number): "long" for number in range(500)}, 20)) == FIELDS_MAX + 1


def test_of_many_fields_the_known_ones_come_first() -> None:
    data = {f"x{number}": number for number in range(1_000)} | {"stage": "Stage_1"}
    said = brief_data(data, ("stage", "node"), 100)
    assert list(said)[:2] == ["stage", "x0"]
    assert said["…"] == f"{1_001 - FIELDS_MAX} more fields"


def test_a_list_ends_where_its_items_are_too_long_together() -> None:
    assert brief_list([{"a": "x" * 100}] * 10, 500) == [{"a": "x" * 100}] * 4
    assert len(brief_list([{"a": "x" * 1_000}] * 10, 500)) == 1
    assert len(brief_list([{"a": Int64(1 << 40), "b": ObjectId()}] * 10, 100)) == 2


@pytest.mark.parametrize("hostile", ["&", "<", ">", "'", '"'])
def test_what_a_page_has_to_escape_counts_as_a_page_writes_it(hostile: str) -> None:
    kept = brief_list([{"a": hostile * 1_000}] * 100, 50_000)
    assert 5 < len(kept) <= 50_000 // len(escape(hostile * 1_000))
    assert len(brief_list([{"a": 'an honest "text" of a program'}] * 10, 400)) > 5


def test_numbers_of_the_store_count_like_any_other() -> None:
    assert brief_list([{"size": Int64(1 << 50)}], 1_000) == [{"size": 1 << 50}]
