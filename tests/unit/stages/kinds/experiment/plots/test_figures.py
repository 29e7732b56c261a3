"""Every figure: its three forms, the rows that drew it, and that it shows what was measured."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pypdf
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from stages.kinds.experiment.plots import canvas, nodes, overview, stages
from stages.kinds.experiment.plots.canvas import kept, label_of, short_id
from stages.kinds.experiment.plots.drawing import draw_all, pictures_at_most
from stages.kinds.experiment.plots.nodes import draw_node
from stages.kinds.experiment.plots.overview import (
    CONDITIONS_MAX,
    draw_ablation,
    draw_comparison,
    draw_learning_curves,
    draw_nodes,
)
from stages.kinds.experiment.plots.picture import Picture
from stages.kinds.experiment.plots.search_tree import draw_tree
from stages.kinds.experiment.plots.stages import NODES_MAX, draw_finalists, draw_stage
from stages.kinds.experiment.record.ablations import ablations_of
from stages.kinds.experiment.record.record import Record, StageRecord, Verdicts
from stages.kinds.experiment.statistics.validation import Pair, judge
from stages.kinds.experiment.testing import HOSTILE, make_record

SVG = "{http://www.w3.org/2000/svg}"
RECORD = make_record(sizes=(1, 3, 2, 3), units=4, seed=5, buggy_share=0.5)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    """Every figure of one run."""
    return list(draw_all(RECORD, tmp_path_factory.mktemp("plots")))


def rows_of(picture: Picture) -> list[dict[str, str]]:
    with picture.table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def words_of(picture: Picture) -> list[str]:
    """Return every text of a figure, as its SVG holds it."""
    svg = next(path for path in picture.images if path.suffix == ".svg")
    return ["".join(each.itertext()).strip() for each in ElementTree.parse(svg).iter(f"{SVG}text")]  # noqa: S314


def drawn_stage(record: Record, stage: StageRecord, folder: Path) -> Picture:
    """Return the figure of a stage in which something was tried."""
    picture = draw_stage(record, stage, folder)
    assert picture is not None
    return picture


def by_name(pictures: list[Picture], name: str) -> Picture:
    return next(each for each in pictures if each.name == name)


def test_a_run_has_a_figure_for_the_whole_for_each_stage_and_for_each_node(drawn: list[Picture]) -> None:
    names = [each.name for each in drawn]
    whole = ["comparison", "learning_curves", "nodes", "finalists", "search_tree", "ablation"]
    stages = [f"stages/{stage.name}" for stage in RECORD.stages]
    nodes = [f"nodes/{node.id.replace('/', '-')}" for stage in RECORD.stages for node in stage.nodes]
    assert names == [*whole, *stages, *nodes]
    assert len(names) == pictures_at_most(RECORD)


def test_each_figure_has_three_forms_and_the_data_that_drew_it(drawn: list[Picture]) -> None:
    for picture in drawn:
        assert [path.suffix for path in picture.files] == [".png", ".svg", ".pdf", ".csv"]
        png, svg, pdf, _ = picture.files
        assert png.read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(svg).getroot().tag == f"{SVG}svg"  # noqa: S314
        assert len(pypdf.PdfReader(pdf).pages) == 1
        assert rows_of(picture), picture.name


@pytest.mark.slow("every figure is painted twice, in three forms")
def test_the_same_record_gives_the_same_bytes(drawn: list[Picture], tmp_path: Path) -> None:
    again = (
        draw_comparison(RECORD, tmp_path),
        draw_tree(RECORD, tmp_path),
        drawn_stage(RECORD, RECORD.stages[1], tmp_path),
        draw_node(RECORD, RECORD.stages[1], 1, tmp_path),
    )
    for picture in again:
        for one, other in zip(picture.files, by_name(drawn, picture.name).files, strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name


# --- the rows are what is drawn -----------------------------------------------------------------------


class Seen:
    """Watches which figure is kept, to compare its marks with its rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        self.figure: Figure | None = None

        def keep(figure: Figure, *arguments: Any) -> Picture:
            self.figure = figure
            return kept(figure, *arguments)

        monkeypatch.setattr(module, "kept", keep)

    def marks(self, panel: int = 0) -> set[tuple[float, float]]:
        """Return where one panel has a mark, without those of the legend."""
        assert self.figure is not None
        axes = self.figure.axes[panel]
        clouds = [each for each in axes.collections if isinstance(each, PathCollection)]
        places = [place for each in clouds for place in each.get_offsets()]
        return {(round(float(x), 9), round(float(y), 9)) for x, y in places}

    def lines(self, panel: int = 0) -> list[list[tuple[float, float]]]:
        assert self.figure is not None
        return [
            [(float(x), float(y)) for x, y in line.get_xydata()] for line in self.figure.axes[panel].lines
        ]

    def bars(self, panel: int = 0) -> list[tuple[float, float]]:
        """Return the ends of each error bar, along the axis of values."""
        assert self.figure is not None
        found = []
        for container in self.figure.axes[panel].containers:
            for collection in container.lines[2]:
                for segment in collection.get_segments():
                    (x1, y1), (x2, y2) = segment
                    found.append((float(x1), float(x2)) if y1 == y2 else (float(y1), float(y2)))
        return found


