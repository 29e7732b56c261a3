"""How `podfleet runs watch` says in a pipe how a run stands."""

from __future__ import annotations

from typing import Any

import pytest

from events.answers.runs import Run
from events.testing import make_run
from podfleet.watching import Plain

ID = "01M81Z3NV9AKN2911RT1R6AQ6Y"
QUEUED = "2026-11-22T08:00:00.000Z"


def run(status: str, **more: Any) -> Run:
    return make_run(
        **{"id": ID, "status": status, "attempt": 1, "createdAt": QUEUED, "logOpen": True, **more}
    )


def test_an_end_is_told_once_and_when_the_log_says_all_that_led_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Plain(as_json=False)
    screen.show(run("RUNNING"))
    # Settled; the event that tells of its start is still on its way.
    screen.show(run("FAILED", finishedAt="2026-11-22T08:00:04.100Z"))
    assert capsys.readouterr().out.splitlines() == [f"{ID} RUNNING"]
    moments = {"startedAt": "2026-11-22T08:00:03.500Z", "finishedAt": "2026-11-22T08:00:04.100Z"}
    screen.show(run("FAILED", logOpen=False, **moments))
    screen.show(run("FAILED", logOpen=False, **moments))
    assert capsys.readouterr().out.splitlines() == [f"{ID} FAILED after 0.6 s"]
