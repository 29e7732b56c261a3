"""Stored values in words."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.model.views.document_mapping import from_document
from control_plane.server.web.live import TOPICS_MAX
from control_plane.server.web.page_renderer import Pages, topics_of
from events import formatting
from events.answers.logs import LoggedEvent
from events.answers.runs import RunRow
from events.lifecycle import Status


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0.04, "0.0 s"), (61, "1 min 1 s"), (3700, "1 h 1 min"), (90_000, "1 d 1 h")],
)
def test_a_duration_is_told_in_its_two_largest_units(value: float | None, words: str) -> None:
    assert formatting.seconds(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")]
)
def test_a_size_is_told_in_the_largest_fitting_unit(value: int, words: str) -> None:
    assert formatting.size(value) == words


def test_each_status_has_a_sign_of_its_own_beside_its_colour() -> None:
    for status in Status:
        assert formatting.SIGNS[status] in formatting.status(status)


def test_hostile_text_is_escaped() -> None:
    assert "<script>" not in formatting.status("<script>")
    assert "<script>" not in formatting.lines("<script>\nx")
    assert '"><' not in formatting.moment('"><b>')


def test_every_event_has_a_line() -> None:
    entry = {"from": None, "to": "QUEUED", "cause": "submit", "by": "me"}

    def says(event_type: str, data: dict[str, Any]) -> str:
        return formatting.says(from_document(LoggedEvent, {"type": event_type, "data": data}))

    assert says("ai.run.status_changed", entry) == "new → QUEUED (submit, by me)"
    row = {"set": "rows", "key": "k", "values": {"a": 0.123456, "b": None, "c": True, "d": "5"}}
    assert says("ai.result.recorded", row) == "rows k: a = 0.1235, b = –, c = true, d = 5"
    assert says("ai.run.summarized", {"values": dict.fromkeys("abcdefghi")}).endswith("h = –, …")
    assert says("ai.artifact.registered", {"name": "a", "stage": "b"}) == "a"
    assert says("ai.future.thing", {}) == ""


def test_one_event_cannot_make_a_page_heavy() -> None:
    data = {"message": "<&" * 60_000, "level": "info"}
    event = {"runId": "r", "position": "p", "type": "ai.run.log", "attempt": 1, "sequence": 1,
             "revision": None, "time": "2026-11-21T10:00:00.000Z", "data": data}  # fmt: skip
    row = Pages("http://storage").piece("event_row", from_document(LoggedEvent, event))
    assert "118,000 more characters" in row
    assert len(row) < 200_000


def test_of_an_idea_with_many_fields_and_values_few_are_shown_the_known_ones_first() -> None:
    idea = {f"f{number}": number for number in range(20_000)} | {"Title": "T", "Abstract": [[]] * 20_000}
    told = formatting.idea_fields(idea)
    assert [name for name, _ in told][:7] == list(formatting.IDEA_FIELDS)
    assert len(told) < 100
    assert len(dict(told)["Abstract"]) < 5_000
    assert formatting.idea_fields({"x": 1})[-1] == ("x", 1)


def test_eight_tabs_of_long_lists_fit_into_one_stream() -> None:
    runs = [
        from_document(RunRow, {"_id": f"R{number}", "status": "QUEUED" if number else "FAILED"})
        for number in range(200)
    ]
    assert topics_of(runs[:3]) == ["run/R1", "run/R2"], "what is over does not change"
    assert 8 * (max(len(topics_of(runs[:count])) for count in range(200)) + 2) <= TOPICS_MAX


def test_a_count_that_reached_its_limit_says_that_there_may_be_more() -> None:
    assert formatting.counted(9_999, 10_000) == "9,999"
    assert formatting.counted(10_000, 10_000) == "10,000+"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.04, "0.0 s"), (60, "1 min 0 s"), (839.8, "13 min 59 s"), (3599.9, "59 min 59 s")],
)
def test_no_minute_has_a_sixtieth_second(value: float, said: str) -> None:
    assert formatting.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "words"), [(0.125, "12.5%"), (1e308, "1e+308"), (-1e308, "-1e+308"), (float("inf"), "inf")]
)
def test_a_number_that_is_no_share_has_no_per_cent_sign(value: float, words: str) -> None:
    assert formatting.result(value, ".1%") == words
