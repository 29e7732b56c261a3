"""The search tree as events tell it."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.kinds.experiment.tree import nodes


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


@pytest.mark.parametrize(
    ("stage", "arm", "words"),
    [
        ("Stage_2", "baseline", "best baseline"),
        ("Stage_3", "intervention", "best with the intervention"),
        ("Stage_4", "baseline", "best ablation, without the intervention"),
        ("Stage_4", "intervention", "best ablation, with the intervention"),
        ("Stage_1", None, "best"),  # of an earlier version
    ],
)
def test_the_best_node_of_a_stage_is_called_what_it_is_the_best_of(
    stage: str, arm: str | None, words: str
) -> None:
    log = [
        event("created", 1, stage=stage, node=f"{stage}/1", plan="p", arm=arm),
        event("created", 2, stage=stage, node=f"{stage}/2", plan="q", arm=arm),
        event("selected_best", 3, stage=stage, node=f"{stage}/2", arm=arm),
    ]
    assert [(node["arm"], node["bestOf"]) for node in nodes(log)] == [(arm, None), (arm, words)]


def test_only_the_latest_attempt_of_a_stage_counts() -> None:
    log = [
        event("created", 1, stage="A", node="A/1", plan="old"),
        event("created", 2, stage="A", node="A/2", plan="old"),
        event("created", 1, attempt=2, stage="A", node="A/1", plan="new"),
    ]
    assert [(node["id"], node["plan"]) for node in nodes(log)] == [("A/1", "new")]


def test_a_node_has_its_code_its_scores_and_the_end_of_what_it_printed() -> None:
    (node,) = nodes(
        [
            event("created", 1, stage="A", node="A/1", plan="p"),
            event("code_generated", 2, stage="A", node="A/1", code="print(1)", language="python"),
            event(
                "completed", 3, stage="A", node="A/1", buggy=False, seconds=1.0, metric=0.5,
                metric_name="accuracy", scores={"accuracy": 0.5, "nll": 1.5}, log_tail="1\n",
            ),
        ]
    )  # fmt: skip
    assert (node["code"], node["logTail"]) == ("print(1)", "1\n")
    assert node["scores"] == {"accuracy": 0.5, "nll": 1.5}
    assert (node["mean"], node["standardError"], node["seeds"]) == (None, None, [])


def test_a_selected_node_has_what_its_re_evaluation_measured() -> None:
    (node,) = nodes(
        [
            event("completed", 1, stage="A", node="A/1", buggy=False, seconds=1.0, metric=0.5),
            event(
                "selected_best", 2, stage="A", node="A/1", reason="highest", mean=0.48, standard_error=0.01,
                seeds=[11, 12, 13],
            ),
        ]
    )  # fmt: skip
    assert (node["mean"], node["standardError"], node["seeds"]) == (0.48, 0.01, [11, 12, 13])
    assert (node["best"], node["reason"]) == (True, "highest")


def test_a_restored_node_brings_its_code_and_what_it_printed() -> None:
    (node,) = nodes(
        [
            event(
                "restored", 1, 3, stage="A", node="A/1", from_attempt=2, plan="p", buggy=True, seconds=2.0,
                code="raise", log_tail="Traceback", error="it raised",
            )
        ]
    )  # fmt: skip
    assert (node["attempt"], node["code"], node["logTail"], node["status"]) == (
        2,
        "raise",
        "Traceback",
        "buggy",
    )


def test_what_older_workers_did_not_say_is_empty() -> None:
    (node,) = nodes([event("code_generated", 1, stage="A", node="A/1")])
    assert (node["code"], node["logTail"], node["scores"]) == (None, None, {})


def test_of_an_event_only_what_the_catalogue_names_is_read_and_only_in_its_type() -> None:
    more: dict[str, Any] = {"plan": 5, "parent": {"a": []}, "params": [1], "code": 7, "reason": {}, "best": 1}
    told = nodes(
        [
            event("completed", 1, stage="A", node="A/1", buggy=False, seconds=1.0, **more),
            event("executing", 2, stage="A", node="A/2", **more),
            event("created", 3, stage="A", node="A/3", plan=5),
            event("created", 4, stage={}, node="A/4", plan="p"),
        ]
    )
    assert [node["id"] for node in told] == ["A/1", "A/2"]
    for node in told:
        assert (node["plan"], node["parent"], node["params"], node["code"]) == (None, None, {}, None)
        assert (node["reason"], node["best"]) == (None, False)


def test_the_events_of_some_nodes_tell_the_same_texts_as_those_of_all() -> None:
    log = [
        event("code_generated", 1, stage="A", node="A/1", code="old"),
        event("code_generated", 2, stage="A", node="A/2", code="older"),
        event("code_generated", 1, 2, stage="A", node="A/1", code="new"),
        event("code_generated", 2, 2, stage="A", node="A/3", code="third"),
    ]
    whole = {node["id"]: node["code"] for node in nodes(log)}
    assert whole == {"A/1": "new", "A/3": "third"}
    for name, code in whole.items():
        (node,) = nodes(each for each in log if each["data"]["node"] == name)
        assert node["code"] == code
