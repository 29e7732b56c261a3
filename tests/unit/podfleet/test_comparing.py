"""In what runs differ."""

from __future__ import annotations

from typing import Any

from podfleet.comparing import differing


def run(identity: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity, "status": "COMPLETED", "kind": "experiment", "attempt": 1,
        "usage": {"promptTokens": 0, "completionTokens": 0, "costUsd": 0.0}, **more,
    }  # fmt: skip


FIRST = run(
    "A",
    spec={"idea": "x", "seed": 0, "nodes": {"Stage_1": 2}},
    nodes=[
        {"stage": "Stage_1", "best": True, "metric": 0.9},
        {"stage": "Stage_1", "best": False, "metric": 0.99},
    ],
    validations=[{"by": "auto", "verdict": "pass", "scores": {"gain": 0.1}}],
)
SECOND = run(
    "B", spec={"idea": "x", "seed": 1}, status="FAILED", error={"code": "TIMEOUT"}, labels={"n": "1"}
)


def test_what_differs_is_told_with_each_value_and_what_agrees_is_not() -> None:
    rows = {row["field"]: row["values"] for row in differing([FIRST, SECOND])}
    assert rows == {
        "status": ["COMPLETED", "FAILED"],
        "spec.seed": [0, 1],
        "spec.nodes.Stage_1": [2, None],
        "best.Stage_1": [0.9, None],
        "auto.verdict": ["pass", None],
        "auto.scores.gain": [0.1, None],
        "labels.n": [None, "1"],
        "error": [None, "TIMEOUT"],
    }
    assert differing([FIRST, FIRST]) == []
    everything = {row["field"]: row["values"] for row in differing([FIRST, FIRST], everything=True)}
    assert everything["spec.idea"] == ["x", "x"]
