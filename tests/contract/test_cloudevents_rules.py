"""CloudEvents 1.0 and our profile of it, rule by rule: one legal event, changed in one place."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from events.codec import (
    ATTEMPT_MAX,
    ATTRIBUTE_CHARS_MAX,
    DEPTH_MAX,
    LINE_BYTES_MAX,
    SEQUENCE_MAX,
    Refusal,
    decode_binary,
    decode_structured,
)
from events.envelope import Event

UNSET: Final = object()
TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DATA: Final = {"stage": "Stage_2", "progress": 0.4, "activity": "training node 6 of 8"}
LEGAL: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "id": "01K7",
    "source": "//fleet/pod-7/runs/r1/attempts/2",
    "type": "ai.run.stage_progress",
    "subject": "run/r1",
    "time": "2027-01-31T09:30:00.25Z",
    "datacontenttype": "application/json",
    "attempt": 2,
    "sequence": "0000000057",
    "data": DATA,
}


def changed(**changes: object) -> dict[str, Any]:
    return {name: value for name, value in {**LEGAL, **changes}.items() if value is not UNSET}


def line(**changes: object) -> bytes:
    return json.dumps(changed(**changes)).encode()


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


ACCEPTED: Final[dict[str, dict[str, object]]] = {
    "the event itself": {},
    "id of any characters": {"id": "ü/☃ 🚀"},
    "id that looks like a number": {"id": "42"},
    "id of the greatest length": {"id": "i" * ATTRIBUTE_CHARS_MAX},
    "source with a scheme": {"source": "https://github.com/cloudevents"},
    "source as mail address": {"source": "mailto:cncf-wg-serverless@lists.cncf.io"},
    "source as URN": {"source": "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"},
    "source as path": {"source": "/cloudevents/spec/pull/123"},
    "source as relative path": {"source": "pods/7"},
    "source as number of a telephone": {"source": "1-555-123-4567"},
    "source with an authority only": {"source": "//host"},
    "source with query and fragment": {"source": "/a?b=c&d=/e?#f/g?"},
    "source with escapes": {"source": "/caf%C3%a9"},
    "source at an IPv6 address": {"source": "http://user@[2001:db8::7]:8700/x"},
    "source with a colon in its second segment": {"source": "a/b:c"},
    "source that is a query only": {"source": "?q"},
    "subject with every kind of character": {"subject": "run/Az09._-"},
    "subject of the greatest length": {"subject": f"run/{'r' * 64}"},
    "time absent": {"time": UNSET},
    "time null": {"time": None},
    "time with an offset": {"time": "2027-01-31T09:30:00+05:45"},
    "time with a negative offset": {"time": "2027-01-31T09:30:00.123456789-11:00"},
    "time in lower case": {"time": "2027-01-31t09:30:00z"},
    "time of a leap second": {"time": "2016-12-31T23:59:60Z"},
    "time of a leap day": {"time": "2028-02-29T00:00:00Z"},
    "time with unknown offset": {"time": "2027-01-31T09:30:00-00:00"},
    "content type absent": {"datacontenttype": UNSET},
    "content type null": {"datacontenttype": None},
    "content type with a parameter": {"datacontenttype": "application/json; charset=utf-8"},
    "content type in other letters": {"datacontenttype": "Application/JSON"},
    "content type of the JSON family": {"datacontenttype": 'application/vnd.x+json;v="1;\\"2"'},
    "content type text/json": {"datacontenttype": "text/json"},
    "schema": {"dataschema": "https://example.org/schema#1"},
    "schema null": {"dataschema": None},
    "attempt as digits": {"attempt": "2"},
    "attempt of the greatest number": {"attempt": ATTEMPT_MAX},
    "sequence without zeros": {"sequence": "57"},
    "sequence as a number": {"sequence": 57},
    "sequence of the greatest number": {"sequence": str(SEQUENCE_MAX)},
    "sequence absent": {"sequence": UNSET},
    "sequence null": {"sequence": None},
    "sequence of older emitters": {"sequence": UNSET, "extensions": {"seq": 57, "other": [1, {}]}},
    "sequence said twice": {"extensions": {"seq": 57}},
    "older extensions without seq": {"extensions": {"seq": None}},
    "extension that is named extensions": {"extensions": "beta"},
    "traceparent": {"traceparent": TRACE},
    "traceparent null": {"traceparent": None},
    "traceparent of a later version": {"traceparent": f"cc{TRACE[2:]}-what-comes-later"},
    "text extension": {"partitionkey": "ключ"},
    "empty text extension": {"comment": ""},
    "boolean extension": {"sampled": True},
    "integer extension, smallest": {"rank": -(2**31)},
    "integer extension, greatest": {"rank": 2**31 - 1},
    "null extension": {"rank": None},
    "extension with digits in its name": {"3d": "x"},
    "extension with a name over twenty characters": {"averylongextensionname42": "x"},
    "non-ASCII in a text of data": {"data": {**DATA, "activity": "日本語\u0000\u007f\ufffe"}},
    "data with more than is known": {"data": {**DATA, "more": {"a": [1, None, True, 1.5]}}},
    "data with the same run": {"data": {**DATA, "run_id": "r1"}},
    "data with no run": {"data": {**DATA, "run_id": None}},
    "data with the greatest integers": {"data": {**DATA, "low": -(2**63), "high": 2**63 - 1}},
    "data with names that are operators": {"data": {**DATA, "$set": 1, "a.b": 2, "": 3, "$ref": "x"}},
    "data as deep as allowed": {"data": {**DATA, "deep": nested(DEPTH_MAX - 2)}},
    "data absent where nothing is required": {"type": "ai.run.started", "data": UNSET},
    "data null where nothing is required": {"type": "ai.run.started", "data": None},
    "no data of another content type": {
        "type": "ai.run.started",
        "data": UNSET,
        "datacontenttype": "text/plain",
    },
    "data in base64": {"data": UNSET, "data_base64": base64_of(json.dumps(DATA))},
    "base64 null beside data": {"data_base64": None},
    "integer where a fraction is known": {"data": {"stage": "s", "progress": 1}},
    "type of the family that is not known": {"type": "ai.benchmark.lap", "data": {"lap": 1}},
    "heartbeat": {"type": "ai.run.heartbeat", "data": {"gpu_util": 0.75}, "sequence": UNSET},
    "log of level warning": {"type": "ai.run.log", "data": {"message": "m", "level": "warning"}},
}

REFUSED: Final[dict[str, tuple[str, str, dict[str, object]]]] = {
    "specversion absent": ("bad_attribute", "specversion", {"specversion": UNSET}),
    "specversion null": ("bad_attribute", "specversion", {"specversion": None}),
    "specversion 0.3": ("bad_attribute", "specversion", {"specversion": "0.3"}),
    "specversion 1.0.2": ("bad_attribute", "specversion", {"specversion": "1.0.2"}),
    "specversion as a number": ("bad_attribute", "specversion", {"specversion": 1.0}),
    "id absent": ("bad_attribute", "id", {"id": UNSET}),
    "id null": ("bad_attribute", "id", {"id": None}),
    "id empty": ("bad_attribute", "id", {"id": ""}),
    "id as a number": ("bad_attribute", "id", {"id": 7}),
    "id with a line end": ("bad_attribute", "id", {"id": "a\nb"}),
    "id with a control character of the second block": ("bad_attribute", "id", {"id": "a\u0085"}),
    "id with a noncharacter": ("bad_attribute", "id", {"id": "a\ufdd0"}),
    "id with a noncharacter of a higher plane": ("bad_attribute", "id", {"id": "\U0010ffff"}),
    "id too long": ("bad_attribute", "id", {"id": "i" * (ATTRIBUTE_CHARS_MAX + 1)}),
    "source absent": ("bad_attribute", "source", {"source": UNSET}),
    "source empty": ("bad_attribute", "source", {"source": ""}),
    "source as a list": ("bad_attribute", "source", {"source": ["/a"]}),
    "source with a space": ("bad_attribute", "source", {"source": "/a b"}),
    "source with half an escape": ("bad_attribute", "source", {"source": "/a%2"}),
    "source with a colon that ends no scheme": ("bad_attribute", "source", {"source": "1:b"}),
    "source with two fragments": ("bad_attribute", "source", {"source": "/a#b#c"}),
    "source with a backslash": ("bad_attribute", "source", {"source": "\\\\host"}),
    "source with a bracket": ("bad_attribute", "source", {"source": "/a[1]"}),
    "source with an open bracket": ("bad_attribute", "source", {"source": "//[::1"}),
    "source beyond ASCII": ("bad_attribute", "source", {"source": "/café"}),
    "type absent": ("bad_attribute", "type", {"type": UNSET}),
    "type empty": ("bad_attribute", "type", {"type": ""}),
    "type as a boolean": ("bad_attribute", "type", {"type": True}),
    "type with a control character": ("bad_attribute", "type", {"type": "ai.x\u0000"}),
    "subject absent": ("bad_attribute", "subject", {"subject": UNSET}),
    "subject absent, run in data": (
        "bad_attribute",
        "subject",
        {"subject": UNSET, "data": {**DATA, "run_id": "r1"}},
    ),
    "subject empty": ("bad_attribute", "subject", {"subject": ""}),
    "subject of something else": ("bad_attribute", "subject", {"subject": "pod/r1"}),
    "subject without a run": ("bad_attribute", "subject", {"subject": "run/"}),
    "subject with a path": ("bad_attribute", "subject", {"subject": "run/a/b"}),
    "subject with a line end": ("bad_attribute", "subject", {"subject": "run/a\n"}),
    "subject too long": ("bad_attribute", "subject", {"subject": f"run/{'r' * 65}"}),
    "subject as a number": ("bad_attribute", "subject", {"subject": 5}),
    "time without an offset": ("bad_attribute", "time", {"time": "2027-01-31T09:30:00"}),
    "time with a space": ("bad_attribute", "time", {"time": "2027-01-31 09:30:00Z"}),
    "time as a number": ("bad_attribute", "time", {"time": 1800000000}),
    "time of no day": ("bad_attribute", "time", {"time": "2027-02-29T00:00:00Z"}),
    "time of no hour": ("bad_attribute", "time", {"time": "2027-01-31T24:00:00Z"}),
    "time of no offset that exists": ("bad_attribute", "time", {"time": "2027-01-31T09:30:00+24:00"}),
    "time with a short offset": ("bad_attribute", "time", {"time": "2027-01-31T09:30:00+0100"}),
    "time with an empty fraction": ("bad_attribute", "time", {"time": "2027-01-31T09:30:00.Z"}),
    "time with other digits": ("bad_attribute", "time", {"time": "\uff12027-01-31T09:30:00Z"}),
    "time before all dates": ("bad_attribute", "time", {"time": "0001-01-01T00:00:00+01:00"}),
    "time of a week": ("bad_attribute", "time", {"time": "2027-W01-1T09:30:00Z"}),
    "time empty": ("bad_attribute", "time", {"time": ""}),
    "content type without a slash": ("bad_attribute", "datacontenttype", {"datacontenttype": "json"}),
    "content type as a number": ("bad_attribute", "datacontenttype", {"datacontenttype": 1}),
    "content type empty": ("bad_attribute", "datacontenttype", {"datacontenttype": ""}),
    "content type that is not JSON": ("invalid_data", "text/plain", {"datacontenttype": "text/plain"}),
    "schema that is relative": ("bad_attribute", "dataschema", {"dataschema": "schema#1"}),
    "schema empty": ("bad_attribute", "dataschema", {"dataschema": ""}),
    "attempt zero": ("bad_attribute", "attempt", {"attempt": 0}),
    "attempt true": ("bad_attribute", "attempt", {"attempt": True}),
    "attempt as a fraction": ("bad_attribute", "attempt", {"attempt": 1.0}),
    "attempt as a word": ("bad_attribute", "attempt", {"attempt": "two"}),
    "attempt too great": ("bad_attribute", "attempt", {"attempt": ATTEMPT_MAX + 1}),
    "sequence zero": ("bad_attribute", "sequence", {"sequence": "0000000000"}),
    "sequence negative": ("bad_attribute", "sequence", {"sequence": "-1"}),
    "sequence empty": ("bad_attribute", "sequence", {"sequence": ""}),
    "sequence with other digits": ("bad_attribute", "sequence", {"sequence": "٣"}),
    "sequence too great": ("bad_attribute", "sequence", {"sequence": SEQUENCE_MAX + 1}),
    "sequence of endless digits": ("bad_attribute", "sequence", {"sequence": "0" * 5_000 + "1"}),
    "sequence false": ("bad_attribute", "sequence", {"sequence": False}),
    "older sequence as a text": ("bad_attribute", "extensions", {"extensions": {"seq": "57"}}),
    "older sequence zero": ("bad_attribute", "extensions", {"extensions": {"seq": 0}}),
    "older sequence true": ("bad_attribute", "extensions", {"extensions": {"seq": True}}),
    "two sequences": ("bad_attribute", "extensions", {"extensions": {"seq": 58}}),
    "extensions as a list": ("bad_attribute", "extensions", {"extensions": [57]}),
    "traceparent of zeros": ("bad_attribute", "traceparent", {"traceparent": f"00-{'0' * 32}{TRACE[35:]}"}),
    "traceparent in upper case": ("bad_attribute", "traceparent", {"traceparent": TRACE.upper()}),
    "traceparent with more": ("bad_attribute", "traceparent", {"traceparent": f"{TRACE}-x"}),
    "traceparent of version ff": ("bad_attribute", "traceparent", {"traceparent": f"ff{TRACE[2:]}"}),
    "traceparent as a number": ("bad_attribute", "traceparent", {"traceparent": 1}),
    "name in upper case": ("bad_attribute", "myExt", {"myExt": "x"}),
    "name with an underscore": ("bad_attribute", "my_ext", {"my_ext": "x"}),
    "name that is empty": ("bad_attribute", "''", {"": "x"}),
    "name with a line end": ("bad_attribute", "a", {"a\n": "x"}),
    "unset name that is none": ("bad_attribute", "my-ext", {"my-ext": None}),
    "extension as an object": ("bad_attribute", "labels", {"labels": {"a": "b"}}),
    "extension as a list": ("bad_attribute", "labels", {"labels": []}),
    "extension as a fraction": ("bad_attribute", "score", {"score": 0.5}),
    "extension over 32 bits": ("bad_attribute", "rank", {"rank": 2**31}),
    "extension with a control character": ("bad_attribute", "comment", {"comment": "a\tb"}),
    "type of another family": ("unknown_type", "com.example", {"type": "com.example.done"}),
    "type of our family in upper case": ("unknown_type", "AI.run", {"type": "AI.run.started"}),
    "type enqueued": ("reserved_type", "enqueued", {"type": "ai.run.enqueued", "data": {"kind": "probe"}}),
    "type status_changed": ("reserved_type", "status_changed", {"type": "ai.run.status_changed"}),
    "type human_completed": ("reserved_type", "human", {"type": "ai.validation.human_completed"}),
    "data of another run": ("subject_mismatch", "r1", {"data": {**DATA, "run_id": "r2"}}),
    "data with a run that is no text": ("subject_mismatch", "r1", {"data": {**DATA, "run_id": 1}}),
    "data as JSON in a string": ("invalid_data", "a string", {"data": json.dumps(DATA)}),
    "data as a list": ("invalid_data", "an array", {"data": [DATA]}),
    "data as a number": ("invalid_data", "a number", {"data": 0}),
    "data false": ("invalid_data", "a boolean", {"data": False}),
    "data without what is required": ("invalid_data", "`stage`", {"data": {"progress": 0.1}}),
    "data over a limit": ("invalid_data", "$.data.progress", {"data": {"stage": "s", "progress": 1.1}}),
    "data with the wrong kind": ("invalid_data", "$.data.stage", {"data": {"stage": 1, "progress": 0}}),
    "boolean where a number is required": (
        "invalid_data",
        "$.data.progress",
        {"data": {"stage": "s", "progress": True}},
    ),
    "level that is none": (
        "invalid_data",
        "$.data.level",
        {"type": "ai.run.log", "data": {"message": "m", "level": "loud"}},
    ),
    "data absent where something is required": ("invalid_data", "stage", {"data": UNSET}),
    "data twice": ("invalid_data", "exclude", {"data_base64": base64_of("{}")}),
    "data null beside base64": ("invalid_data", "exclude", {"data": None, "data_base64": base64_of("{}")}),
    "base64 of no known content": (
        "invalid_data",
        "datacontenttype",
        {"data": UNSET, "data_base64": base64_of("{}"), "datacontenttype": UNSET},
    ),
    "base64 of other content": (
        "invalid_data",
        "JSON",
        {"data": UNSET, "data_base64": "AAAA", "datacontenttype": "application/octet-stream"},
    ),
    "base64 that is none": ("invalid_data", "base64", {"data": UNSET, "data_base64": "a b="}),
    "base64 as a number": ("invalid_data", "base64", {"data": UNSET, "data_base64": 7}),
    "base64 of no JSON": ("invalid_data", "JSON", {"data": UNSET, "data_base64": base64_of("{")}),
    "base64 of a list": ("invalid_data", "an array", {"data": UNSET, "data_base64": base64_of("[]")}),
    "base64 of what is too deep": (
        "too_deep",
        "levels",
        {"data": UNSET, "data_base64": base64_of(json.dumps(nested(DEPTH_MAX)))},
    ),
    "base64 of a lone surrogate": (
        "unstorable",
        "surrogate",
        {"data": UNSET, "data_base64": base64_of('{"a": "\\ud800"}')},
    ),
    "one level too deep": ("too_deep", "levels", {"data": {**DATA, "deep": nested(DEPTH_MAX - 1)}}),
    "lone surrogate in data": ("unstorable", "surrogate", {"data": {**DATA, "activity": "\ud83d"}}),
    "lone surrogate in a name": ("unstorable", "surrogate", {"data": {**DATA, "\udc00": 1}}),
    "lone surrogate in an attribute": ("unstorable", "surrogate", {"id": "\ud83d"}),
    "integer over 64 bits": ("unstorable", "64 bits", {"data": {**DATA, "n": 2**63}}),
    "integer under 64 bits": ("unstorable", "64 bits", {"data": {**DATA, "n": [{"m": -(2**63) - 1}]}}),
    "integer of many digits": ("unstorable", "64 bits", {"data": {**DATA, "n": 10**4_000}}),
    "U+0000 in a name": ("unstorable", "U+0000", {"data": {**DATA, "a\u0000b": 1}}),
    "U+0000 in a name far inside": ("unstorable", "U+0000", {"data": {**DATA, "a": [{"\u0000": 1}]}}),
    "what reads back as a reference": (
        "unstorable",
        "$ref",
        {"data": {**DATA, "a": {"$ref": "", "$id": 1}}},
    ),
    "NaN": ("bad_json", "not JSON", {"data": {**DATA, "progress": float("nan")}}),
    "Infinity": ("bad_json", "not JSON", {"data": {**DATA, "progress": float("inf")}}),
    "too many bytes": ("too_large", "line_bytes", {"data": {**DATA, "pad": "x" * LINE_BYTES_MAX}}),
}

NO_EVENTS: Final[dict[str, tuple[str, bytes]]] = {
    "nothing": ("bad_json", b""),
    "a word": ("bad_json", b"hello"),
    "half an object": ("bad_json", line()[:-1]),
    "two objects": ("bad_json", line() + line()),
    "single quotes": ("bad_json", line().replace(b'"', b"'")),
    "a trailing comma": ("bad_json", line()[:-1] + b",}"),
    "a comment": ("bad_json", b"/* event */" + line()),
    "a raw line end in a text": ("bad_json", line().replace(b"training", b"trai\nning")),
    "bytes that are no UTF-8": ("bad_json", line().replace(b"training", b"trai\xffning")),
    "a surrogate in UTF-8": ("bad_json", line().replace(b"training", b"trai\xed\xa0\x80ning")),
    "an overlong form in UTF-8": ("bad_json", line().replace(b"training", b"trai\xc0\xafning")),
    "an event in UTF-16": ("bad_json", line().decode().encode("utf-16")),
    "an array": ("not_an_object", b"[" + line() + b"]"),
    "a string": ("not_an_object", json.dumps(line().decode()).encode()),
    "null": ("not_an_object", b"null"),
    "a number": ("not_an_object", b"1.0"),
    "a number out of range": ("unstorable", line().replace(b"0.4", b"1e400")),
    "an integer of endless digits": ("unstorable", line().replace(b"0.4", b"4" * 9_000)),
    "arrays without end": ("too_deep", b"[" * 200_000),
    "objects without end": ("too_deep", b'{"a":' * 40_000),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_the_rules_allow_is_accepted(change: dict[str, object]) -> None:
    outcome = decode_structured(line(**change))
    assert isinstance(outcome, Event)
    sent = changed(**change)
    assert (outcome.id, outcome.source, outcome.type) == (sent["id"], sent["source"], sent["type"])
    assert f"run/{outcome.run_id}" == sent["subject"]
    assert outcome.time == sent.get("time")
    assert outcome.attempt == int(sent["attempt"])


@pytest.mark.parametrize(("code", "named", "change"), REFUSED.values(), ids=REFUSED.keys())
def test_what_breaks_a_rule_is_refused_with_its_reason(
    code: str, named: str, change: dict[str, object]
) -> None:
    outcome = decode_structured(line(**change))
    assert isinstance(outcome, Refusal)
    assert outcome.code == code
    assert named in outcome.message
    if code == "bad_attribute":
        assert outcome.message.split(":")[0].strip("'").startswith(named.strip("'"))


@pytest.mark.parametrize(("code", "text"), NO_EVENTS.values(), ids=NO_EVENTS.keys())
def test_what_is_no_event_is_refused(code: str, text: bytes) -> None:
    outcome = decode_structured(text)
    assert isinstance(outcome, Refusal)
    assert outcome.code == code


def test_the_matrix_keeps_its_size() -> None:
    assert len(ACCEPTED) + len(REFUSED) + len(NO_EVENTS) > 200


def test_an_attribute_is_there_at_most_once() -> None:
    outcome = decode_structured(line()[:-1] + b', "id": "last"}')
    assert isinstance(outcome, Refusal)
    assert outcome.code == "unstorable"


def test_a_null_attribute_is_an_unset_one() -> None:
    unset = line(time=UNSET, sequence=UNSET, traceparent=UNSET, attempt=UNSET, dataschema=UNSET)
    null = line(time=None, sequence=None, traceparent=None, attempt=None, dataschema=None)
    assert decode_structured(null) == decode_structured(unset)


def test_an_attempt_that_is_not_said_is_the_first() -> None:
    outcome = decode_structured(line(attempt=UNSET))
    assert isinstance(outcome, Event)
    assert outcome.attempt == 1


HEADERS: Final = {
    "Content-Type": "application/json",
    "Ce-Specversion": "1.0",
    "CE-ID": "01K7",
    "ce-source": "//fleet/pod-7/runs/r1/attempts/2",
    "ce-type": "ai.run.stage_progress",
    "ce-subject": "run/r1",
    "ce-time": "2027-01-31T09:30:00.25Z",
    "ce-attempt": "2",
    "ce-sequence": "0000000057",
    "User-Agent": "curl/8",
}
BODY: Final = json.dumps(DATA).encode()

BINARY_ACCEPTED: Final[dict[str, tuple[str, str, str]]] = {
    "plain": ("ce-id", "abc-1", "abc-1"),
    "surrounded by blanks": ("ce-id", " \tabc ", "abc"),
    "percent-encoded": ("ce-id", "Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
    "percent-encoded in lower case": ("ce-id", "%e2%82%ac", "€"),
    "needlessly percent-encoded": ("ce-id", "%41%62c", "Abc"),
    "percent-encoded once only": ("ce-id", "%2541", "%41"),
    "an encoded quote": ("ce-id", "%22a%22", '"a"'),
    "quoted": ("ce-id", '"a b"', "a b"),
    "quoted with escapes": ("ce-id", '"a\\"b\\\\c"', 'a"b\\c'),
    "quoted and percent-encoded": ("ce-id", '"a%20b"', "a b"),
    "a quote inside": ("ce-id", 'a"b', 'a"b'),
}

BINARY_REFUSED: Final[dict[str, tuple[str, str, str, str]]] = {
    "invalid UTF-8": ("bad_attribute", "id", "ce-id", "%FF"),
    "overlong UTF-8": ("bad_attribute", "id", "ce-id", "%C0%A0"),
    "a surrogate in UTF-8": ("bad_attribute", "id", "ce-id", "%ED%A0%80"),
    "half an escape": ("bad_attribute", "id", "ce-id", "50%"),
    "no escape": ("bad_attribute", "id", "ce-id", "%zz"),
    "raw characters": ("bad_attribute", "id", "ce-id", "caf\xe9"),
    "an encoded control character": ("bad_attribute", "id", "ce-id", "a%0Ab"),
    "an open quote": ("bad_attribute", "id", "ce-id", '"a'),
    "something after the quote": ("bad_attribute", "id", "ce-id", '"a"b'),
    "empty": ("bad_attribute", "id", "ce-id", ""),
    "a name that is none": ("bad_attribute", "my-ext", "ce-my-ext", "x"),
    "an empty name": ("bad_attribute", "''", "ce-", "x"),
    "the content type in its forbidden place": (
        "bad_attribute",
        "datacontenttype",
        "ce-datacontenttype",
        "application/json",
    ),
    "data as a header": ("bad_attribute", "data", "ce-data", "{}"),
    "another version": ("bad_attribute", "specversion", "ce-specversion", "0.3"),
    "another content": ("invalid_data", "text/plain", "Content-Type", "text/plain"),
    "a content type that is none": ("bad_attribute", "datacontenttype", "Content-Type", "json"),
}


def binary(**changes: str) -> list[tuple[str, str]]:
    names = {name.lower() for name in changes}
    return [item for item in HEADERS.items() if item[0].lower() not in names] + list(changes.items())


def test_binary_mode_says_the_same_as_structured_mode() -> None:
    assert decode_binary(HEADERS.items(), BODY) == decode_structured(line())


@pytest.mark.parametrize(("header", "value", "meaning"), BINARY_ACCEPTED.values(), ids=BINARY_ACCEPTED.keys())
def test_a_header_is_unquoted_and_then_percent_decoded_once(header: str, value: str, meaning: str) -> None:
    outcome = decode_binary(binary(**{header: value}), BODY)
    assert isinstance(outcome, Event)
    assert outcome.id == meaning


@pytest.mark.parametrize(
    ("code", "named", "header", "value"), BINARY_REFUSED.values(), ids=BINARY_REFUSED.keys()
)
def test_a_header_that_breaks_a_rule_is_refused(code: str, named: str, header: str, value: str) -> None:
    outcome = decode_binary(binary(**{header: value}), BODY)
    assert isinstance(outcome, Refusal)
    assert outcome.code == code
    assert named in outcome.message


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("bad_json", b"{"),
        ("bad_json", b'{"a": "\xff"}'),
        ("invalid_data", b"[]"),
        ("invalid_data", b'"text"'),
        ("invalid_data", b""),
        ("too_deep", b'{"a":' * 100 + b"1" + b"}" * 100),
        ("too_deep", b"[" * 100_000),
        ("unstorable", b'{"n": 9223372036854775808}'),
        ("unstorable", b'{"n": "\\udfff"}'),
        ("too_large", b" " * (LINE_BYTES_MAX + 1)),
        ("subject_mismatch", b'{"run_id": "r2", "stage": "s", "progress": 0}'),
    ],
)
def test_a_binary_body_that_breaks_a_rule_is_refused(code: str, body: bytes) -> None:
    outcome = decode_binary(HEADERS.items(), body)
    assert isinstance(outcome, Refusal)
    assert outcome.code == code
    assert (outcome.id, outcome.run_id, outcome.attempt, outcome.sequence) == ("01K7", "r1", 2, 57)


@pytest.mark.parametrize("body", [b"", b" \r\n", b"null"])
def test_a_binary_event_without_data_needs_no_body(body: bytes) -> None:
    headers = [(name, value) for name, value in HEADERS.items() if name != "Content-Type"]
    outcome = decode_binary([*headers[:3], ("ce-type", "ai.run.started"), headers[4], headers[5]], body)
    assert isinstance(outcome, Event)
    assert outcome.data == {}


@pytest.mark.parametrize("header", ["ce-id", "CONTENT-TYPE"])
def test_an_attribute_that_comes_twice_is_refused(header: str) -> None:
    outcome = decode_binary([*HEADERS.items(), (header, "application/json")], BODY)
    assert isinstance(outcome, Refusal)
    assert outcome.code == "bad_attribute"
    assert "comes twice" in outcome.message
