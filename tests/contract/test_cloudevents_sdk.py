"""The official SDK as a source of events: what it sends is read as what it means."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from events.catalog import RunLog, StageProgress
from events.codec import Refusal, decode_batch, decode_binary, decode_structured, moment
from events.envelope import Event, Head, wire
from events.text.attempt_id import AttemptId

AT = datetime(2027, 1, 31, 9, 30, 0, 250_000, tzinfo=timezone(timedelta(hours=-3)))


def make_event(data: dict[str, Any] | str | bytes | None = None, **changes: Any) -> CloudEvent:
    attributes = {
        "id": 'Euro € 😀 100% "quoted"',
        "source": "//fleet/pod-7/runs/r1/attempts/2?a=%20",
        "type": "ai.run.log",
        "subject": "run/r1",
        "time": AT,
        "datacontenttype": "application/json",
        "attempt": 2,
        "sequence": "0000000057",
        "sampled": True,
        **changes,
    }
    return CloudEvent(attributes, {"message": "grüße"} if data is None else data)


def is_as_sent(outcome: Event | Refusal) -> bool:
    return (
        isinstance(outcome, Event)
        and outcome.id == 'Euro € 😀 100% "quoted"'
        and outcome.source == "//fleet/pod-7/runs/r1/attempts/2?a=%20"
        and (outcome.run_id, outcome.attempt, outcome.sequence) == ("r1", 2, 57)
        and outcome.fact == RunLog(message="grüße")
        and moment(outcome.time or "") == AT.astimezone(UTC)
    )


def test_a_structured_event_of_the_sdk_is_read() -> None:
    assert is_as_sent(decode_structured(http.to_structured_event(make_event()).body))


def test_a_binary_event_of_the_sdk_is_read() -> None:
    message = http.to_binary_event(make_event())
    assert message.headers["ce-id"].startswith("Euro%20%E2%82%AC")
    assert is_as_sent(decode_binary(message.headers.items(), message.body))


def test_a_batch_of_events_of_the_sdk_is_read() -> None:
    bodies = [http.to_structured_event(make_event(id=f"e{number}")).body for number in range(5)]
    batch = json.dumps([json.loads(body) for body in bodies], indent=2).encode()
    outcomes = [item.outcome for item in decode_batch(batch)]
    assert [outcome.id for outcome in outcomes] == ["e0", "e1", "e2", "e3", "e4"]
    assert all(isinstance(outcome, Event) for outcome in outcomes)


def test_bytes_of_the_sdk_are_read_as_base64() -> None:
    body = http.to_structured_event(make_event(b'{"message": "gr\xc3\xbc\xc3\x9fe"}')).body
    assert b"data_base64" in body
    assert is_as_sent(decode_structured(body))


def test_text_of_the_sdk_is_no_data() -> None:
    outcome = decode_structured(http.to_structured_event(make_event('{"message": "m"}')).body)
    assert isinstance(outcome, Refusal)
    assert outcome.code == "invalid_data"


@pytest.mark.parametrize(
    ("changes", "attribute"),
    [
        ({"labels": {"a": "b"}}, "labels"),
        ({"score": 0.5}, "score"),
        ({"source": "not a uri"}, "source"),
        ({"rank": 2**40}, "rank"),
        ({"traceparent": "nonsense"}, "traceparent"),
    ],
)
def test_what_the_sdk_lets_through_against_the_rules_is_refused(
    changes: dict[str, Any], attribute: str
) -> None:
    outcome = decode_structured(http.to_structured_event(make_event(**changes)).body)
    assert isinstance(outcome, Refusal)
    assert outcome.code == "bad_attribute"
    assert outcome.message.startswith(attribute)


def test_what_we_send_is_read_by_the_sdk() -> None:
    line = wire(
        StageProgress(stage="Stage_2", progress=0.4),
        Head(
            id="e1",
            source="//fleet/pod-7",
            attempt_id=AttemptId("r1", 2),
            sequence=57,
            time="2027-01-31T09:30:00.250000Z",
        ),
    )
    event = JSONFormat().read(None, line)
    assert (event.get_id(), event.get_source(), event.get_subject()) == ("e1", "//fleet/pod-7", "run/r1")
    assert event.get_type() == "ai.run.stage_progress"
    assert event.get_time() == datetime(2027, 1, 31, 9, 30, 0, 250_000, tzinfo=UTC)
    assert event.get_extension("sequence") == "0000000057"
    assert event.get_data() == {"stage": "Stage_2", "progress": 0.4}


def test_both_modes_of_the_sdk_mean_the_same_to_us_and_to_it() -> None:
    message = http.to_binary_event(make_event())
    again = http.to_structured_event(http.from_binary_event(message))
    ours = decode_binary(message.headers.items(), message.body)
    theirs = decode_structured(again.body)
    assert isinstance(ours, Event)
    assert isinstance(theirs, Event)
    assert ours == theirs
