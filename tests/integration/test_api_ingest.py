"""Ingest over real HTTP, as the contract has it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
import zstandard
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent

pytestmark = pytest.mark.common_fleet
NDJSON = {"content-type": "application/x-ndjson"}
STRUCTURED = {"content-type": "application/cloudevents+json"}


def event(run_id: str, sequence: int | None = None, **changes: Any) -> dict[str, Any]:
    numbered = {} if sequence is None else {"sequence": f"{sequence:010d}"}
    return {
        "specversion": "1.0", "id": f"e-{sequence}", "source": "//curl", "type": "ai.run.log",
        "subject": f"run/{run_id}", "time": "2026-11-21T10:00:00+01:00",
        "data": {"run_id": run_id, "message": "hello", "level": "warning"}, **numbered, **changes,
    }  # fmt: skip


def post(fleet: Any, *events: dict[str, Any]) -> httpx.Response:
    body = "\n\n".join(json.dumps(each) for each in events)
    return fleet.client.post("/api/ingest/events", content=body, headers=NDJSON)


@pytest.fixture
def run_id(fleet: Any) -> str:
    return fleet.submit()


def test_one_event_is_taken_in_every_mode(fleet: Any, run_id: str) -> None:
    for number, headers in enumerate((STRUCTURED, {"content-type": "application/json"})):
        body = json.dumps(event(run_id, id=f"s{number}"))
        answer = fleet.client.post("/api/ingest/event", content=body, headers=headers)
        assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    sdk = CloudEvent(
        {"id": "sdk", "source": "//sdk", "type": "ai.run.heartbeat", "subject": f"run/{run_id}"},
        {"gpu_util": 0.75},
    )
    for converted in (http.to_structured_event(sdk), http.to_binary_event(sdk)):
        answer = fleet.client.post("/api/ingest/event", content=converted.body, headers=converted.headers)
        assert answer.status_code == 202, answer.text
    assert answer.json()["duplicates"] == 1


def test_a_bad_line_is_refused_alone_and_leaves_a_letter(fleet: Any, run_id: str, database: Any) -> None:
    lines = [event(run_id, 1), event(run_id, 2, type="nobody.knows"), event(run_id, 2)]
    answer = post(fleet, *lines)
    assert answer.status_code == 207
    verdict = answer.json()
    assert (verdict["accepted"], verdict["rejected"][0]["line"]) == (2, 3)
    assert verdict["rejected"][0]["code"] == "unknown_type"
    assert verdict["ackedThrough"] == {f"{run_id}/1": 0}
    letters = list(database.dead_letters.find())
    assert [letter["code"] for letter in letters] == ["unknown_type"]
    again = post(fleet, *lines).json()
    assert (again["accepted"], again["duplicates"]) == (0, 2)


def test_nothing_valid_is_422_and_an_unknown_ai_type_counts_as_unknown(fleet: Any, run_id: str) -> None:
    assert post(fleet, event(run_id, type="x.y")).status_code == 422
    assert post(fleet, event("nobody" * 20)).status_code == 422
    answer = post(fleet, event(run_id, 1, type="ai.future.thing"))
    assert (answer.status_code, answer.json()["unknown"]) == (202, 1)
    reserved = post(fleet, event(run_id, 2, type="ai.run.status_changed"))
    assert reserved.json()["rejected"][0]["code"] == "reserved_type"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"[]", {"content-type": "application/cloudevents-batch+json"}, 202),
        (b"[", {"content-type": "application/cloudevents-batch+json"}, 400),
        (b"x", {"content-type": "text/plain"}, 415),
        (b"x", NDJSON | {"content-encoding": "br"}, 415),
        (b"x", NDJSON | {"content-encoding": "gzip"}, 400),
        (b"x" * (2 << 20), NDJSON, 413),
        (b"\n".join([b"{}"] * 1001), NDJSON, 413),
        (gzip.compress(bytes(64 << 20)), NDJSON | {"content-encoding": "gzip"}, 413),
        (zstandard.compress(bytes(64 << 20)), NDJSON | {"content-encoding": "zstd"}, 413),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_read_are_told_why(
    fleet: Any, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = fleet.client.post("/api/ingest/events", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    if status in (400, 413, 415):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def test_one_event_that_is_no_json_is_a_bad_request_with_its_verdict(fleet: Any, run_id: str) -> None:
    answer = fleet.client.post("/api/ingest/event", content=b'{"id": ', headers=STRUCTURED)
    assert (answer.status_code, answer.json()["rejected"][0]["code"]) == (400, "bad_json")
    wrong = fleet.client.post(
        "/api/ingest/event", content=json.dumps(event(run_id, specversion="0.3")), headers=STRUCTURED
    )
    assert (wrong.status_code, wrong.json()["rejected"][0]["code"]) == (422, "bad_attribute")


def test_poison_is_refused_alone(fleet: Any, run_id: str) -> None:
    good = [json.dumps(event(run_id, number)) for number in (1, 2)]
    poisons = [
        json.dumps(event(run_id, 9, data={"message": "x", "n": 2**70})),
        json.dumps(event(run_id, 9, data={"message": "x", "nul\x00key": 1})),
        json.dumps(event(run_id, 9)).replace("hello", "\\ud800"),
        json.dumps(event(run_id, 9, data={"message": "x", "deep": json.loads("[" * 70 + "]" * 70)})),
    ]
    body = "\n".join([good[0], *poisons, good[1]])
    answer = fleet.client.post("/api/ingest/events", content=body, headers=NDJSON)
    assert answer.status_code == 207, answer.text
    assert answer.json()["accepted"] == 2
    assert [each["line"] for each in answer.json()["rejected"]] == [2, 3, 4, 5]


def test_an_unnumbered_end_of_a_waiting_run_is_an_illegal_transition(fleet: Any, run_id: str) -> None:
    answer = post(fleet, event(run_id, type="ai.run.completed", data={}))
    assert answer.status_code == 422
    assert answer.json()["rejected"][0]["code"] == "illegal_transition"
    assert fleet.run(run_id)["status"] == "QUEUED"