def test_the_nodes_figure_draws_its_rows(sketches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch, overview)
    rows = rows_of(draw_nodes(RECORD, sketches))
    assert [row["node"] for row in rows] == [node.id for stage in RECORD.stages for node in stage.nodes]
    good = {(float(row["place"]), round(float(row["metric"]), 9)) for row in rows if row["metric"]}
    buggy = {(float(row["place"]), 0.02) for row in rows if not row["metric"]}
    assert buggy
    assert seen.marks() == good | buggy
    assert [row["node"] for row in rows if row["chosen"] == "True"] == [
        stage.best.id for stage in RECORD.stages if stage.best in stage.nodes
    ]


def test_the_comparison_draws_every_seed_the_mean_and_its_interval(
    sketches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch, overview)
    rows = rows_of(draw_comparison(RECORD, sketches))
    pairs = RECORD.verdicts.judgement.pairs
    assert [int(row["seed"]) for row in rows] == [pair.seed for pair in pairs]
    assert [float(row["difference"]) for row in rows] == [pair.difference for pair in pairs]
    both = {(0.0, round(float(row["baseline"]), 9)) for row in rows}
    assert seen.marks() == both | {(1.0, round(float(row["intervention"]), 9)) for row in rows}
    assert sorted(x for x, _ in seen.marks(1)) == sorted(round(float(row["difference"]), 9) for row in rows)
    interval = RECORD.verdicts.judgement.interval
    assert interval is not None
    assert seen.bars(1) == [pytest.approx((interval.low, interval.high))]


def test_a_lost_seed_is_in_the_rows_and_has_no_difference(sketches: Path) -> None:
    rows = rows_of(draw_comparison(make_record(lost=2), sketches))
    assert [(row["intervention"], row["difference"]) for row in rows[:2]] == [("", ""), ("", "")]
    assert all(row["difference"] for row in rows[2:])


def test_a_comparison_of_which_nothing_was_measured_says_so(sketches: Path) -> None:
    pairs = [Pair(seed, None, None) for seed in (1, 2, 3)]
    record = replace(RECORD, verdicts=Verdicts((judge(pairs, RECORD.verdicts.judgement.plan),), {}))
    assert "nothing could be measured" in words_of(draw_comparison(record, sketches))


@pytest.mark.parametrize("name", ["Stage_1", "Stage_2", "Stage_3", "Stage_4"])
def test_a_stage_is_drawn_with_an_error_bar_for_each_finalist(
    name: str, sketches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch, stages)
    stage = RECORD.stage(name)
    picture = drawn_stage(RECORD, stage, sketches)
    wanted = [
        (each.mean - (each.standard_error or 0), each.mean + (each.standard_error or 0))
        for each in stage.finalists
    ]
    assert seen.bars() == [pytest.approx(each) for each in wanted]
    assert len(wanted) >= 1
    values = {round(value, 9) for each in stage.finalists for value in each.values}
    assert {x for x, _ in seen.marks()} == values
    rows = rows_of(picture)
    assert {round(float(row["value"]), 9) for row in rows} == values
    assert {row["node"] for row in rows} == {each.node for each in stage.finalists}
    assert {row["node"] for row in rows if row["chosen"] == "True"} == {stage.best.id}
    assert "mean and standard error" in words_of(picture)


def test_the_finalists_of_all_stages_have_error_bars(sketches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch, stages)
    picture = draw_finalists(RECORD, sketches)
    assert picture is not None
    every = [each for stage in RECORD.stages for each in stage.finalists]
    wanted = [(e.mean - (e.standard_error or 0), e.mean + (e.standard_error or 0)) for e in every]
    assert seen.bars() == [pytest.approx(each) for each in wanted]
    assert len(rows_of(picture)) == sum(len(each.values) for each in every)


