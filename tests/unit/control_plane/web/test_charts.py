"""Charts: where things stand, what is left out, and that nothing of a name is ever markup."""

from __future__ import annotations

import math
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.server.web.drawing.chart_figure import chart_figure
from control_plane.server.web.drawing.charts import (
    Axis,
    Band,
    Chart,
    Line,
    Point,
    described,
    line_chart,
    log_ticks,
    look,
    round_ticks,
    smoothed,
    stretches,
    swatch,
    thinned,
    time_ticks,
)

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> ElementTree.Element:
    """Return the chart, which has to be well-formed XML without styles or scripts."""
    svg = str(line_chart(chart))
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    for element in root.iter():
        assert element.tag in {"svg", "title", "desc", "path", "text", "circle"}
        assert not {"style", "onload", "href"} & set(element.attrib)
    return root


def line(*values: float | None, name: str = "loss") -> Line:
    return Line(name=name, points=list(enumerate(values)))


def paths(root: ElementTree.Element, kind: str) -> list[str]:
    return [each.attrib["d"] for each in root.iter("path") if each.attrib["class"].startswith(kind)]


def test_a_line_goes_from_the_lower_left_to_the_upper_right() -> None:
    (path,) = paths(drawn(Chart(title="Loss", lines=[line(0, 1, 2)], low=0, high=2)), "line")
    assert path == "M52 146L216 78L380 10"


def test_a_chart_says_in_words_what_it_shows() -> None:
    chart = Chart(title="CPU", lines=[line(0.5, 0.25, None, 0.75, name="pod")], unit="%")
    root = drawn(chart)
    assert root.attrib["role"] == "img"
    ids = {each.attrib["id"]: each.text for each in root if "id" in each.attrib}
    assert [ids[each] for each in root.attrib["aria-labelledby"].split()] == [
        "CPU",
        "pod: 75 % last, 25 % to 75 %.",
    ]
    assert described(chart) == "pod: 75 % last, 25 % to 75 %."


def test_what_was_not_reported_is_a_gap() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 4.0), (4.0, 5.0), (20.0, 6.0)]
    assert stretches(points, gap=5.0) == [[(0, 1), (1, 2)], [(3, 4), (4, 5)], [(20, 6)]]
    root = drawn(Chart(title="Memory", lines=[Line(name="pod", points=points)], gap=5.0))
    assert len(paths(root, "line")) == 2
    assert len(list(root.iter("circle"))) == 1, "a value alone is a dot"


@pytest.mark.parametrize("values", [(), (None,), (math.nan, math.inf)])
def test_nothing_to_draw_is_said(values: tuple[float | None, ...]) -> None:
    html = line_chart(Chart(title="<GPU>", lines=[line(*values)]))
    assert str(html) == '<p class="empty">&lt;GPU&gt;: nothing was reported.</p>'


def test_what_has_no_logarithm_is_left_out_of_a_logarithmic_axis() -> None:
    root = drawn(Chart(title="Loss", lines=[line(100, 0, 1, -5, 0.01, 0.01)], is_log=True))
    assert len(paths(root, "line")) == 1
    assert len(list(root.iter("circle"))) == 2
    assert "on a logarithmic axis" in "".join(root.itertext())


def test_no_name_is_markup() -> None:
    lines = [line(1, 2, name=HOSTILE), line(2, 1, name="</svg>")]
    root = drawn(Chart(title=HOSTILE, lines=lines, x_name=HOSTILE))
    assert root.findtext("title") == HOSTILE
    assert [each.text for each in root.iter("text")].count(HOSTILE) == 1


def test_each_line_has_a_letter_and_a_look_of_its_own() -> None:
    root = drawn(Chart(title="Loss", lines=[line(1, index + 2, name=str(index)) for index in range(12)]))
    assert [each.text for each in root.iter("text") if each.attrib["class"].startswith("name")] == list(
        "ABCDEFGHIJKL"
    )
    assert len({look(index) for index in range(24)}) == 24
    assert "stroke-dasharray" not in swatch(0)
    assert "stroke-dasharray" in swatch(6)


