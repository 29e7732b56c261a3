"""Boards: every number is one of its runs, counted and named, whatever the values of the fields are."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from control_plane.model.views.boards import board as module
from control_plane.model.views.boards.board import Board, Entry, Show, board_of
from control_plane.model.views.boards.interval import mean_of, t_reach
from control_plane.model.views.boards.run_fields import read_field, read_fields
from control_plane.model.views.boards.values import KEY_CHARS_MAX, value_of
from control_plane.runs.boards.query import BoardQuery, checked
from events.kinds.declaring.spec import Spec, default_at
from events.runtime.errors import Rejected

START = datetime(2026, 3, 1, tzinfo=UTC)
NEWEST_FIRST = ["c", "b", "a"]
RUNS = [
    Entry("a", "small", 1, 3.0, START),
    Entry("b", "small", 1, 1.0, START + timedelta(hours=1)),
    Entry("c", "small", 1, 2.0, START + timedelta(hours=2)),
    Entry("d", "large", 1, 7, START),
    Entry("e", "large", 2, 8.5, START),
]


def told(board: Board) -> list[Any]:
    return [
        (row.value.shown, [None if each is None else each.number for each in row.cells]) for row in board.rows
    ]


@pytest.mark.parametrize(
    ("show", "direction", "expected"),
    [
        ("newest", None, [("large", [7, 8.5]), ("small", [2.0, None])]),
        ("best", "lower", [("large", [7, 8.5]), ("small", [1.0, None])]),
        ("best", "higher", [("large", [7, 8.5]), ("small", [3.0, None])]),
        ("mean", None, [("large", [7.0, 8.5]), ("small", [2.0, None])]),
    ],
)
def test_a_cell_has_what_is_asked_for(show: Show, direction: Any, expected: list[Any]) -> None:
    board = board_of(RUNS, show, direction)
    assert told(board) == expected
    assert [each.shown for each in board.columns] == [1, 2]


def test_a_cell_names_its_runs_and_the_one_that_it_is_of() -> None:
    cell = board_of(RUNS, "best", "lower").rows[1].cells[0]
    assert cell is not None
    assert (cell.count, cell.runs, cell.run_id) == (3, NEWEST_FIRST, "b")
    of_equals = [Entry("x", 0, 0, 1.0, START), Entry("y", 0, 0, 1.0, START + timedelta(hours=1))]
    (only,) = board_of(of_equals, "best", "higher").rows[0].cells
    assert only is not None
    assert only.run_id == "y"


def test_complete_rows_lack_no_cell_and_the_others_are_counted() -> None:
    board = board_of(RUNS, "newest", complete=True)
    assert (told(board), board.incomplete) == ([("large", [7, 8.5])], 1)


@pytest.mark.parametrize("number", [None, True, "3", math.nan, math.inf, [1]])
def test_a_run_without_the_number_is_counted_and_is_on_no_board(number: Any) -> None:
    board = board_of([Entry("a", 1, 1, number)], "mean")
    assert (board.rows, board.columns, board.unmeasured) == ([], [], 1)


def test_a_board_has_bounds_and_says_what_is_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    monkeypatch.setattr(module, "COLUMNS_MAX", 3)
    board = board_of([Entry(f"{x}{y}", x, y, 1.0) for x in range(5) for y in range(7)], "newest")
    assert (len(board.rows), board.rows_left_out) == (2, 3)
    assert (len(board.columns), board.columns_left_out) == (3, 4)


def test_values_of_all_types_have_one_order() -> None:
    mixed = [{"a": 1}, "b", [1], 2, 1.5, None, True, "a", False, -3, 10**18]
    expected = [None, False, True, -3, 1.5, 2, 10**18, "a", "b", "[1]", '{"a":1}']
    assert [each.shown for each in sorted(map(value_of, mixed))] == expected


def test_a_whole_number_is_the_same_as_the_number_and_no_boolean() -> None:
    assert value_of(1) == value_of(1.0)
    assert value_of(1) != value_of(True)
    assert value_of({"a": 1, "b": 2}) == value_of({"b": 2, "a": 1})


def test_long_texts_are_cut_and_stay_apart() -> None:
    one, other = value_of("x" * 5_000 + "a"), value_of("x" * 5_000 + "b")
    assert one != other
    assert len(str(one.shown)) == len(str(other.shown)) == KEY_CHARS_MAX
    assert len(str(value_of(["y" * 5_000]).shown)) == KEY_CHARS_MAX


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 199, 200, 201, 1_000, 100_000])
def test_the_reach_of_the_interval_is_the_quantile_of_student(freedom: int) -> None:
    assert t_reach(freedom) == pytest.approx(float(stdtrit(freedom, 0.975)), rel=1e-8)


def test_a_mean_has_its_interval_and_one_number_has_none() -> None:
    found = mean_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.low == pytest.approx(2 - 4.302652729911275 / math.sqrt(3))
    assert (mean_of([5.0]).low, mean_of([5.0]).high) == (None, None)
    assert mean_of([0.0, 0.0]).high == 0.0


def test_the_mean_of_numbers_near_the_largest_is_a_number() -> None:
    found = mean_of([1.7e308, 1.7e308, -1.7e308])
    assert found.mean == pytest.approx(1.7e308 / 3)
    assert (found.low, found.high) == (None, None)
    assert mean_of([5e-324, 5e-324]).mean == 5e-324


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
few = st.sampled_from([None, 1, 1.0, True, "1", [1]]) | json_values
entries = st.lists(
    st.builds(
        Entry, run_id=st.uuids().map(str), row=few, column=few,
        number=st.floats() | st.none() | st.integers(-(2**53), 2**53),
        finished_at=st.none() | st.datetimes(),
    ),
    max_size=12, unique_by=lambda each: each.run_id,
)  # fmt: skip


@given(entries, st.randoms(use_true_random=False), st.sampled_from(["newest", "best", "mean"]))
def test_whatever_the_runs_are_a_board_counts_each_once(runs: list[Entry], chance: Any, show: Show) -> None:
    board = board_of(runs, show, "lower")
    shuffled = [*runs]
    chance.shuffle(shuffled)
    assert board_of(shuffled, show, "lower") == board
    cells = [each for row in board.rows for each in row.cells if each is not None]
    assert sum(each.count for each in cells) + board.unmeasured == len(runs)
    named = [run for each in cells for run in each.runs]
    assert len(named) == len(set(named)) == sum(each.count for each in cells)
    numbers = {each.run_id: each.number for each in runs}
    for each in cells:
        own = [numbers[run] for run in each.runs]
        assert min(own) <= each.number <= max(own)
        if show != "mean":
            assert each.number == numbers[str(each.run_id)]
        if each.low is not None and each.high is not None:
            assert each.low <= each.number <= each.high
    assert all(one.value < other.value for one, other in pairwise(board.rows))
    complete = board_of(runs, show, "lower", complete=True)
    assert [*complete.rows] == [row for row in board.rows if None not in row.cells]


@pytest.mark.parametrize(
    ("text", "run", "spec", "expected"),
    [
        ("spec.x", {}, {"x": 1}, 1),
        ("spec.a.0", {}, {"a": {"0": 1}}, 1),
        ("spec.a.b", {}, {"a": {"b": [2]}}, [2]),
        ("spec.a.b", {}, {"a": [{"b": 2}]}, None),
        ("spec.a.b", {}, None, None),
        ("label.team.io/x-1", {"labels": {"team.io/x-1": "y"}}, None, "y"),
        ("label.team", {"labels": {}}, None, None),
        ("summary.value", {"summary": {"value": 0.5}}, None, 0.5),
        ("summary.value", {"summary": None}, None, None),
    ],
)
def test_a_field_is_found_where_its_name_says(text: str, run: Any, spec: Any, expected: Any) -> None:
    field = read_field(text)
    assert (str(field), field.of(run, spec)) == (text, expected)


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "spec", "spec.", "spec..a", "spec.a.", "spec.$where", "spec.a.$b", "spec.a b", "spec.0",
        "spec.a\n", "spec.a\x00", "spec." + ".".join("abcdefghi"), "spec." + "a" * 65, "specs.a",
        "lease.until",
        "label.", "label.$x", "label." + "a" * 64, "label.a\nb", "summary.a.b", "summary.$a", "summary._a",
        "tokens.hash", "_id", "spec.ä", "SPEC.a", "spec." + "a.b" * 100,
        "spec." + ".".join(["a" * 40] * 5),
    ],
)  # fmt: skip
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="is no field"):
        read_field(text)


class Inner(msgspec.Struct):
    deep: int = 3


class Asked(Spec, frozen=True, kw_only=True):
    lr: float
    mode: str = "fast"
    inner: Inner = msgspec.field(default_factory=Inner)
    maybe: int | msgspec.UnsetType = msgspec.UNSET


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mode", "fast"), ("inner", {"deep": 3}), ("inner.deep", 3), ("inner.other", None), ("lr", None),
     ("maybe", None), ("unknown", None), ("mode.more", None), ("time_limit_s", 86400.0)],
)  # fmt: skip
def test_what_a_specification_leaves_out_is_what_its_kind_declares(name: str, expected: Any) -> None:
    assert default_at(Asked, name) == expected


def test_a_field_that_is_left_out_counts_with_its_default_and_null_is_a_value() -> None:
    rows = checked(BoardQuery(kind="probe", rows="spec.seconds", cell="value")).rows
    assert [rows.of({}, spec) for spec in ({}, {"seconds": 2}, {"seconds": None}, None)] == [
        1.0,
        2,
        None,
        1.0,
    ]
    labels = checked(BoardQuery(kind="probe", rows="label.seconds", cell="value")).rows
    assert labels.of({"labels": {}}, {}) is None


def test_columns_are_divided_by_commas_each_once_and_few() -> None:
    assert [*map(str, read_fields(["spec.x, label.a", "spec.x", ""]))] == ["spec.x", "label.a"]
    with pytest.raises(Rejected, match="9 columns are too many; 8 are the most"):
        read_fields([",".join(f"spec.a{each}" for each in range(9))])


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({}, None),
        ({"cell": "summary.effect"}, None),
        ({"kind": "not_installed", "cell": "anything"}, None),
        ({"show": "best", "cell": "p_value"}, None),
        ({"show": "best"}, "no_direction"),
        ({"show": "best", "cell": "min:effect"}, None),
        ({"kind": "job", "show": "best", "cell": "max:accuracy"}, None),
        ({"cell": "mean:effect"}, "bad_field"),
        ({"cell": "min:"}, "bad_field"),
        ({"kind": "not_installed", "show": "best"}, "no_direction"),
        ({"cell": "conclusion"}, "bad_cell"),
        ({"kind": "$where"}, "bad_kind"),
        ({"kind": ""}, "bad_kind"),
        ({"rows": "summary.effect"}, "bad_field"),
        ({"columns": "summary.effect"}, "bad_field"),
        ({"cell": "a.b"}, "bad_field"),
    ],
)
def test_a_board_that_cannot_be_made_is_refused_before_anything_is_read(
    wanted: dict[str, Any], code: str | None
) -> None:
    asked = BoardQuery(**{"kind": "experiment", "rows": "spec.x", "cell": "effect", **wanted})
    if code is None:
        both = {"status": {"$in": ["COMPLETED", "HUMAN_VALIDATED"]}, "kind": asked.kind}
        assert checked(asked).conditions() == both
        return
    with pytest.raises(Rejected) as refused:
        checked(asked)
    assert refused.value.code == code
