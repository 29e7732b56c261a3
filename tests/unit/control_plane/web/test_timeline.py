"""Stages as bars: where they begin and end, whoever never said so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.views.document_mapping import from_document
from control_plane.server.web.drawing.timeline import BAR_MIN, LEFT, RIGHT, timeline
from events.answers.attempts import Attempt, Stage

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def stage(name: str, start: float, end: float | None = None, *, attempt: int = 1, **more: Any) -> Stage:
    fields = {
        "_id": f"r/a{attempt}/{name}",
        "name": name,
        "attempt": attempt,
        "index": int(name[-1]),
        "status": "RUNNING" if end is None else "COMPLETED",
        "startedAt": at(start),
        "completedAt": None if end is None else at(end),
        **more,
    }
    return from_document(Stage, fields)


def attempt(number: int, start: float, end: float | None = None) -> Attempt:
    fields = {"attempt": number, "claimedAt": at(start), "endedAt": None if end is None else at(end)}
    return from_document(Attempt, fields)


def test_nothing_is_drawn_before_a_stage_has_begun() -> None:
    assert timeline([], [attempt(1, 0)], BEGIN) is None


def test_bars_stand_in_the_order_of_the_stages_and_the_last_goes_on_until_now() -> None:
    picture = timeline(
        [stage("Stage_2", 50), stage("Stage_1", 0, 50)], [attempt(1, 0)], BEGIN + timedelta(seconds=100)
    )
    assert picture is not None
    assert [name for name, _ in picture.rows] == ["Stage_1", "Stage_2"]
    second, first = picture.bars
    assert (first.x, first.x + first.width) == (LEFT, (LEFT + RIGHT) / 2)
    assert (second.x, second.x + second.width) == ((LEFT + RIGHT) / 2, RIGHT)
    assert second.title == "Stage_2, attempt 1: RUNNING, 50.0 s"
    assert picture.bands == []


def test_attempts_and_the_gap_between_them_are_shown_where_there_are_several() -> None:
    lost = stage("Stage_1", 0, status="INTERRUPTED")
    picture = timeline(
        [lost, stage("Stage_1", 60, 100, attempt=2)],
        [attempt(1, 0, 40), attempt(2, 60, 100)],
        BEGIN + timedelta(hours=9),
    )
    assert picture is not None
    assert len(picture.rows) == 1
    assert [(each.label, each.is_gap) for each in picture.bands] == [
        ("attempt 1", False),
        ("attempt 2", False),
        ("nobody worked on it for 20.0 s", True),
    ]
    assert picture.bars[0].title.endswith("INTERRUPTED, 40.0 s"), "it ended with its attempt"


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=12))
def test_no_bar_and_no_tick_leaves_the_picture(spans: list[tuple[int, int]]) -> None:
    stages = [
        stage(f"Stage_{n % 10}", start, start + took, _id=str(n)) for n, (start, took) in enumerate(spans)
    ]
    picture = timeline(stages, [attempt(1, 0)], BEGIN)
    assert picture is not None
    for bar in picture.bars:
        assert bar.x >= LEFT
        assert bar.x + bar.width <= RIGHT + BAR_MIN + 0.2
    assert 1 <= len(picture.ticks) <= 10
    assert all(LEFT <= x <= RIGHT + 0.2 for x, _ in picture.ticks)