def test_a_band_lies_behind_its_line() -> None:
    banded = Line(name="mean", points=[(0, 1.0), (1, 2.0)], band=[(0, 0.5, 1.5), (1, 1.5, 2.5)])
    root = drawn(Chart(title="Accuracy", lines=[banded]))
    classes = [each.attrib.get("class", "") for each in root.iter("path")]
    assert classes.index("band c0") < classes.index("line c0")
    assert paths(root, "band")[0].endswith("Z")


def test_ticks_are_round() -> None:
    assert round_ticks(0, 1) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert round_ticks(-3, 17) == pytest.approx([0, 5, 10, 15])
    assert log_ticks(0.001, 1000) == pytest.approx([0.001, 0.01, 0.1, 1, 10, 100, 1000])
    assert log_ticks(1, 100) == pytest.approx([1, 2, 5, 10, 20, 50, 100])
    assert time_ticks(0, 3600) == [0, 1800, 3600]
    assert time_ticks(100, 86_500) == [21_600, 43_200, 64_800, 86_400]


@given(st.floats(-1e300, 1e300), st.floats(1e-9, 1e9))
def test_there_are_few_ticks_and_all_lie_on_the_axis(low: float, share: float) -> None:
    high = low + max(abs(low), 1e-300) * max(share, 1e-6)
    if not math.isfinite(high) or not high > low:
        return
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 12
    room = (high - low) * 1e-6
    assert all(low - room <= tick <= high + room for tick in ticks)


TINY = 5e-324
EXTREMES = (0.0, TINY, 2 * TINY, 1e-320, 2.2e-308, 1e-100, 1e100, 1e101, 1e308, math.inf, math.nan)
VALUES = st.floats() | st.sampled_from(EXTREMES + tuple(-value for value in EXTREMES))
STEPS = st.integers(0, 2**62) | st.sampled_from((2.0**62, 2.0**62 + 2048)) | VALUES
ENDS = st.none() | VALUES


@given(
    st.lists(st.tuples(STEPS, st.none() | VALUES), max_size=8),
    st.lists(st.tuples(STEPS, VALUES, VALUES), max_size=3),
    st.tuples(ENDS, ENDS, ENDS, ENDS),
    st.booleans(),
    st.sampled_from(("time", "number")),
)
def test_any_numbers_make_a_chart(
    points: list[Point], band: list[Band], ends: tuple[float | None, ...], is_log: bool, x: Any
) -> None:
    first, last, low, high = ends
    lines = [Line(name="any", points=points, band=band)]
    chart = Chart(title="", lines=lines, is_log=is_log, x=x, first=first, last=last, low=low, high=high)
    places = re.findall(r' (?:d|x|y|cx|cy)="([^"]*)"', line_chart(chart))
    assert not {place for place in places if "n" in place}, "neither nan nor inf is a place"


@pytest.mark.parametrize(
    "points",
    [
        [(0, TINY), (1, 2 * TINY)],
        [(2.0**62, 0.5), (2.0**62 + 2048, 1e101)],
        [(2.0**62, 0.5), (2.0**62 + 2048, 1.5)],
        [(0, 0.0), (1, 1e-300)],
        [(0, 1e23), (1, 1e23)],
    ],
)
def test_the_greatest_steps_and_the_least_values_lie_in_the_picture(points: list[Point]) -> None:
    root = drawn(Chart(title="extreme", lines=[Line(name="n", points=points)]))
    assert paths(root, "line") or list(root.iter("circle"))
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", "".join(paths(root, "line"))):
        assert 0 <= float(x) <= 400
        assert 0 <= float(y) <= 170


