"""The charts of groups: what they draw of the members, evenly and with the best, and nothing as markup."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.members import Trial
from control_plane.model.groups.plan import plan_of
from control_plane.model.groups.study import study_of
from control_plane.reads.groups import Curves, Measured, evenly
from control_plane.reads.studies import StudyView
from control_plane.server.web.drawing.parallel import OTHERS, Layer, parallel_picture, track
from control_plane.server.web.pages.groups.charts import (
    LINES_MAX,
    best_so_far,
    chosen_rows,
    curve_figure,
    history,
    parallel,
)
from control_plane.server.web.pages.groups.study_charts import study_figures

HOSTILE = '"><script>alert(1)</script>'
MATRIX = plan_of({"kind": "matrix", "values": {"x": [1, 2], "mode": ["a", HOSTILE]}, "parallel": 1})
STUDY = plan_of({
    "kind": "study", "sampler": "random", "goal": "min:loss", "max_runs": 8, "parallel": 1, "repeats": 2,
    "space": {"lr": {"type": "log", "low": 0.1, "high": 1}}, "baseline": {"lr": 0.5},
})  # fmt: skip
GOAL = Goal("loss", is_lower_better=True)


def member(slot: int, value: float | None = None, **more: Any) -> Measured:
    return Measured(**{"slot": slot, "run_id": f"r{slot}", "status": "COMPLETED", "has_begun": True,
                       "value": value, **more})  # fmt: skip


def drawn(svg: str) -> ElementTree.Element:
    """Return a picture, which has to be well-formed XML without styles or scripts."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    for element in root.iter():
        assert element.tag in {"svg", "title", "desc", "path", "text", "circle"}
        assert not {"style", "onload", "href"} & set(element.attrib)
    return root


def test_the_best_so_far_is_a_step_where_a_better_one_ended() -> None:
    values = [(3, 5.0), (4, 7.0), (6, 2.0), (9, 4.0)]
    assert best_so_far(values, is_lower_better=True) == [(3.0, 5.0), (6.0, 5.0), (6.0, 2.0), (9.0, 2.0)]
    assert best_so_far(values, is_lower_better=False)[1:] == [(4.0, 5.0), (4.0, 7.0), (9.0, 7.0)]
    assert best_so_far([], is_lower_better=True) == []


def test_the_history_of_a_study_marks_what_its_baseline_measured() -> None:
    members = [member(10, 4.0), member(11, 2.0), member(12, 1.0), member(13)]
    found = history(members, GOAL, STUDY, 10)
    assert found is not None
    assert found.names == ["loss", "best so far", "baseline"]
    assert [row.values[2] for row in found.rows] == ["3", "", "3"], "the mean of both repeats, at both ends"
    assert [row.values[1] for row in found.rows] == ["4", "2", "1"]
    without = history(members, GOAL, MATRIX, 10)
    assert without is not None
    assert without.names == ["loss", "best so far"]
    assert history([member(1), member(2)], GOAL, STUDY, 1) is None


def test_of_many_members_some_are_drawn_evenly_and_the_best_always() -> None:
    members = [member(slot, 1.0 if slot == 4_321 else 5.0 + slot) for slot in range(10_000)]
    rows = chosen_rows(members, GOAL)
    assert len(rows) == LINES_MAX
    assert 4_321 in {each.slot for each in rows}
    assert [each.slot for each in rows] == sorted({each.slot for each in rows})
    assert rows[-1].slot == 9_999
    assert len(chosen_rows(members, None)) == LINES_MAX
    assert evenly([1, 2, 3], 5) == [1, 2, 3]


def test_parallel_coordinates_tell_the_best_apart_and_escape_every_name() -> None:
    members = [member(slot, float(slot)) for slot in range(19)] + [member(19, None, status="FAILED")]
    values = [{"x": slot, "mode": HOSTILE} for slot in range(20)]
    found = parallel(members, values, GOAL, MATRIX, 20)
    assert found is not None
    root = drawn(str(found.picture))
    assert [(each.look, len(each.rows)) for each in found.layers] == [("none", 1), ("rest", 18), ("best", 1)]
    lines = "1 without a loss that counts, 18 others, 1 the lowest loss"
    assert f"Axes: x, mode, loss. Lines: {lines}." in root[1].text  # type: ignore[operator] # a description has text
    assert [each.slot for each, _ in found.best] == list(range(19))
    one = {each.attrib["class"]: each.attrib["d"] for each in root.iter("path")}["row best"]
    assert one.count("M") == 1
    assert one.count("L") == 2
    statuses = parallel(members, values, None, MATRIX, 20)
    assert statuses is not None
    assert "failed" in [each.text for each in drawn(str(statuses.picture)).iter("text")]
    assert parallel([], [], GOAL, MATRIX, 0) is None


