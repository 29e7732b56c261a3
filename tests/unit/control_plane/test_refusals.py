"""Whether a line was refused rightly, from its dead letter alone."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.store.verify.dead_letters import asked_for
from control_plane.store.verify.evidence import Evidence
from control_plane.verify.refusals import wrongly_refused
from events.catalog import RunLog
from events.testing import EPOCH, make_line

RUN_ID = "01K0000000000000000000000A"


def letter(code: str, principal: str) -> dict[str, Any]:
    line = make_line(RunLog(message="hello"), sequence=3, run_id=RUN_ID, attempt=2)
    return {"_id": "01L", "code": code, "line": line.decode(), "principal": principal}


@pytest.mark.parametrize(
    ("principal", "is_right"),
    [
        ("pod-7", True),
        (f"{RUN_ID}/a1", True),
        ("01K0000000000000000000000B/a2", True),
        (f"{RUN_ID}/a2", False),
    ],
)
def test_a_line_is_forbidden_to_all_but_its_own_run_token(principal: str, is_right: bool) -> None:
    assert (wrongly_refused(None, letter("forbidden", principal)) is None) == is_right


def test_one_event_may_have_any_number_of_line_breaks_inside() -> None:
    held = letter("forbidden", f"{RUN_ID}/a2")
    held["line"] = held["line"].replace("{", "{" + "\n" * 1_200, 1)
    assert wrongly_refused(None, held) == "its own run token sent it"
    assert len(asked_for(RUN_ID, [held])) == 1
    held |= {"code": "bad_json", "line": "\n" * 1_200}
    assert (wrongly_refused(None, held), asked_for(RUN_ID, [held])) == (None, set())


def test_no_numbered_line_is_refused_for_what_it_decides() -> None:
    assert wrongly_refused(None, letter("illegal_transition", "pod-7")) is not None


def test_what_waits_for_a_run_that_does_not_exist_may_contradict_a_line() -> None:
    assert wrongly_refused(None, letter("conflict", "admin")) is None


@pytest.mark.parametrize(
    ("run", "is_right"),
    [
        ({"attempt": 2}, False),
        ({"attempt": 2, "settled": {"outcome": "completed", "last": 2}}, True),
        ({"attempt": 2, "settled": {"outcome": "completed", "last": 3}}, False),
        ({"attempt": 2, "sealed": {"attempt": 2, "last": 2, "whole": True}}, True),
        ({"attempt": 3}, True),
    ],
    ids=["open", "settled", "settled behind it", "a verdict", "a later attempt"],
)
def test_only_a_closed_record_refuses_a_line(run: dict[str, Any], *, is_right: bool) -> None:
    evidence = Evidence("runs", run, (), (), (), (), (), (), now=EPOCH)
    assert (wrongly_refused(evidence, letter("sealed", f"{RUN_ID}/a2")) is None) == is_right
