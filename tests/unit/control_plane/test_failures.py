"""Failed runs by their cause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from control_plane.reads.failures import RUNS_SHOWN, TEXT_CHARS_MAX, grouped
from events.testing import EPOCH

DAY = timedelta(days=1)


def failed(
    number: int, code: Any, stage: str | None = "train", message: str = "m", ago_h: float = 1
) -> dict[str, Any]:
    at = EPOCH + DAY - timedelta(hours=ago_h)
    return {
        "_id": f"r{number}",
        "title": "t",
        "finishedAt": at,
        "error": {"code": code, "stage": stage, "message": message},
    }


def test_runs_of_the_same_code_and_stage_are_one_cause_the_most_frequent_first() -> None:
    same = [failed(2, "B", ago_h=2, message="old"), failed(3, "B", message="new")]
    found = grouped([failed(1, "A"), *same, failed(4, "B", "plot")], EPOCH)
    assert [(each.code, each.stage, each.count) for each in found] == [
        ("B", "train", 2),
        ("A", "train", 1),
        ("B", "plot", 1),
    ]
    assert ([run.id for run in found[0].runs], found[0].message) == (["r3", "r2"], "new")


def test_only_what_failed_lately_counts() -> None:
    unfinished = {**failed(2, "A"), "finishedAt": None}
    assert grouped([failed(1, "A", ago_h=25), unfinished], EPOCH) == []


def test_a_cause_names_few_runs_and_has_a_bounded_text() -> None:
    (found,) = grouped([failed(n, None, None, "x" * 9_999) for n in range(50)], EPOCH)
    assert (found.count, len(found.runs), len(found.message)) == (50, RUNS_SHOWN, TEXT_CHARS_MAX)
    assert grouped([{"_id": "r", "finishedAt": EPOCH + DAY, "error": None}], EPOCH)[0].code == "UNKNOWN"
