"""Whether a line was refused rightly, from its dead letter alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import bson
import pytest

from control_plane.log.ingest import AHEAD_MAX, CUT
from control_plane.log.unclaimed_lines import LETTER_PREFIX
from control_plane.store.log.events import Arrival, storable
from control_plane.store.verify.dead_letters import asked_for
from control_plane.store.verify.evidence import Evidence
from control_plane.verify.refusals import LINE_KEPT_BYTES, wrongly_refused
from events.catalog import ArtifactRegistered, RunCompleted, RunHeartbeat, RunLog, RunStarted
from events.codec import Decoded, Refusal, decode_ndjson, decode_structured
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.testing import EPOCH, make_line
from testing.simulation.store.replica_set import OPTIONS

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


@pytest.mark.parametrize(
    ("code", "sequence", "why"),
    [
        ("far_ahead", AHEAD_MAX + 1, None),
        ("far_ahead", AHEAD_MAX, "its sequence is not far ahead"),
        ("any_other", 3, "no line is refused as 'any_other'"),
        ("bad_json", 3, "the line can be read"),
        ("unknown_run", 3, None),
    ],
)
def test_a_reason_is_held_against_the_line(code: str, sequence: int, why: str | None) -> None:
    line = make_line(RunLog(message="hello"), sequence=sequence, run_id=RUN_ID, attempt=2)
    held = {"_id": "01L", "code": code, "line": line.decode(), "principal": "pod-7", "at": EPOCH}
    assert wrongly_refused(None, held) == why


def test_a_line_that_was_cut_cannot_be_judged() -> None:
    for line in ("{" + CUT, "{" + " " * (LINE_KEPT_BYTES - 1)):
        assert wrongly_refused(None, {**letter("far_ahead", "pod-7"), "line": line}) is None
    assert wrongly_refused(None, {**letter("far_ahead", "pod-7"), "line": "{"}) is not None


def test_a_run_is_unknown_to_a_line_that_came_before_it_alone() -> None:
    for created, why in ((EPOCH, "the run existed"), (EPOCH + timedelta(seconds=2), None)):
        evidence = Evidence("runs", {"attempt": 2, "createdAt": created}, (), (), (), (), (), (), now=EPOCH)
        held = {**letter("unknown_run", "pod-7"), "at": EPOCH + timedelta(seconds=1)}
        assert wrongly_refused(evidence, held) == why


def test_the_holder_has_no_right_to_lines_without_a_number() -> None:
    line = make_line(RunLog(message="hello"), sequence=None, run_id=RUN_ID, attempt=2).decode()
    held = {**letter("forbidden", f"{RUN_ID}/a2"), "line": line}
    assert wrongly_refused(None, held) is None


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("after_end", "attempt 2 had not ended before event 3"),
        ("foreign_key", "its name and its key are the attempt's own"),
        ("bad_path", "its name and its key are the attempt's own"),
        ("any_other", "no event is set aside as 'any_other'"),
    ],
)
def test_what_was_set_aside_without_a_reason_is_found(code: str, why: str) -> None:
    aside = {"_id": "aside/x", "code": code, "attempt": 2, "sequence": 3}
    evidence = Evidence("runs", {"_id": RUN_ID, "attempt": 2}, (), (), (), (), (), (), now=EPOCH)
    assert wrongly_refused(evidence, aside) == why
    assert wrongly_refused(None, aside) == "its run does not exist"


def stored(fact: Fact, sequence: int, *, attempt: int = 2, event_id: str | None = None) -> dict[str, Any]:
    """Return an event of the run as its log keeps it."""
    named = {} if event_id is None else {"event_id": event_id}
    event = decode_structured(make_line(fact, sequence=sequence, run_id=RUN_ID, attempt=attempt, **named))
    assert isinstance(event, Event), event
    document: dict[str, Any] = bson.decode(storable(event, Arrival("p", EPOCH)).raw, OPTIONS)
    return document


def with_log(*log: dict[str, Any], **run: Any) -> Evidence:
    return Evidence("runs", {"_id": RUN_ID, "attempt": 2, **run}, log, (), (), (), (), (), now=EPOCH)


HELLO = RunLog(message="hello")
IN_CONFLICT = {
    "the same line": (stored(HELLO, 3), "nothing contradicts it"),
    "another line of its id": (stored(RunLog(message="bye"), 3), None),
    "another line at its position": (stored(HELLO, 3, event_id="another"), None),
    "a line at the next position": (stored(HELLO, 4, event_id="another"), "nothing contradicts it"),
    "a line of another attempt": (stored(HELLO, 3, attempt=1, event_id="another"), "nothing contradicts it"),
}


@pytest.mark.parametrize("case", IN_CONFLICT)
def test_a_line_is_in_conflict_with_another_of_its_id_or_its_position(case: str) -> None:
    document, why = IN_CONFLICT[case]
    assert wrongly_refused(with_log(document), letter("conflict", "admin")) == why


def test_a_line_that_waited_for_a_claim_met_another_one_there() -> None:
    held = {**letter("conflict", "admin"), "_id": f"{LETTER_PREFIX}01L"}
    assert wrongly_refused(with_log(), held) is None


def test_a_settled_record_refuses_no_line_for_a_number_that_it_does_not_have() -> None:
    line = make_line(HELLO, sequence=None, run_id=RUN_ID, attempt=2).decode()
    held = {**letter("sealed", "pod-7"), "line": line}
    assert wrongly_refused(with_log(settled={"last": 2}), held) == "its record was open"


def test_a_line_that_cannot_be_stored_is_one_that_the_store_does_not_take() -> None:
    held = {**letter("unstorable", "pod-7"), "at": EPOCH}
    assert wrongly_refused(None, held) == "it can be stored"
    many = held["line"].replace('"message":"hello"', f'"message":"hello","more":{1 << 70}')
    assert many != held["line"]
    assert wrongly_refused(None, {**held, "line": many}) is None


@pytest.mark.parametrize(
    ("log", "is_right"),
    [
        ((stored(RunCompleted(), 2),), True),
        ((stored(RunCompleted(), 3),), False),
        ((stored(RunStarted(), 2),), False),
        ((stored(RunCompleted(), 2, attempt=1),), False),
    ],
    ids=["behind the end", "the end itself", "behind no end", "behind the end of another attempt"],
)
def test_only_what_is_behind_the_end_of_its_attempt_is_set_aside_for_it(
    log: tuple[dict[str, Any], ...], is_right: bool
) -> None:
    aside = {"_id": "aside/x", "code": "after_end", "attempt": 2, "sequence": 3}
    assert (wrongly_refused(with_log(*log), aside) is None) == is_right


@pytest.mark.parametrize("sequence", [3, 4])
def test_a_key_that_is_foreign_is_that_of_the_very_line(sequence: int) -> None:
    foreign = ArtifactRegistered(name="a", key="runs/another/a1/x/a", size=1, sha256="0" * 64)
    aside = {"_id": "aside/x", "code": "foreign_key", "attempt": 2, "sequence": 3}
    assert (wrongly_refused(with_log(stored(foreign, sequence)), aside) is None) == (sequence == 3)


def unnumbered(fact: Fact, code: str = "conflict") -> dict[str, Any]:
    line = make_line(fact, sequence=None, run_id=RUN_ID, attempt=2).decode()
    return {**letter(code, "pod-7"), "line": line}


def test_an_event_without_a_number_is_in_conflict_with_what_the_log_keeps_under_its_id() -> None:
    held = unnumbered(HELLO)
    (identity,) = asked_for(RUN_ID, [held])
    other = replace(with_log(), unnumbered={identity: "another digest"})
    assert wrongly_refused(other, held) is None
    assert wrongly_refused(with_log(), held) == "nothing contradicts it"


def test_what_a_heartbeat_met_may_be_gone_by_now() -> None:
    assert wrongly_refused(with_log(), unnumbered(RunHeartbeat(cpu_util=0.5))) is None


@pytest.mark.parametrize("decode", [decode_ndjson, lambda body: [decode_structured(body)]])
def test_a_line_behind_a_byte_order_mark_is_read_again_as_it_was_read(decode: Any) -> None:
    line = make_line(HELLO, sequence=3, run_id=RUN_ID, attempt=2)
    for body in (b"\xef\xbb\xbf" + line, line + b"\n\xef\xbb\xbf" + line):
        for number, each in enumerate(decode(body)):
            outcome, raw = (each.outcome, each.raw) if isinstance(each, Decoded) else (each, body)
            code = outcome.code if isinstance(outcome, Refusal) else "forbidden"
            held = {**letter(code, "pod-7"), "line": raw.decode()}
            assert wrongly_refused(None, held) is None, (number, code)
