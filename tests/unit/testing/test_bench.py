"""What the benches make of figures, on figures that are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from testing.bench import comparison as contests
from testing.bench.comparison import OURS, Absent, Goal, Metric, Row, Setting, contest, percentile, way
from testing.bench.peers.environments import NO_REDIS, NOT_WANTED, PINS, environment, redis
from testing.bench.peers.jobs import rate
from testing.bench.peers.mlflow_batches import batch
from testing.bench.report import Report, into, table
from testing.bench.workloads.noop import beside

SPEED = Metric("speed", "/s", goals=(Goal(0.9, "bare"),))


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
    assert row.is_met(SPEED.goals[0])


@pytest.mark.parametrize(("figure", "met"), [(14.0, True), (16.0, False)])
def test_a_goal_without_another_way_is_the_figure_itself(figure: float, met: bool) -> None:
    late = Metric("late", "ms", more_is_better=False, goals=(Goal(15),))
    assert Row("race", late, {OURS: [figure]}).is_met(late.goals[0]) is met


def test_each_goal_is_judged_by_itself_and_what_is_absent_is_named_and_not_judged(tmp_path: Path) -> None:
    speed = Metric("speed", "/s", goals=(Goal(0.9, "bare"), Goal(5, "peer"), Goal(2, "other")))
    ways = {
        OURS: lambda: {"speed": 100.0},
        "bare": lambda: {"speed": 100.0},
        "peer": way(25.0, lambda found: {"speed": found}),
        "other": way(Absent("no such program"), lambda found: {"speed": found}),
    }
    rows = list(contest("race", [speed], ways, Setting(1, tmp_path, lambda _: None)))
    assert table(_report(*rows)).splitlines()[2:6] == [
        "| race: speed | podfleet | 100 /s |  |  |  |  |",
        "|  | bare | 100 |  | 1.00 | ≥ 0.9 × it | yes |",
        "|  | peer | 25 |  | 4.00 | ≥ 5 × it | **no** |",
        "|  | other |  |  |  | ≥ 2 × it | – |",
    ]
    assert table(_report(*rows)).endswith("|\n\nNot measured: other: no such program.")


def test_peers_are_absent_with_a_reason_where_they_are_not_wanted_or_miss_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwanted = Setting(1, tmp_path, lambda _: None, peers=False)
    assert [environment(peer, unwanted) for peer in PINS] == [NOT_WANTED] * len(PINS)
    monkeypatch.setenv("PATH", str(tmp_path))
    with redis(Setting(1, tmp_path, lambda _: None)) as broker:
        assert broker == NO_REDIS


def test_a_rate_is_counted_from_the_first_job_to_the_last() -> None:
    assert rate([10.5, 10.0, 12.0, 11.0, 11.5]) == 2.0


def test_a_peer_on_our_mongodb_has_a_database_of_its_own() -> None:
    url = "mongodb://me:secret@127.0.0.1:27017/{}?replicaSet=rs0&authSource=admin"
    assert beside(url.format("podfleet")) == url.format("celery")


def test_batches_go_on_where_the_one_before_ended() -> None:
    first, second = (msgspec.json.decode(batch("run", first, 500))["metrics"] for first in (0, 500))
    steps = {(each["key"], each["step"]) for each in [*first, *second]}
    assert len(steps) == 1000


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
    assert "|  | bare | 100 |  | 0.80 | ≥ 0.9 × it | **no** |" in written
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
