"""The picture of the search tree: every node, below the one it was made from, readable while it can be."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.plots.search_tree import HEIGHT_MAX_IN, WIDTH_IN, draw_tree, layout
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.testing import make_node, make_record

SVG = "{http://www.w3.org/2000/svg}"
POINTS_PER_IN = 72


def all_nodes(record: Record) -> list[str]:
    return [node.id for stage in record.stages for node in stage.nodes]


def parts_of(picture: Picture) -> tuple[set[str], list[str]]:
    """Return the ids of the marks, and the labels, that the SVG holds."""
    root = ElementTree.parse(picture.images[1]).getroot()  # noqa: S314
    ids = {each.get("id", "") for each in root.iter(f"{SVG}g")}
    return ids, ["".join(each.itertext()).strip() for each in root.iter(f"{SVG}text")]


def rows_of(picture: Picture) -> dict[str, dict[str, str]]:
    with picture.table.open(newline="", encoding="utf-8") as file:
        return {row["node"]: row for row in csv.DictReader(file)}


SHAPES: dict[str, dict[str, Any]] = {
    "usual": {}, "smallest": {"sizes": (1, 1, 1, 1)}, "default": {"sizes": (20, 12, 12, 18)},
    "buggy": {"sizes": (3, 4, 4, 4), "buggy_share": 0.9}, "crowded": {"sizes": (3, 30, 3, 55)},
}  # fmt: skip


@pytest.fixture(scope="module", params=SHAPES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, Picture]:
    record = make_record(**SHAPES[request.param])
    return record, draw_tree(record, tmp_path_factory.mktemp("tree"))


def test_the_picture_holds_every_node(drawn: tuple[Record, Picture]) -> None:
    record, picture = drawn
    marks, labels = parts_of(picture)
    nodes = all_nodes(record)
    assert set(nodes) <= marks
    rows = rows_of(picture)
    assert list(rows) == nodes
    assert {name for name, row in rows.items() if row["buggy"] == "True"} == {
        node.id for stage in record.stages for node in stage.nodes if node.buggy
    }
    assert [name for name, row in rows.items() if row["chosen"] == "True"] == [
        stage.best.id for stage in record.stages if stage.best in stage.nodes
    ]
    if len(nodes) <= 62:
        assert {name.removeprefix("Stage_").replace("/", ".") for name in nodes} <= set(labels)
        assert "Labels: stage and number." in picture.caption
    else:
        assert "search_tree.csv names them" in picture.caption


def test_the_picture_fits_a_page_and_no_two_nodes_overlap(drawn: tuple[Record, Picture]) -> None:
    _, picture = drawn
    page = pypdf.PdfReader(picture.images[2]).pages[0].mediabox
    assert float(page.width) <= WIDTH_IN * POINTS_PER_IN + 1
    assert float(page.height) <= (HEIGHT_MAX_IN + 0.5) * POINTS_PER_IN + 1
    rows = rows_of(picture)
    places = {(float(row["x"]), float(row["y"])) for row in rows.values()}
    assert len(places) == len(rows)
    for height in {y for _, y in places}:
        side_by_side = sorted(x for x, y in places if y == height)
        assert all(right - left >= 0.99 for left, right in pairwise(side_by_side))


def test_a_node_stands_below_its_parent_and_a_stage_below_the_one_before(sketches: Path) -> None:
    record = make_record(sizes=(3, 8, 8, 5))
    rows = rows_of(draw_tree(record, sketches))
    for row in rows.values():
        if row["parent"]:
            assert float(row["y"]) < float(rows[row["parent"]]["y"])
    lowest = [min(float(r["y"]) for r in rows.values() if r["stage"] == s.name) for s in record.stages]
    highest = [max(float(r["y"]) for r in rows.values() if r["stage"] == s.name) for s in record.stages]
    assert all(low > high for low, high in zip(lowest, highest[1:], strict=False))


@pytest.mark.parametrize("number", [1, 3])
def test_a_stage_in_which_nothing_was_tried_leaves_no_mark(sketches: Path, number: int) -> None:
    whole = make_record()
    stages = list(whole.stages)
    stages[number] = replace(stages[number], nodes=(), best=stages[number - 1].best)
    rest = [stage for stage in stages if stage.nodes]
    picture = draw_tree(replace(whole, stages=tuple(stages)), sketches)
    assert list(rows_of(picture)) == [node.id for stage in rest for node in stage.nodes]


def test_a_chain_of_a_thousand_repairs_is_laid_out() -> None:
    chain = [
        make_node("Stage_2", n, 0.9, parent=f"Stage_2/{n - 1}" if n > 1 else None) for n in range(1, 1_001)
    ]
    spots = layout(chain)
    assert [spots[node.id] for node in chain] == [(0.0, depth) for depth in range(1_000)]


@given(parents=st.lists(st.integers(0, 30), max_size=40))
def test_every_forest_is_laid_out_without_overlap_and_parents_above_their_children(
    parents: list[int],
) -> None:
    nodes = [
        make_node("S", n, 0.5, parent=f"S/{above}" if above < n else None) for n, above in enumerate(parents)
    ]
    spots = layout(nodes)
    assert set(spots) == {node.id for node in nodes}
    assert len(set(spots.values())) == len(nodes)
    for node in nodes:
        if node.parent is not None:
            assert spots[node.id][1] == spots[node.parent][1] + 1
    for depth in {depth for _, depth in spots.values()}:
        row = sorted(x for x, each in spots.values() if each == depth)
        assert all(right - left >= 1 for left, right in pairwise(row))
