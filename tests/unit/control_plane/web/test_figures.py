"""Where a page shows what a run made."""

from __future__ import annotations

from control_plane.web.figures import figures, papers

NODES = [{"id": "Stage_1/1"}, {"id": "Stage_1/12"}, {"id": "Stage_2/1"}]


def made(*names: str) -> list[dict[str, str]]:
    types = {"png": "image/png", "pdf": "application/pdf", "svg": "image/svg+xml", "csv": "text/csv"}
    return [{"name": name, "contentType": types[name.rpartition(".")[2]]} for name in names]


def names(artifacts: object) -> list[str]:
    assert isinstance(artifacts, list)
    return [each["name"] for each in artifacts]


def test_a_picture_in_print_is_no_paper() -> None:
    artifacts = made("paper/paper.pdf", "plots/nodes.pdf", "plots/nodes.png", "plots/stages/Stage_1.pdf")
    assert names(papers(artifacts)) == ["paper/paper.pdf", "plots/stages/Stage_1.pdf"]


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
