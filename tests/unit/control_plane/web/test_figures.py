"""Where a page shows what a run made."""

from __future__ import annotations

import time

from control_plane.model.views.document_mapping import from_document
from control_plane.server.web.drawing.figures import figures, papers
from events.answers.artifacts import Artifact

NODES = [{"id": "Stage_1/1"}, {"id": "Stage_1/12"}, {"id": "Stage_2/1"}]


def made(*names: str) -> list[Artifact]:
    types = {"png": "image/png", "pdf": "application/pdf", "svg": "image/svg+xml", "csv": "text/csv"}
    return [
        from_document(Artifact, {"name": name, "contentType": types[name.rpartition(".")[2]]})
        for name in names
    ]


def names(artifacts: object) -> list[str]:
    assert isinstance(artifacts, list)
    return [each.name for each in artifacts]


def test_a_picture_in_print_is_no_paper() -> None:
    artifacts = made("paper/paper.pdf", "plots/nodes.pdf", "plots/nodes.png", "plots/stages/Stage_1.pdf")
    assert names(papers(artifacts)) == ["paper/paper.pdf", "plots/stages/Stage_1.pdf"]


def test_a_path_may_write_the_number_of_a_node_in_several_ways() -> None:
    pictures = made("Stage_1/1.png", "a/stage_1_01.png", "Stage_1-1b.png", "Stage_1-13.png", "xStage_1-1.png")
    assert {node: len(each) for node, each in figures(pictures, NODES).nodes.items()} == {"Stage_1/1": 3}
    found = figures(made("a.png"), [{"id": "/"}, {"id": "items"}])
    assert (names(found.whole), dict(found.nodes), dict(found.stages)) == (["a.png"], {}, {})


def test_many_pictures_of_many_nodes_take_no_product_of_both() -> None:
    nodes = [{"id": f"{'a_' * 15}{number}"} for number in range(400)]
    pictures = made(*(f"{'a_' * 90}x{number}.png" for number in range(300)))
    begun_s = time.process_time()
    assert len(figures(pictures, nodes).whole) == 300
    assert time.process_time() - begun_s < 0.8


def test_each_picture_stands_with_what_it_shows() -> None:
    found = figures(
        made("plots/comparison.png", "plots/stages/Stage_2.png", "plots/nodes/Stage_1-12.png", "plots/a.svg"),
        NODES,
    )
    assert names(found.whole) == ["plots/comparison.png"]
    assert names(found.stages["Stage_2"]) == ["plots/stages/Stage_2.png"]
    assert {node: names(each) for node, each in found.nodes.items()} == {
        "Stage_1/12": ["plots/nodes/Stage_1-12.png"]
    }
