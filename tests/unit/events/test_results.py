"""Results: what a line may hold, what a kind may declare, and by what rows are sorted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunSummarized
from events.codec import Refusal, decode_structured
from events.envelope import Event
from events.kinds import KINDS
from events.kinds.kind import Kind
from events.kinds.packages.loading import conflicts
from events.kinds.probe import ROWS
from events.kinds.results import SORT_NAMES, Column, ResultSet, is_of, sort_values, unlike
from events.testing import RUN_ID, make_line

ROW: dict[str, Any] = {"set": "rows", "key": "k", "values": {"v": 1}}


def decoded(event_type: str, data: Any, raw: str = "") -> Event | Refusal:
    """Return what becomes of a line; `raw` stands in the place of the text "RAW" in it."""
    told = {**json.loads(make_line(ResultRecorded(**ROW))), "type": event_type, "data": data}
    return decode_structured(json.dumps(told).replace('"RAW"', raw).encode())


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"a": 1, "b": -1.5, "c": "x", "d": True, "e": None},
        {f"n{number}": number for number in range(64)},
        {"text": "x" * 1024},
        {"whole": 2**53},
    ],
)
def test_a_row_within_its_bounds_is_taken(values: dict[str, Any]) -> None:
    found = decoded("ai.result.recorded", {**ROW, "key": "k" * 200, "values": values, "status": "s" * 40})
    assert isinstance(found, Event)
    assert isinstance(found.fact, ResultRecorded)
    assert found.fact.values == values
    assert isinstance(decoded("ai.run.summarized", {"values": values}), Event)


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {"a": []},
        {"a": {"$gt": 1}},
        {"": 1},
        {"$where": 1},
        {"a.b": 1},
        {"a\u0000": 1},
        {"a\n": 1},
        {"é": 1},
        {"n" * 65: 1},
        {f"n{number}": number for number in range(65)},
        {"text": "x" * 1025},
        {"text": "ß" * 513},
        {"whole": 2**53 + 1},
        {"whole": -(2**70)},
    ],
)
def test_values_that_no_row_may_hold_are_refused(values: Any) -> None:
    for event_type, data in (
        ("ai.result.recorded", {**ROW, "values": values}),
        ("ai.run.summarized", {"values": values}),
    ):
        found = decoded(event_type, data)
        assert isinstance(found, Refusal)
        assert found.code in ("invalid_data", "unstorable")


@pytest.mark.parametrize("raw", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(raw: str) -> None:
    assert isinstance(decoded("ai.result.recorded", {**ROW, "values": {"v": "RAW"}}, raw), Refusal)
    with pytest.raises(ValueError, match="no finite number"):
        RunSummarized(values={"v": float(raw.lower())})


@pytest.mark.parametrize(
    "field",
    [
        {"set": "Rows"}, {"set": ""}, {"set": "a" * 41}, {"set": "a.b"}, {"set": "rows\n"}, {"set": None},
        {"key": ""},
        {"key": "k" * 201}, {"key": "ß" * 101}, {"key": 5}, {"status": "s" * 41}, {"status": 5},
        {"detail": "d" * 201}, {"detail": ""},
    ],
)  # fmt: skip
def test_a_row_with_another_field_beyond_its_bounds_is_refused(field: dict[str, Any]) -> None:
    assert isinstance(decoded("ai.result.recorded", {**ROW, **field}), Refusal)
    assert json.loads(make_line(ResultRecorded(**ROW)))["subject"].endswith(RUN_ID)


def declaring(*sets: ResultSet, headline: tuple[Column, ...] = ()) -> list[str]:
    probe = KINDS["probe"]
    kind: Kind = replace(probe, name="other", results=sets, headline=headline)
    return list(conflicts(kind, {}))


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([ResultSet(f"s{number}", "S", ()) for number in range(9)], "8 are the most"),
        ([ResultSet("s", "S", ()), ResultSet("s", "S", ())], "more than one result set"),
        ([ResultSet("S", "S", ())], "is not made of"),
        ([ResultSet("s", "S" * 101, ())], "over 100 characters"),
        ([ResultSet("s", "S", tuple(Column(f"c{n}") for n in range(65)))], "64 are the most"),
        ([ResultSet("s", "S", (Column("a"), Column("a")))], "more than one column"),
        ([ResultSet("s", "S", (Column("a b"),))], "a name that no column can have"),
        ([ResultSet("s", "S", (Column("key"),))], "which every row has"),
        ([ResultSet("s", "S", (Column("a", format="{}"),))], "unknown format"),
        ([ResultSet("s", "S", (Column("a", type="date"),))], "unknown type"),  # type: ignore[arg-type]
    ],
)
def test_what_a_kind_declares_is_held_to_its_bounds(sets: list[ResultSet], words: str) -> None:
    assert words in " ".join(declaring(*sets))
    assert declaring(ROWS, headline=(Column("value", format="+.4g"),)) == []


def test_the_first_eight_columns_have_a_place_and_others_none() -> None:
    many = ResultSet("s", "S", tuple(Column(f"n{number}") for number in range(10)))
    assert [many.sort_name(f"n{number}") for number in range(10)] == [*SORT_NAMES, None, None]
    assert replace(many, is_declared=False).sort_name("n0") is None
    assert sort_values(many, {"n0": 1, "n7": "x", "n9": 1}) == {**dict.fromkeys(SORT_NAMES), "c0": 1}


def test_a_boolean_is_no_number_and_a_value_has_the_type_of_its_column() -> None:
    assert is_of(Column("a"), 1.5)
    assert not is_of(Column("a"), True)
    assert is_of(Column("a", type="bool"), True)
    assert not is_of(Column("a", type="bool"), 1)
    assert unlike(ROWS.columns, {"value": None, "group": "x"}) is None
    assert "there is no column 'color'" in (unlike(ROWS.columns, {"color": 1}) or "")
    assert unlike(ROWS.columns, {"group": 1}) == "group is a text, not int"
