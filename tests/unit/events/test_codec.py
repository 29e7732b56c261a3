"""Requests of many events: lines and their numbers, neighbours, batches, limits, moments."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from events import codec
from events.catalog import RunHeartbeat, RunLog, StageStarted, Unknown
from events.codec import (
    ATTRIBUTE_CHARS_MAX,
    DEPTH_MAX,
    LINE_BYTES_MAX,
    LINES_MAX,
    MESSAGE_CHARS_MAX,
    SEQUENCE_MAX,
    VALUES_MAX,
    Refusal,
    TooLarge,
    decode_batch,
    decode_binary,
    decode_ndjson,
    decode_structured,
    moment,
)
from events.envelope import Event, Head, wire
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId


def make_line(number: int = 1, message: str = "hello") -> bytes:
    return wire(
        RunLog(message=message),
        Head(
            id=f"e{number}",
            source="//fleet/pod-7/runs/r1/attempts/1",
            attempt_id=AttemptId("r1", 1),
            sequence=number,
            time="2027-01-31T09:30:00Z",
        ),
    )


POISON = {
    "a lone surrogate": (b'{"id": "p", "data": {"a": "\\ud800"}}', "unstorable"),
    "an integer over 64 bits": (b'{"id": "p", "data": {"a": 9223372036854775808}}', "unstorable"),
    "a number out of range": (b'{"id": "p", "data": {"a": 1e999}}', "unstorable"),
    "U+0000 in a name": (b'{"id": "p", "data": {"\\u0000": 1}}', "unstorable"),
    "one level too many": (b'{"a":' * DEPTH_MAX + b"{}" + b"}" * DEPTH_MAX, "too_deep"),
    "levels without number": (b"[" * 50_000 + b"]" * 50_000, "too_deep"),
    "too many values": (b'{"a": [' + b"[]," * VALUES_MAX + b"0]}", "too_large"),
    "too many bytes": (b'{"pad": "' + b"x" * LINE_BYTES_MAX + b'"}', "too_large"),
    "nothing of an event": (b"{}", "bad_attribute"),
    "brackets and commas in texts": (b'{"a": "]},{[", "b": "\\"]"}', "bad_attribute"),
    "a bare number": (b"7", "not_an_object"),
}


@pytest.mark.parametrize(("poison", "code"), POISON.values(), ids=POISON.keys())
def test_a_bad_line_does_not_touch_its_neighbours(poison: bytes, code: str) -> None:
    before, bad, after = decode_ndjson(b"\n".join((make_line(1), poison, make_line(2))))
    assert isinstance(bad.outcome, Refusal)
    assert (bad.outcome.code, bad.line, bad.raw) == (code, 2, poison)
    assert before.outcome == decode_structured(make_line(1))
    assert after.outcome == decode_structured(make_line(2))


@pytest.mark.parametrize(("poison", "code"), POISON.values(), ids=POISON.keys())
def test_a_bad_element_does_not_touch_its_neighbours(poison: bytes, code: str) -> None:
    before, bad, after = decode_batch(b"[%s ,\n%s, %s]" % (make_line(1), poison, make_line(2)))
    assert isinstance(bad.outcome, Refusal)
    assert (bad.outcome.code, bad.line, bad.raw) == (code, 2, poison)
    assert before.outcome == decode_structured(make_line(1))
    assert after.outcome == decode_structured(make_line(2))


@pytest.mark.parametrize(
    ("told", "twice"),
    [
        (b'"data":{', b'"data":{"level":"info","level":"info",'),
        (b'"data":{', b'"data":{"a":[{"b":{"c":1,"c":2}}],'),
        (b'"data":{', b'"data":{"lev\\u0065l":"info","level":"info",'),
        (b'{"specversion"', b'{"sequence":"7","specversion"'),
        (b'{"specversion"', b'{"attempt":2,"attempt":2,"specversion"'),
        (b'{"specversion"', b'{"traceparent":null,"traceparent":null,"specversion"'),
        (b'{"specversion"', b'{"x":1,"x":2,"specversion"'),
    ],
    ids=["in the data", "deep in the data", "escaped", "sequence", "attempt", "traceparent", "an extension"],
)
def test_an_object_with_a_name_twice_is_refused(told: bytes, twice: bytes) -> None:
    line = make_line()
    assert line.count(told) == 1
    (item,) = decode_ndjson(line.replace(told, twice))
    assert isinstance(item.outcome, Refusal)
    assert (item.outcome.code, "a name twice" in item.outcome.message) == ("unstorable", True)


def test_what_only_looks_like_a_name_is_no_second_one() -> None:
    message = 'say \\"a\\":1, then \\"a\\":2 \\\\'
    (line,) = decode_ndjson(make_line().replace(b'"hello"', f'"{message}"'.encode()))
    assert isinstance(line.outcome, Event)


def test_an_event_may_have_ten_thousand_values() -> None:
    (line,) = decode_ndjson(make_line().replace(b'"hello"', b'"hello","seen":[%s0]' % (b"[]," * 10_000)))
    assert isinstance(line.outcome, Event)


def test_lines_are_numbered_as_a_person_counts_them() -> None:
    body = b"\n" + make_line(1) + b"\r\n  \t\r\n\nnonsense\r\n" + make_line(2)
    decoded = decode_ndjson(body)
    assert [(item.line, isinstance(item.outcome, Event)) for item in decoded] == [
        (2, True),
        (5, False),
        (6, True),
    ]


@pytest.mark.parametrize("body", [b"", b"\n", b"\r\n \n", b"\xef\xbb\xbf"])
def test_a_body_of_blank_lines_says_nothing(body: bytes) -> None:
    assert decode_ndjson(body) == []


def test_two_events_on_one_line_are_one_bad_line() -> None:
    (item,) = decode_ndjson(make_line(1) + b" " + make_line(2))
    assert isinstance(item.outcome, Refusal)
    assert item.outcome.code == "bad_json"


def test_an_event_over_two_lines_is_two_bad_lines() -> None:
    decoded = decode_ndjson(make_line(1).replace(b",", b",\n", 1))
    assert [isinstance(item.outcome, Refusal) for item in decoded] == [True, True]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_as_many_lines_as_allowed_are_read(end: bytes) -> None:
    body = b"\n".join(make_line(number + 1) for number in range(LINES_MAX)) + end
    assert len(decode_ndjson(body)) == LINES_MAX


@pytest.mark.parametrize("body", [b"\n" * LINES_MAX + b"{}", b"{}\n" * (LINES_MAX + 1)])
def test_one_line_too_many_rejects_the_request(body: bytes) -> None:
    with pytest.raises(TooLarge) as raised:
        decode_ndjson(body)
    assert (raised.value.code, raised.value.limit, raised.value.maximum) == ("too_large", "lines", LINES_MAX)


def test_one_element_too_many_rejects_the_batch() -> None:
    assert len(decode_batch(b"[" + b",".join([b"{}"] * LINES_MAX) + b"]")) == LINES_MAX
    with pytest.raises(TooLarge):
        decode_batch(b"[" + b",".join([b"{}"] * (LINES_MAX + 1)) + b"]")


@pytest.mark.parametrize("opening", [b"[", b"{"])
def test_a_batch_of_brackets_is_not_even_split(opening: bytes) -> None:
    inner = opening * (LINE_BYTES_MAX + 1)
    with pytest.raises(TooLarge) as raised:
        decode_batch(b"[" + inner)
    assert raised.value.limit == "brackets"


def test_the_brackets_of_one_event_never_are_too_many() -> None:
    text = "[" * (LINE_BYTES_MAX - 400)
    line = make_line(message=text)
    assert len(line) <= LINE_BYTES_MAX
    (item,) = decode_batch(b"[" + line + b"]")
    assert isinstance(item.outcome, Event)


def test_a_byte_order_mark_is_ignored_at_the_start_only() -> None:
    mark = b"\xef\xbb\xbf"
    assert isinstance(decode_ndjson(mark + make_line())[0].outcome, Event)
    assert isinstance(decode_batch(mark + b"[" + make_line() + b"]")[0].outcome, Event)
    later = decode_ndjson(make_line(1) + b"\n" + mark + make_line(2))[1].outcome
    assert isinstance(later, Refusal)
    assert later.code == "bad_json"


@pytest.mark.parametrize("body", [b"[]", b" [ \n]\r\n"])
def test_a_batch_may_be_empty(body: bytes) -> None:
    assert decode_batch(body) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b'"[]"',
        b"[",
        b"[{}",
        b"[{},",
        b"[{},]",
        b"[,{}]",
        b"[{},,{}]",
        b"[{}]]",
        b"[{}] {}",
        b"[{}}]",
        b"[{]]",
        b"[{} {}]",
        b'["a]',
        b"[nothing]",
        b"[NaN]",
        b'[{"a": "\xff"}]',
        b"[{'id': 1}]",
    ],
)
def test_a_batch_that_is_no_json_array_is_rejected(body: bytes) -> None:
    with pytest.raises(Rejected) as raised:
        decode_batch(body)
    assert raised.value.code == "bad_json"


def test_a_refusal_says_whose_event_it_was() -> None:
    event = json.loads(make_line(7))
    outcome = decode_structured(json.dumps({**event, "time": "yesterday"}).encode())
    assert outcome == Refusal(
        code="bad_attribute",
        message="time: must be an RFC 3339 time with an offset, such as 2027-01-31T09:30:00Z",
        id="e7",
        run_id="r1",
        attempt=1,
        sequence=7,
    )


def test_a_refusal_repeats_nothing_that_could_not_be_answered() -> None:
    outcome = decode_structured(b'{"id": "\\ud800", "subject": "run/\\ud800", "data": {}}')
    assert isinstance(outcome, Refusal)
    assert (outcome.code, outcome.id, outcome.run_id) == ("unstorable", None, None)


def test_an_unstorable_event_is_still_recognised() -> None:
    outcome = decode_structured(make_line(7).replace(b"hello", b"\\ud800"))
    assert isinstance(outcome, Refusal)
    assert (outcome.id, outcome.run_id, outcome.attempt, outcome.sequence) == ("e7", "r1", 1, 7)


@pytest.mark.parametrize(
    "changes", [{"x" * 5_000 + "_": 1}, {"type": "x" * 2_000}, {"data": {"level": "x" * 9_000}}]
)
def test_a_refusal_is_short_whatever_was_sent(changes: dict[str, object]) -> None:
    outcome = decode_structured(json.dumps({**json.loads(make_line()), **changes}).encode())
    assert isinstance(outcome, Refusal)
    assert len(outcome.message) <= MESSAGE_CHARS_MAX


def test_a_refusal_of_a_long_text_still_says_why() -> None:
    outcome = decode_structured(make_line().replace(b"ai.run.log", b"x" * 2_000))
    assert isinstance(outcome, Refusal)
    assert outcome.message == f"{'x' * 60 + '…'!r} does not begin with ai."


@pytest.mark.parametrize("agreed", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-14:00"])
def test_an_agreed_moment_that_has_no_year_in_utc_is_refused(agreed: str) -> None:
    data = {"agreed": agreed, "late_s": 0, "ready_late_s": 0, "offset_s": 0, "bound_s": 0}
    changes = {"type": "ai.lane.started", "data": data}
    outcome = decode_structured(json.dumps({**json.loads(make_line()), **changes}).encode())
    assert isinstance(outcome, Refusal)
    assert outcome.code == "invalid_data"
    assert "beyond the years" in outcome.message


def test_a_content_type_that_is_none_is_refused_without_data_too() -> None:
    event = {name: value for name, value in json.loads(make_line()).items() if name != "data"}
    outcome = decode_structured(json.dumps({**event, "datacontenttype": "json"}).encode())
    assert isinstance(outcome, Refusal)
    assert outcome.code == "bad_attribute"


def test_of_so_many_origins_the_last_are_kept() -> None:
    assert codec._origin.cache_info().maxsize == codec.ORIGINS_MAX


def test_data_becomes_the_fact_of_its_type_and_stays_what_was_sent() -> None:
    event = json.loads(make_line())
    event |= {"type": "ai.run.stage_started", "data": {"stage": "Stage_1", "index": 1, "host": "h"}}
    outcome = decode_structured(json.dumps(event).encode())
    assert isinstance(outcome, Event)
    assert outcome.fact == StageStarted(stage="Stage_1", index=1)
    assert outcome.data == {"stage": "Stage_1", "index": 1, "host": "h"}


def test_a_heartbeat_as_a_person_would_send_it_is_read() -> None:
    outcome = decode_structured(
        b'{"specversion":"1.0","id":"1","source":"curl","type":"ai.run.heartbeat","subject":"run/r1",'
        b'"data":{"gpu_util":0.75}}'
    )
    assert isinstance(outcome, Event)
    assert outcome.fact == RunHeartbeat(gpu_util=0.75)
    assert (outcome.attempt, outcome.sequence, outcome.time) == (1, None, None)


def test_a_type_of_a_newer_worker_is_kept_with_its_data() -> None:
    line = make_line().replace(b"ai.run.log", b"ai.race.lap")
    outcome = decode_structured(line)
    assert isinstance(outcome, Event)
    assert outcome.fact == Unknown()
    assert outcome.data["message"] == "hello"


def test_an_event_of_our_own_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: bytes) -> None:
        raise AssertionError("the long way was taken")

    monkeypatch.setattr(codec, "_parse", fail)
    assert isinstance(decode_structured(make_line()), Event)


@pytest.mark.parametrize(
    "time",
    ["2027-01-31T09:30:00.%sZ" % ("0" * ATTRIBUTE_CHARS_MAX), "2027-01-31T09:30:00.%sZ" % ("1" * 9_999)],
)
def test_no_attribute_is_long_though_it_is_right(time: str) -> None:
    outcome = decode_structured(make_line().replace(b"2027-01-31T09:30:00Z", time.encode()))
    assert isinstance(outcome, Refusal)
    assert outcome.message == f"time: must not be longer than {ATTRIBUTE_CHARS_MAX:,} characters"


def test_the_sequence_of_an_older_emitter_has_the_same_bound() -> None:
    event = json.loads(make_line())
    del event["sequence"]
    for sequence, kind in ((SEQUENCE_MAX, Event), (SEQUENCE_MAX + 1, Refusal), (2**53, Refusal)):
        line = json.dumps({**event, "extensions": {"seq": sequence}}).encode()
        assert isinstance(decode_structured(line), kind)


@pytest.mark.parametrize(
    ("media", "body", "code"),
    [
        ("application/json", b'{"message": "a", "message": "b"}', "unstorable"),
        ("application/json", b'{"message": "a", "b": {"c": 1, "c": 1}}', "unstorable"),
        ("application/json", b'{"message": "%s"}' % (b"x" * LINE_BYTES_MAX), "too_large"),
        ("text/plain", b"no JSON", "invalid_data"),
    ],
)
def test_data_behind_headers_is_held_to_the_rules_of_a_line(media: str, body: bytes, code: str) -> None:
    event = {name: value for name, value in json.loads(make_line()).items() if name != "data"}
    del event["datacontenttype"]
    headers = [(f"ce-{name}", str(value)) for name, value in event.items()]
    outcome = decode_binary([*headers, ("content-type", media)], body)
    assert isinstance(outcome, Refusal)
    assert outcome.code == code
    assert isinstance(
        decode_binary([*headers, ("content-type", "application/json")], b'{"message": "a"}'), Event
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("2027-01-31T09:30:00Z", datetime(2027, 1, 31, 9, 30, tzinfo=UTC)),
        ("2027-01-31t09:30:00.5z", datetime(2027, 1, 31, 9, 30, 0, 500_000, tzinfo=UTC)),
        ("2027-01-31T09:30:00.123456789+01:30", datetime(2027, 1, 31, 8, 0, 0, 123_456, tzinfo=UTC)),
        ("2016-12-31T23:59:60.25Z", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("9999-12-31T23:59:59+00:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_moment_is_in_utc(text: str, meaning: datetime) -> None:
    assert moment(text) == meaning
    at = moment(text)
    assert at is not None
    assert at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "now", "2027-01-31", "2027-01-31T09:30Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01"],
)
def test_what_names_no_moment_is_none(text: str) -> None:
    assert moment(text) is None
