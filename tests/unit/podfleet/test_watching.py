"""How `podfleet runs watch` says in a pipe how a run stands."""

from __future__ import annotations

from typing import Any

import pytest

from podfleet.watching import Plain

ID = "01M81Z3NV9AKN2911RT1R6AQ6Y"
QUEUED = "2026-11-22T08:00:00.000Z"


def run(status: str, **more: Any) -> dict[str, Any]:
    usual = {"attempt": 1, "maxAttempts": 3, "createdAt": QUEUED, "startedAt": None, "finishedAt": None}
    return {"id": ID, "status": status, "logOpen": True, **usual, **more}


def test_an_end_is_told_once_and_when_the_log_says_all_that_led_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Plain(as_json=False)
    screen.show(run("RUNNING"))
    # Settled; the event that tells of its start is still on its way.
    screen.show(run("FAILED", finishedAt="2026-11-22T08:00:04.100Z"))
    assert capsys.readouterr().out.splitlines() == [f"{ID} RUNNING"]
    whole = run("FAILED", startedAt="2026-11-22T08:00:03.500Z", finishedAt="2026-11-22T08:00:04.100Z")
    screen.show({**whole, "logOpen": False})
    screen.show({**whole, "logOpen": False})
    assert capsys.readouterr().out.splitlines() == [f"{ID} FAILED after 0.6 s"]
