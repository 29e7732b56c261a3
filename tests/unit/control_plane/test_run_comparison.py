"""In what runs differ."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.reads.comparison import FACTS_MAX, NAME_CHARS_MAX, RUNS_MAX, chosen, compared, flat
from events.answers.runs import ComparedField
from events.runtime.errors import Rejected


def run(**more: Any) -> dict[str, Any]:
    return {
        "status": "COMPLETED", "kind": "experiment", "attempt": 2,
        "usage": {"promptTokens": 3, "completionTokens": 4, "costUsd": 0.5}, **more,
    }  # fmt: skip


FIRST = run(
    spec={"idea": "x", "seed": 0, "nodes": {"Stage_1": 2}, "tags": ["a"]},
    stages=[
        {"name": "Stage_1", "attempt": 2, "durationS": 5.0},
        {"name": "Stage_1", "attempt": 1, "durationS": 9.0},
    ],
    nodes=[
        {"stage": "Stage_1", "best": True, "metric": 0.9},
        {"stage": "Stage_1", "best": False, "metric": 0.99},
        {"stage": "Stage_2", "best": True, "metric": "odd"},
    ],
    validations=[{"by": "auto", "verdict": "pass", "scores": {"gain": 0.1}}],
    labels={},
)
SECOND = run(
    spec={"idea": "x", "seed": 1, "late": None}, status="FAILED", error={"code": "TIMEOUT"}, labels={"n": "1"}
)


def test_what_differs_is_told_with_each_value_and_what_agrees_is_marked() -> None:
    rows = compared([FIRST, SECOND])
    assert {row.field: row.values for row in rows if row.differs} == {
        "status": ["COMPLETED", "FAILED"],
        "spec.seed": [0, 1],
        "spec.nodes.Stage_1": [2, None],
        "spec.tags": [["a"], None],
        "seconds.Stage_1": [5.0, None],
        "best.Stage_1": [0.9, None],
        "auto.verdict": ["pass", None],
        "auto.scores.gain": [0.1, None],
        "labels.n": [None, "1"],
        "error": [None, "TIMEOUT"],
    }
    assert [row.field for row in rows if not row.differs] == [
        "kind", "spec.idea", "attempts", "tokens", "costUsd", "spec.late",
    ]  # fmt: skip
    assert ComparedField(field="tokens", differs=False, values=[7, 7]) in rows
    assert not any(row.differs for row in compared([FIRST, FIRST]))


def test_little_is_known_of_a_run_that_has_not_begun() -> None:
    bare = {"status": "QUEUED", "kind": "probe", "attempt": 0}
    assert {row.field for row in compared([bare, bare])} == {
        "status", "kind", "attempts", "tokens", "costUsd", "error",
    }  # fmt: skip


def test_leaves_have_dotted_names() -> None:
    spec = {"idea": "x", "nodes": {"Stage_1": 3, "none": {}}, "list": [1, "a"], "null": None}
    assert dict(flat(spec)) == {
        "idea": "x", "nodes.Stage_1": 3, "nodes.none": {}, "list": [1, "a"], "null": None,
    }  # fmt: skip
    assert dict(flat({})) == {}


def test_two_to_twelve_runs_are_compared_each_once() -> None:
    names = [str(number) for number in range(RUNS_MAX + 1)]
    assert chosen(["a", "b", "a"]) == ["a", "b"]
    assert chosen(names[:-1]) == names[:-1]
    for wrong in ([], ["a"], ["a", "a"], names):
        with pytest.raises(Rejected, match=f"2 to 12 runs can be compared, not {len(set(wrong))}"):
            chosen(wrong)


def nested(name: str, depth: int, leaves: int) -> dict[str, Any]:
    """Return an object whose leaves lie below `depth` long names."""
    found: dict[str, Any] = {f"{name}{number}": number for number in range(leaves)}
    for _ in range(depth):
        found = {name * 100: found}
    return found


def test_what_a_pod_says_bounds_neither_the_names_nor_the_number_of_fields() -> None:
    deep = [run(validations=[{"by": "auto", "scores": nested(each, 60, 2_000)}]) for each in "ab"]
    rows = compared(deep)
    assert max(len(row.field) for row in rows) < 2 * NAME_CHARS_MAX
    assert [row.values[0] for row in rows if row.field.startswith("auto.scores.a")] == [
        nested("a", 58, 2_000),
    ]
    wide = [run(validations=[{"by": "auto", "scores": nested(each, 0, 50_000)}]) for each in "ab"]
    rows = compared(wide)
    assert len(rows) < 2 * FACTS_MAX
    assert {row.field: row.values for row in rows}["…"] == ["49,007 more fields"] * 2
    assert {"status", "costUsd", "error"} <= {row.field for row in rows}
