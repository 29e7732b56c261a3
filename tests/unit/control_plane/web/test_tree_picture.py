"""A search tree as a picture: every node once, children to the right of their parents."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control_plane.kinds.experiment.picture import NODES_MAX, tree_picture


def node(number: int, stage: int = 1, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"Stage_{stage}/{number}",
        "stage": f"Stage_{stage}",
        "parent": parent,
        "status": "good",
        "metric": 0.5,
        "metricName": "accuracy",
        "plan": "try it",
        "best": False,
        "bestOf": None,
        **more,
    }


def test_no_nodes_no_picture() -> None:
    assert tree_picture([]) is None


def test_stages_stand_beside_each_other_and_the_best_has_its_star() -> None:
    picture = tree_picture(
        [
            node(1),
            node(2, parent="Stage_1/1", best=True),
            node(1, 2, parent="Stage_1/2"),
            node(2, 2, parent="Stage_1/2", status="buggy", metric=None),
        ]
    )
    assert picture is not None
    xs = {each.id: each.x for each in picture.circles}
    assert xs["Stage_1/1"] < xs["Stage_1/2"] < xs["Stage_2/1"] == xs["Stage_2/2"]
    assert [name for name, _ in picture.stages] == ["Stage_1", "Stage_2"]
    assert [each.sign for each in picture.circles] == ["", "★", "", "✗"]
    assert picture.circles[3].label == ""
    assert picture.circles[1].title == "Stage_1/2, good, accuracy 0.5: try it"
    assert len(picture.edges) == 3


def test_what_is_too_much_is_left_out_and_counted() -> None:
    picture = tree_picture([node(number) for number in range(NODES_MAX + 7)])
    assert picture is not None
    assert (len(picture.circles), picture.left_out) == (NODES_MAX, 7)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), min_size=1, max_size=30))
def test_every_node_has_a_place_of_its_own_inside_the_picture(shape: list[tuple[int, int]]) -> None:
    nodes: list[dict[str, Any]] = []
    for number, (stage, parent) in enumerate(sorted(shape)):
        of = nodes[parent % len(nodes)]["id"] if nodes and parent % 3 else None
        nodes.append(node(number, stage, of))
    picture = tree_picture(nodes)
    assert picture is not None
    places = {(each.x, each.y) for each in picture.circles}
    assert len(places) == len(nodes)
    assert all(0 < x < picture.width and 0 < y < picture.height for x, y in places)
    assert all(edge.x1 < edge.x2 for edge in picture.edges)
