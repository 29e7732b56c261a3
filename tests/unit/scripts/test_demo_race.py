"""What `make demo-race` prints of a race."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from rich.console import Console

from events.answers.plans.races import Race
from scripts.demo import EXIT_FAILED
from scripts.demo_race import report

WHEN = "2026-11-25T17:00:00Z"


def lane(slot: int, pod: str, **told: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("runId", "readyAt", "startedAt", "lateS", "offsetS", "boundS", "problem", "finishedAt", "finishS",
         "place", "failure", "machine")
    )  # fmt: skip
    known = {"slot": slot, "pod": pod, "status": "COMPLETED", "state": "started", "parameters": {}}
    return {**nothing, **known, "attempt": 1, "laps": [], "figures": {}, **told}


def race(*lanes: dict[str, Any]) -> Race:
    told = {
        "id": "r", "kind": "prompt", "status": "COMPLETED", "round": 1, "rounds": [], "spec": {},
        "measure": {"name": "tokens_per_s", "unit": "1/s", "direction": "higher"}, "readyS": 60.0,
        "limitS": 60.0, "startAt": WHEN, "skewS": 0.0071, "lanes": lanes, "revision": 1, "createdBy": "me",
        "verdict": {"method": "", "decided": True, "says": "b won by 4 1/s [sic]"}, "createdAt": WHEN,
        "since": WHEN,
    }  # fmt: skip
    return msgspec.convert(told, Race)


def test_lanes_stand_by_their_place_and_a_failed_one_says_why() -> None:
    figures = {
        "tokens_per_s": {"mean": 24.0, "sd": 1.0, "n": 3, "low": 22.5, "high": 25.5},
        "ttft_s": {"mean": 0.25, "sd": None, "n": 1, "low": None, "high": None},
    }
    told = io.StringIO()
    failed = lane(0, "a", status="FAILED", failure="ENGINE_FAILED: it ended")
    winner = lane(1, "b", place=1, finishS=3.25, figures=figures, parameters={"parameters": {"n_threads": 1}})
    status = report(Console(file=told, width=160), race(failed, winner))
    rows = [line.split() for line in told.getvalue().splitlines()]
    first, second = (next(row for row in rows if pod in row) for pod in ("b", "a"))
    assert first == ["1", "b", "n_threads=1", "0.25", "s", "24.0", "1.5", "3.2", "s", "started"]
    assert second == ["–", "a", "defaults", "–", "–", "–", "–", "ENGINE_FAILED:", "it", "ended"]
    assert rows.index(first) < rows.index(second)
    assert "b won by 4 1/s [sic]" in told.getvalue()
    assert "within 7.1 ms" in told.getvalue()
    assert status == EXIT_FAILED
    assert report(Console(file=told), race(winner)) == 0