def test_a_pod_without_memory_has_a_chart_of_it() -> None:
    assert paths(drawn(Chart(title="Memory", lines=[line(0.0, 0.0)], low=0.0, high=0.0)), "line")


@given(
    st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), max_size=30), st.booleans()
)
def test_any_values_make_a_chart_inside_its_picture(values: list[float | None], is_log: bool) -> None:
    html = str(line_chart(Chart(title="any", lines=[line(*values)], is_log=is_log)))
    assert "nan" not in html
    assert "inf" not in html
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", html):
        assert -1 <= float(x) <= 401
        assert -1 <= float(y) <= 171


def test_an_axis_maps_its_ends_to_its_ends() -> None:
    axis = Axis(1, 1000, 0, 300, is_log=True)
    assert [axis.place(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


def test_smoothing_begins_with_the_first_value_and_forgets_slowly() -> None:
    points = [(0.0, 4.0), (1.0, 0.0), (2.0, None), (3.0, 0.0)]
    assert smoothed(points, 0.0) == points
    found = smoothed(points, 0.5)
    assert [at for at, _ in found] == [0, 1, 2, 3]
    assert [value for _, value in found] == pytest.approx([4.0, 4 / 3, None, 4 / 7])


def test_many_points_become_the_means_of_even_parts() -> None:
    points = [(float(at), float(at)) for at in range(100)]
    assert thinned(points, 0, 100, 200) == points
    assert thinned(points, 0, 100, 4) == [(12.0, 12.0), (37.0, 37.0), (62.0, 62.0), (87.0, 87.0)]
    assert len(thinned([*points, (99.5, None)], 0, 1000, 10)) == 1, "where nothing is, nothing"


def test_a_chart_of_dots_joins_nothing_and_a_logarithmic_x_axis_leaves_out_what_has_no_logarithm() -> None:
    points = [(-1.0, 1.0), (0.0, 1.0), (1.0, 2.0), (10.0, 3.0), (100.0, 2.0)]
    chart = Chart(title="C", lines=[Line(name="c", points=points, joined=False)], is_log_x=True)
    root = drawn(chart)
    assert paths(root, "line") == []
    dots = [float(each.attrib["cx"]) for each in root.iter("circle")]
    assert len(dots) == 3
    assert dots[1] - dots[0] == pytest.approx(dots[2] - dots[1], abs=0.2)
    assert (root.attrib["data-log"], root.attrib["data-low"], root.attrib["data-high"]) == (
        "x",
        "1.0",
        "100.0",
    )
    single = Chart(title="C", lines=[Line(name="c", points=[(5.0, 1.0)])], is_log_x=True)
    assert [each.attrib["cx"] for each in drawn(single).iter("circle")]


def test_a_figure_has_the_numbers_of_all_lines_at_each_place() -> None:
    first, second = Line(name="a", points=[(0, 1.0), (1, None), (2, 3.0)]), Line(name="b", points=[(2, 0.5)])
    found = chart_figure(Chart(title="T", lines=[first, second], x_name="step"))
    assert [(row.name, list(row.values)) for row in found.rows] == [("0", ["1", ""]), ("2", ["3", "0.5"])]
    assert (found.names, found.x_name, found.left_out) == (["a", "b"], "step", 0)
    assert [each.name for _, each in found.legend] == ["a", "b"]


def test_a_figure_has_few_rows_of_many_numbers_and_the_last_one() -> None:
    found = chart_figure(Chart(title="T", lines=[line(*range(1_000))]), 100)
    assert (len(found.rows), found.left_out) == (100, 900)
    assert (found.rows[0].at, found.rows[-1].at) == (0, 999)


def test_a_moment_that_no_calendar_has_is_a_number() -> None:
    points = [(1e300, 1.0), (0.0, 1.0)]
    found = chart_figure(Chart(title="T", lines=[Line(name="a", points=points)], x="time"))
    assert [row.name for row in found.rows] == ["1 Jan 00:00", "1e+300"]
