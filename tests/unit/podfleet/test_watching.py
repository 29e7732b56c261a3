"""How `podfleet runs watch` says in a pipe how a run stands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from events.answers.logs import LoggedEvent
from events.answers.runs import Run
from events.testing import make_run
from podfleet.commands.events import event_line, log_line
from podfleet.details import show_run
from podfleet.watching import Plain

ID = "01M81Z3NV9AKN2911RT1R6AQ6Y"
QUEUED = "2026-11-22T08:00:00.000Z"


def make_logged(event_type: str, data: dict[str, Any]) -> LoggedEvent:
    return LoggedEvent(
        run_id=ID, position="1", id="1", source="pod:p", type=event_type, time=QUEUED, attempt=1, sequence=1,
        revision=None, data=data, traceparent=None, received_at=QUEUED,
    )  # fmt: skip


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


def test_what_becomes_of_a_note_is_told_and_other_lines_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"number": 2, "outcome": "taken", "about": "width 48", "says": "Stage_2/1 tries it\x1b[2J"}
    for as_json in (False, True):
        screen = Plain(as_json=as_json)
        screen.log(make_logged("ai.run.log", {"message": "a line"}))
        screen.log(make_logged("ai.run.note_answered", answer))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{ID} note 2: width 48: taken, Stage_2/1 tries it")
    assert "\x1b" not in line


def test_what_becomes_of_a_note_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    note = {"number": 1, "by": "ada", "text": "dropout 7, width 48"}
    answers = [
        {"outcome": "refused", "about": "dropout 7", "says": "it is tried from 0.01 to 0.9", "node": None},
        {"outcome": "taken", "about": "width 48", "says": "Stage_2/1 tries it", "node": "Stage_2/1"},
    ]
    show_run(run("RUNNING", notes=[{**note, "answers": answers}, {**note, "number": 2}]))
    said = capsys.readouterr().out
    assert "dropout 7: refused, it is tried from 0.01 to 0.9; width 48: taken, Stage_2/1 tries it" in said


def test_an_event_that_says_no_time_has_that_of_its_arrival() -> None:
    silent = msgspec.structs.replace(make_logged("ai.run.log", {"message": "a line"}), time=None)
    assert log_line(silent) == (QUEUED, "info", "a line")
    assert event_line(silent)[0] == QUEUED
