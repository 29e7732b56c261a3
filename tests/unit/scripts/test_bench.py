"""What the benches make of figures, on figures that are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from scripts.bench import contest as contests
from scripts.bench.contest import OURS, Goal, Metric, Row, Setting, contest, percentile
from scripts.bench.page import Report, into, table

SPEED = Metric("speed", "/s", goal=Goal(0.9, "bare"))


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contests, "await_quiet", lambda: None)


def _report(*rows: Row) -> Report:
    return Report("claims", {"cores": "2"}, list(rows))


def test_every_way_is_measured_once_a_round_and_another_one_begins_each_time(tmp_path: Path) -> None:
    order: list[str] = []
    ours, bare = iter((90.0, 80.0)), iter((100.0, 100.0))

    def measure(name: str, figures: Iterator[float]) -> dict[str, float]:
        order.append(name)
        return {"speed": next(figures)}

    ways = {OURS: lambda: measure("ours", ours), "bare": lambda: measure("bare", bare)}
    (row,) = contest("race", [SPEED], ways, Setting(2, tmp_path, lambda _: None))
    assert order == ["ours", "bare", "bare", "ours"]
    assert row.rounds == {OURS: [90.0, 80.0], "bare": [100.0, 100.0]}


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_figures() -> None:
    row = Row("race", SPEED, {OURS: [90.0, 10.0, 95.0], "bare": [100.0, 10.0, 100.0]})
    assert row.ratio("bare") == 0.95
    assert row.is_met()


@pytest.mark.parametrize(
    ("metric", "figures", "met"),
    [
        (Metric("late", "ms", more_is_better=False, goal=Goal(15)), [14.0], True),
        (Metric("late", "ms", more_is_better=False, goal=Goal(15)), [16.0], False),
        (Metric("late", "ms", more_is_better=False), [16.0], None),
    ],
)
def test_a_goal_without_another_way_is_the_figure_itself(
    metric: Metric, figures: list[float], met: bool | None
) -> None:
    assert Row("race", metric, {OURS: figures}).is_met() is met


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


def test_the_block_of_a_bench_is_written_anew_and_the_prose_around_it_stays() -> None:
    page = "# P\n\nprose\n\n<!-- bench: claims -->\nold\n<!-- end -->\n\nmore\n"
    row = Row("race", SPEED, {OURS: [80.0], "bare": [100.0]})
    written = into(page, _report(row))
    assert "old" not in written
    assert written.startswith("# P\n\nprose\n\n<!-- bench: claims -->\n| what |")
    assert written.endswith("<!-- end -->\n\nmore\n")
    assert "| 0.80 | ≥ 0.9 × bare | **no** |" in written
    assert into(written, _report(row)) == written


def test_a_bench_without_a_section_gets_one() -> None:
    row = Row("race", SPEED, {OURS: [80.0], "bare": [100.0]})
    assert "## claims\n\n<!-- bench: claims -->" in into("# P\n", _report(row))


def test_figures_of_an_earlier_run_stand_beside_ours() -> None:
    before = _report(Row("race", SPEED, {OURS: [40.0], "bare": [100.0]}))
    again = msgspec.json.decode(msgspec.json.encode(before), type=Report)
    now = table(_report(Row("race", SPEED, {OURS: [80.0], "bare": [100.0]})), again)
    assert now.splitlines()[0].endswith("| before |")
    assert now.splitlines()[2].endswith("| 40 |")