def test_an_axis_is_of_numbers_by_size_or_logarithm_else_of_categories() -> None:
    assert track("x", [0, 5, None, 10]).places == [0.0, 0.5, None, 1.0]
    logarithmic = track("x", [0.001, 1, 1000])
    assert logarithmic.is_log
    assert logarithmic.places[1] == pytest.approx(0.5)
    assert not track("x", [-1.0, 1000.0], is_log=True).is_log, "what has no logarithm decides"
    mixed = track("x", ["b", True, 2, None])
    assert [text for _, text in mixed.ticks] == ["true", "2", "b"]
    assert mixed.places == [1.0, 0.0, 0.5, None]
    many = track("x", [f"v{number:02}" for number in range(40)])
    assert (len(many.ticks), many.ticks[-1][1], many.places[-1]) == (13, OTHERS, 1.0)


TEXTS = st.text('ab<&"é', max_size=20)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(st.integers(), max_size=2)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=20) | st.lists(st.integers() | st.floats(), max_size=20))
def test_whatever_a_parameter_is_it_has_a_place_or_none(values: list[Any]) -> None:
    found = track(HOSTILE, values)
    assert all(each is None or -1e-9 <= each <= 1 + 1e-9 for each in found.places)
    assert len(found.places) == len(values)
    layers = [Layer("rest", "all", range(len(values)))]
    assert drawn(str(parallel_picture("T", "D", [found, found], layers))).attrib["role"] == "img"


def test_curves_lie_in_one_chart_and_a_member_without_any_has_no_line() -> None:
    points = [[(0.0, 1.0), (1.0, 0.5)], [], [(0.0, 2.0)]]
    curves = Curves([HOSTILE], HOSTILE, 3, [member(1), member(2), member(3)], points)
    found = curve_figure(curves, is_log=True)
    assert found is not None
    assert (found.title, found.names) == (HOSTILE, ["slot 1", "slot 3"])
    assert len(list(drawn(str(found.picture)).iter("desc"))) == 1
    assert curve_figure(Curves([], None, 0, (), ()), is_log=False) is None


def view_of(goal: Any, *runs: tuple[float, float, float | None]) -> StudyView:
    """Return a study whose slots had these x, and measured these numbers."""
    study = study_of({
        "sampler": "random", "goal": goal, "max_runs": 50, "parallel": 1, "baseline": {"x": 0.0},
        "space": {"x": {"type": "uniform", "low": 1.0, "high": 9.0}},
    })  # fmt: skip
    trials = [Trial(slot, {"x": x}, True, one, second=two) for slot, (x, one, two) in enumerate(runs)]
    outcomes = study.outcomes(trials)
    return StudyView(study, outcomes, study.best(trials), outcomes[0], is_confirming=False)


def test_a_study_draws_the_interval_of_what_ran_again_and_nothing_where_nothing_did() -> None:
    once = view_of("min:loss", (0.0, 5.0, None), (1.0, 4.0, None))
    assert study_figures(once) == []
    more = view_of("min:loss", (0.0, 5.0, None), (1.0, 4.0, None), (0.0, 5.2, None), (2.0, 3.0, None))
    (figure,) = study_figures(more)
    assert figure.names == ["loss", "95 % interval", "baseline", "best"]
    assert [row.values[3] for row in figure.rows] == ["", "", "3"]
    assert [row.values[1] != "" for row in figure.rows] == [True, False, False]
    drawn(str(figure.picture))


def test_two_goals_are_drawn_against_each_other_with_their_front() -> None:
    found = view_of(
        ["min:loss", "max:speed"], (0.0, 5.0, 1.0), (1.0, 4.0, 9.0), (2.0, 6.0, 10.0), (3.0, 7.0, 2.0)
    )
    (figure,) = study_figures(found)
    assert figure.title == "speed (higher is better) against loss (lower is better)"
    assert figure.names == ["trials", "Pareto front", "baseline"]
    assert [row.values[1] for row in figure.rows] == ["9", "", "10", ""]
    drawn(str(figure.picture))
