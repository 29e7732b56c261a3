"""The search tree as events tell it."""

from __future__ import annotations

from typing import Any

from control_plane.tree import nodes


def event(kind: str, sequence: int, attempt: int = 1, **data: Any) -> dict[str, Any]:
    return {"type": f"ai.node.{kind}", "attempt": attempt, "sequence": sequence, "data": data}


def test_a_stage_may_hand_on_the_node_that_it_was_given() -> None:
    log = [
        event("created", 1, stage="A", node="A/1", plan="p"),
        event("completed", 2, stage="A", node="A/1", buggy=False, seconds=1.0, metric=0.5),
        event("selected_best", 3, stage="A", node="A/1"),
        event("created", 4, stage="B", node="B/1", plan="q", parent="A/1"),
        event("selected_best", 5, stage="B", node="A/1", reason="nothing was better"),
    ]
    told = nodes(log)
    assert [(node["id"], node["best"]) for node in told] == [("A/1", True), ("B/1", False)]
    assert told[0]["reason"] == "nothing was better"


def test_only_the_latest_attempt_of_a_stage_counts() -> None:
    log = [
        event("created", 1, stage="A", node="A/1", plan="old"),
        event("created", 2, stage="A", node="A/2", plan="old"),
        event("created", 1, attempt=2, stage="A", node="A/1", plan="new"),
    ]
    assert [(node["id"], node["plan"]) for node in nodes(log)] == [("A/1", "new")]
