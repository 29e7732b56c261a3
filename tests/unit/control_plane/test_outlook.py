"""What a form says of a run before it is queued: where it could start, what it costs, and its command."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from control_plane.model.explanation import QueuePosition, explain
from control_plane.model.views.live_pods import Hold, LivePod
from control_plane.model.views.runs import usage
from control_plane.runs.estimate import Estimate, estimated
from control_plane.runs.placement import placed
from control_plane.server.api.contract.bodies import NewRun
from control_plane.server.web.forms.commands import cli_command, curl_command, submission_of
from control_plane.server.web.forms.typed import text_of, value_of
from events.answers.runs import RunRow
from events.kinds.declaring.fields import Field
from events.queue.abilities import Abilities
from events.queue.pod_checks import Broken
from events.testing import EPOCH, make_run
from podfleet import parameters
from tests.unit.control_plane.test_explanation import make_run as stored_run

CLASS = "probe/16/any"
IDLE = LivePod("a/1", "idle", Abilities(frozenset({"probe"}), 24.0, None))
HELD = replace(IDLE, id="b/1", hold=Hold("cordoned", "cordoned: a test"))
DRAINING = replace(IDLE, id="c/1", is_draining=True)
BUSY = replace(IDLE, id="d/1", state="busy")
SMALL = replace(IDLE, id="e/1", abilities=Abilities(frozenset({"probe"}), 8.0, None))


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ((), "no pod is live"),
        ((IDLE,), "1 live pod serves it, 1 could take it now"),
        ((IDLE, BUSY, HELD, DRAINING, SMALL), "4 live pods serve it, 1 could take it now"),
        ((BUSY,), "1 live pod serves it, none could take it now: the one pod that serves it is busy"),
    ],
)
def test_where_a_run_could_start_is_said_by_what_explains_why_one_waits(
    pods: tuple[LivePod, ...], words: str
) -> None:
    found = placed(CLASS, pods)
    assert found.words == words
    waiting = explain({**stored_run("QUEUED"), "classKey": CLASS}, QueuePosition(0, 0, 0), pods, now=EPOCH)
    assert found.why in [each.message for each in waiting]
    assert (found.free > 0) == any(each.code == "pod_idle" for each in waiting)


def test_a_pod_whose_own_check_fails_could_not_take_it() -> None:
    broken = replace(IDLE, broken=(Broken("disk", "its disk is full", None),))
    assert (placed(CLASS, [broken]).serving, placed(CLASS, [broken]).free) == (1, 0)
    assert "its disk is full" in placed(CLASS, [broken]).words


def past(started: str | None, finished: str | None) -> RunRow:
    return msgspec.structs.replace(make_run(), started_at=started, finished_at=finished)


def spent(cost_usd: float, *, unpriced: int = 0) -> Any:
    names = ("promptTokens", "completionTokens", "gpuSeconds", "calls", "events")
    return usage([{**dict.fromkeys(names, 1), "_id": "m", "costUsd": cost_usd, "unpricedCalls": unpriced}], 9)


def test_a_run_costs_what_those_before_it_did() -> None:
    runs = [past("2026-01-01T00:00:00Z", f"2026-01-01T00:0{minutes}:00Z") for minutes in (1, 2, 9)]
    found = estimated([*runs, past(None, None)], spent(8.0))
    assert found == Estimate(4, 2.0, 120.0)
    assert found.words == "$2.00, about 2 min 0 s, as the last 4 runs of this kind"
    assert estimated(runs, spent(3.0, unpriced=1)).words.startswith("at least $1.00")
    assert Estimate().words == "not known: no run of this kind came to its end lately"
    assert Estimate(1).words == "no money that is known, as the last run of this kind"


TEXTS = ["a b", "it's", "5", "null", "true", "[1", '"x"', "a=b", "ü", "-p", "$(x)", "a\nb"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_command_says_what_the_form_says_whatever_it_holds(text: str) -> None:
    body = NewRun(
        kind="probe",
        spec={"a": text, "b": {"c": [text, 1.5, None]}},
        labels={"l": text},
        requires={"gpu_gib": 8, "labels": {"gpus": "4"}, "pod": "7"},
        priority=-5,
    )
    words = shlex.split(cli_command(submission_of(body)))
    given = [*zip(words[4::2], words[5::2], strict=True)]
    assert parameters.spec(None, [each for name, each in given if name == "-p"]) == body.spec
    assert parameters.labels([each for name, each in given if name == "--label"]) == body.labels
    assert parameters.requirements([each for name, each in given if name == "--requires"]) == body.requires
    assert ("--priority", "-5") in given
    sent = shlex.split(curl_command(submission_of(body)))[-1]
    assert NewRun.model_validate_json(sent) == body


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ("text", TEXTS),
        ("json", [*TEXTS, 5, 1.5, None, True, [1, "x"], {"a": {"b": 1}}]),
        ("either", ["a b", "it's", {"a": 1}, [1, "x"]]),
        ("number", [5, 1.5, -2e-9, None]),
        ("integer", [5, -5, 0, None]),
        ("choice", ["a", True, 3, None]),
    ],
)
def test_a_text_in_a_field_says_the_value_that_it_was_made_of(shape: Any, values: list[Any]) -> None:
    field = Field(
        path=("a",), shape=shape, type="", is_nullable=True, takes=frozenset({"object", "array"}),
        choices=("a", True, 3, None),
    )  # fmt: skip
    assert [value_of(field, text_of(field, each)) for each in values] == values