def test_a_finalist_of_one_seed_has_no_error_bar(sketches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = RECORD.stages[0]
    single = replace(stage.finalists[0], seeds=(11,), values=(0.9,), mean=0.9, standard_error=None)
    record = replace(RECORD, stages=(replace(stage, finalists=(single,)), *RECORD.stages[1:]))
    seen = Seen(monkeypatch, stages)
    drawn_stage(record, record.stages[0], sketches)
    assert seen.bars() == []


def test_a_stage_without_finalists_shows_its_nodes_and_claims_no_error_bars(sketches: Path) -> None:
    record = make_record(sizes=(2, 6, 2, 3), finalists=0, buggy_share=0.5)
    picture = drawn_stage(record, record.stage("Stage_2"), sketches)
    rows = rows_of(picture)
    assert [row["node"] for row in rows] == [node.id for node in record.stage("Stage_2").nodes]
    assert "without error bars" in picture.caption
    assert "×  buggy" in words_of(picture)
    assert draw_finalists(record, sketches) is None


def test_a_stage_in_which_nothing_was_tried_has_no_figure(tmp_path: Path) -> None:
    """Such as one for which nobody had a proposal: it hands on the node that it was given."""
    empty = replace(RECORD.stage("Stage_4"), nodes=(), best=RECORD.stage("Stage_3").best, finalists=())
    record = replace(RECORD, stages=(*RECORD.stages[:3], empty))
    assert draw_stage(record, empty, tmp_path) is None


def test_a_stage_of_many_nodes_shows_the_best_and_its_rows_are_those(sketches: Path) -> None:
    record = make_record(sizes=(2, NODES_MAX + 30, 2, 3), finalists=0)
    stage = record.stage("Stage_2")
    rows = rows_of(drawn_stage(record, stage, sketches))
    assert len(rows) == NODES_MAX
    shown = {row["node"] for row in rows}
    left_out = [node.metric for node in stage.nodes if node.id not in shown and node.metric is not None]
    kept_values = [float(row["value"]) for row in rows]
    assert max(left_out) <= min(kept_values)


def test_both_learning_curves_are_drawn_from_their_rows(
    sketches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch, overview)
    picture = draw_learning_curves(RECORD, sketches)
    assert picture is not None
    rows = rows_of(picture)
    for panel, column in enumerate(("train_loss", "validation_loss")):
        for line, arm in zip(seen.lines(panel), ("baseline", "intervention"), strict=True):
            assert line == [(float(r["epoch"]), float(r[column])) for r in rows if r["arm"] == arm]
    assert not any("mathdefault" in word for word in words_of(picture))


def test_without_curves_there_is_no_figure_of_them(sketches: Path) -> None:
    record = make_record(curves=False)
    assert draw_learning_curves(record, sketches) is None
    assert list(sketches.iterdir()) == []


def test_the_ablations_are_drawn_from_their_rows(sketches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch, overview)
    record = make_record(sizes=(2, 2, 2, 9))
    picture = draw_ablation(record, sketches)
    assert picture is not None
    rows = rows_of(picture)
    marks = {
        (round(float(row[column]), 9), float(place))
        for place, row in enumerate(rows)
        for column in ("without", "with")
        if row[column]
    }
    assert seen.marks() == marks
    tried = {each.condition for each in ablations_of(record)}
    assert {row["condition"] for row in rows} <= tried
    assert "without the intervention" in words_of(picture)


def test_many_ablations_stay_on_a_page_and_the_caption_says_that_there_are_more(sketches: Path) -> None:
    picture = draw_ablation(make_record(sizes=(1, 1, 1, 120), buggy_share=0.0), sketches)
    assert picture is not None
    assert len(rows_of(picture)) == CONDITIONS_MAX
    assert "Further conditions are in the table" in picture.caption


def test_one_condition_alone_is_no_figure(sketches: Path) -> None:
    assert draw_ablation(make_record(sizes=(1, 1, 1, 1)), sketches) is None


# --- nodes --------------------------------------------------------------------------------------------


def place_of(record: Record, stage: str, *, buggy: bool, curve: bool = False) -> int:
    known = {each.node for each in record.stage(stage).curves}
    return next(
        place
        for place, node in enumerate(record.stage(stage).nodes, start=1)
        if node.buggy == buggy and (buggy or not curve or node.id in known)
    )


def test_a_good_node_shows_its_curve_its_scores_and_its_place_among_the_others(
    sketches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch, nodes)
    record = make_record(sizes=(2, 6, 2, 3))
    stage = record.stage("Stage_2")
    place = place_of(record, "Stage_2", buggy=False, curve=True)
    node = stage.nodes[place - 1]
    picture = draw_node(record, stage, place, sketches)
    rows = rows_of(picture)
    assert seen.lines()[1] == [
        (float(r["step"]), float(r["value"]))
        for r in rows
        if (r["kind"], r["name"]) == ("curve", "validation_loss")
    ]
    beside = [round(float(r["value"]), 9) for r in rows if r["kind"] == "metric" or "/" in r["kind"]]
    assert {x for x, _ in seen.marks(1)} == set(beside)
    assert {r["kind"] for r in rows if "/" in r["kind"]} == {
        each.id for each in stage.nodes if not each.buggy and each.id != node.id
    }
    assert any(word.startswith(f"{node.id}: try width") for word in words_of(picture))


def test_a_buggy_node_has_a_figure_that_says_why(sketches: Path) -> None:
    record = make_record(sizes=(2, 6, 2, 3), buggy_share=0.6)
    place = place_of(record, "Stage_2", buggy=True)
    picture = draw_node(record, record.stage("Stage_2"), place, sketches)
    words = " ".join(words_of(picture))
    assert "buggy:" in words
    assert "ValueError: the loss is not a number" in words
    assert [(row["kind"], row["value"]) for row in rows_of(picture)] == [
        ("error", "ValueError: the loss is not a number (epoch 3)")
    ]
    assert picture.caption.endswith("why it failed.")


def test_a_long_error_is_wrapped_within_the_figure(sketches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch, nodes)
    record = make_record(sizes=(2, 6, 2, 3), buggy_share=0.6, text="W" * 3_000)
    draw_node(record, record.stage("Stage_2"), place_of(record, "Stage_2", buggy=True), sketches)
    assert seen.figure is not None
    (axes,) = seen.figure.axes
    box = axes.texts[0].get_window_extent()
    assert box.x1 <= seen.figure.bbox.x1
    assert seen.figure.bbox.y0 <= box.y0 < box.y1 <= seen.figure.bbox.y1


# --- no figure of nothing, and none that words can spoil ----------------------------------------------


def test_no_figure_is_kept_that_shows_nothing(tmp_path: Path) -> None:
    table = (("a",), [("1",)])
    empty = Figure()
    empty.subplots()
    with pytest.raises(AssertionError, match="empty axes"):
        kept(empty, tmp_path, "empty", table, "Nothing.")
    blank = Figure()
    blank.subplots().plot([1.0, 2.0], [math.nan, math.inf])
    with pytest.raises(AssertionError, match="empty axes"):
        kept(blank, tmp_path, "blank", table, "Nothing.")
    full = Figure()
    full.subplots().plot([1.0], [1.0])
    with pytest.raises(AssertionError, match="has no data"):
        kept(full, tmp_path, "full", (("a",), []), "Nothing.")
    assert list(tmp_path.iterdir()) == []


def test_no_word_of_others_spoils_a_figure(tmp_path: Path) -> None:
    """Warnings are errors here: a sign without a glyph, or a formula in a name, would be one."""
    record = make_record(sizes=(1, 2, 1, 4), text=HOSTILE, buggy_share=0.5, units=3, finalists=1)
    buggy = place_of(record, "Stage_4", buggy=True)
    pictures = [
        draw_ablation(record, tmp_path),
        draw_node(record, record.stages[0], 1, tmp_path),
        draw_node(record, record.stages[3], buggy, tmp_path),
    ]
    for picture in pictures:
        assert picture is not None
        assert any(r"\input{/etc/passwd}" in word for word in words_of(picture)), picture.name
        svg = picture.images[1].read_text()
        assert "<script" not in svg
        assert not re.search(r"[\x00-\x08\x1b]", svg)
        assert (
            any(HOSTILE in value for row in rows_of(picture) for value in row.values())
            or "1-1" in picture.name
        )


def test_a_label_is_one_bounded_line_of_signs_that_its_font_has() -> None:
    assert label_of("a\nb\tc  d") == "a b c d"
    assert label_of("x" * 90) == "x" * 39 + "…"
    assert label_of("中文 \U0001f680 ok") == "□□ □ ok"
    assert short_id("Stage_2/13") == "2.13"


def test_the_scale_of_losses_is_logarithmic_only_where_that_can_be_read() -> None:
    for values, scale in (
        ([0.1, 2.0], "log"),
        ([1.0, 1.1], "linear"),
        ([0.0, 9.0], "linear"),
        ([], "linear"),
    ):
        axes = Figure().subplots()
        axes.plot(values)
        canvas.log_where_positive(axes, values)
        assert axes.get_yscale() == scale


def test_no_cell_beside_a_figure_is_a_formula(tmp_path: Path) -> None:
    figure = Figure()
    figure.subplots().plot([1, 2])
    picture = kept(figure, tmp_path, "x", (("=a", "b"), [("=1+1", -1.5)]), "x")
    assert picture.files[-1].read_text().split() == ["'=a,b", "'=1+1,-1.5"]
