"""What holds for the codec whatever is sent."""

from __future__ import annotations

import json
from typing import Any

import bson
from hypothesis import example, given
from hypothesis import strategies as st

from events import codec
from events.catalog import (
    RunFailed,
    RunHeartbeat,
    RunLog,
    RunUsage,
    StageMetric,
    StageProgress,
    ValidationAutoCompleted,
    data_of,
    type_of,
)
from events.codec import (
    ATTEMPT_MAX,
    SEQUENCE_MAX,
    Refusal,
    decode_batch,
    decode_binary,
    decode_ndjson,
    decode_structured,
)
from events.envelope import Event, Head, encode, wire
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCompleted, NodeCreated
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId

characters = st.characters(codec="utf-8")
texts = st.text(characters, max_size=30)
names = st.text(characters.filter(lambda character: character != "\x00"), max_size=10)
finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
# Like `values`, with everything in it that a log cannot keep.
poison = st.recursive(
    st.none() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["$ref", "$id", "\x00"]), inner, max_size=3)
    ),
    max_leaves=8,
)
stages = st.text(characters, min_size=1, max_size=20)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(RunLog, message=texts, level=st.sampled_from(["debug", "info", "warn", "error"])),
    st.builds(StageProgress, stage=stages, progress=st.floats(0, 1), activity=st.none() | texts),
    st.builds(StageMetric, stage=stages, name=stages, value=finite, step=st.none() | st.integers(0, 2**40)),
    st.builds(RunHeartbeat, gpu_util=st.none() | finite, memory_mib=st.none() | finite),
    st.builds(RunFailed, code=stages, message=texts, traceback=st.none() | texts, retryable=st.booleans()),
    st.builds(RunUsage, model=st.none() | texts, prompt_tokens=st.none() | st.integers(0, 2**62)),
    st.builds(NodeCreated, stage=stages, node=stages, plan=texts, params=st.dictionaries(names, values)),
    st.builds(NodeCompleted, stage=stages, node=stages, buggy=st.booleans(), seconds=finite),
    st.builds(ValidationAutoCompleted, verdict=st.sampled_from(["pass", "fail"])),
)
run_ids = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
event_ids = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cn")), min_size=1, max_size=40)
sequences = st.none() | st.integers(1, SEQUENCE_MAX)
moments = st.datetimes().map(lambda at: f"{at.isoformat()}Z")
traces = st.none() | st.just("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
LINE = encode(
    "ai.run.stage_progress",
    {"stage": "Stage_2", "progress": 0.4, "activity": "training"},
    Head(
        id="e1",
        source="//fleet/pod-7",
        attempt_id=AttemptId("r1", 1),
        sequence=57,
        time="2027-01-31T09:30:00Z",
    ),
)


@given(
    fact=facts,
    event_id=event_ids,
    run_id=run_ids,
    attempt=st.integers(1, ATTEMPT_MAX),
    sequence=sequences,
    time=moments,
    trace=traces,
)
def test_what_is_written_is_read_again(
    fact: Fact,
    event_id: str,
    run_id: str,
    attempt: int,
    sequence: int | None,
    time: str,
    trace: str | None,
) -> None:
    source = f"//fleet/pod-7/runs/{run_id}/attempts/{attempt}"
    line = wire(
        fact,
        Head(
            id=event_id,
            source=source,
            attempt_id=AttemptId(run_id, attempt),
            sequence=sequence,
            time=time,
            traceparent=trace,
        ),
    )
    assert decode_structured(line) == Event(
        id=event_id,
        source=source,
        type=type_of(type(fact)),
        run_id=run_id,
        attempt=attempt,
        sequence=sequence,
        time=time,
        data=data_of(fact),
        fact=fact,
        traceparent=trace,
    )


@st.composite
def almost_events(draw: st.DrawFn) -> bytes:
    """Draw a legal event of which some attributes were set to anything, left out, or cut through."""
    attributes: dict[str, Any] = json.loads(LINE)
    odd = values | st.sampled_from(
        ["1.0", "run/r2", "ai.run.enqueued", "ai.x", 1, 2**60, "7", True, {"seq": 3}]
    )
    for name in draw(
        st.lists(
            st.sampled_from([*attributes, "traceparent", "extensions", "data_base64", "x", "X"]), max_size=3
        )
    ):
        attributes[name] = draw(odd)
    for name in draw(st.lists(st.sampled_from(sorted(attributes)), max_size=2)):
        attributes.pop(name, None)
    line = bytearray(json.dumps(attributes).encode())
    for at in draw(st.lists(st.integers(0, len(line) - 1), max_size=1)):
        line[at] = draw(st.integers(0, 255))
    return bytes(line)


@given(st.binary() | almost_events() | poison.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 100_000)
@example(b'{"data":' * 30_000)
@example(b"[" + b"1" * 10_000 + b"]")
@example(b'[{"a":"\\')
def test_nothing_but_a_rejection_leaves_the_codec(body: bytes) -> None:
    headers = {
        "ce-id": "1",
        "ce-specversion": "1.0",
        "ce-source": "s",
        "ce-type": "ai.x",
        "ce-subject": "run/r",
    }
    assert isinstance(decode_structured(body), Event | Refusal)
    assert isinstance(decode_binary(headers.items(), body), Event | Refusal)
    for decode in (decode_ndjson, decode_batch):
        try:
            decoded = decode(body)
        except Rejected:  # anything else ends the test
            decoded = []
        assert all(isinstance(item.outcome, Event | Refusal) for item in decoded)


@given(
    st.lists(
        st.tuples(st.text(), st.text(st.characters(max_codepoint=255)))
        | st.tuples(st.sampled_from(["ce-id", "CE-Type", "ce-x", "ce-subject", "content-type"]), st.text())
    )
)
def test_no_header_breaks_the_codec(headers: list[tuple[str, str]]) -> None:
    assert isinstance(decode_binary(headers, b"{}"), Event | Refusal)


@given(almost_events() | st.just(LINE))
def test_the_short_way_decides_nothing_that_the_whole_rules_would_not(line: bytes) -> None:
    short = codec._plain_event(line)
    if short is not None:
        attributes = codec._parse(line)
        codec._check_storable(attributes, depth=1)
        assert short == codec._event(attributes)


@given(st.lists(almost_events() | st.just(LINE) | st.binary(max_size=30), max_size=6))
def test_a_line_means_the_same_in_any_company(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b" ") for line in lines]
    alone = [decode_structured(line) for line in lines if line.strip(b" \t\r")]
    together = [item.outcome for item in decode_ndjson(b"\n" + b"\n".join(lines))]
    assert together == alone


@given(st.lists(almost_events() | st.just(LINE), max_size=6))
def test_an_element_means_the_same_as_a_line(lines: list[bytes]) -> None:
    body = b"[" + b",".join(lines) + b"]"
    alone = [decode_structured(line) for line in lines]
    if all(isinstance(item, Event) or item.code != "bad_json" for item in alone):
        assert [item.outcome for item in decode_batch(body)] == alone


@given(poison)
def test_what_is_accepted_comes_back_from_the_log_unchanged(value: object) -> None:
    event = json.loads(LINE)
    event |= {"type": "ai.x", "data": {"value": value}}
    outcome = decode_structured(json.dumps(event).encode())
    if isinstance(outcome, Event):
        assert bson.decode(bson.encode(outcome.data)) == outcome.data
    else:
        assert outcome.code in ("unstorable", "bad_json")


@given(values)
def test_what_the_log_can_keep_is_accepted(value: object) -> None:
    event = json.loads(LINE)
    event |= {"type": "ai.x", "data": {"value": value}}
    outcome = decode_structured(json.dumps(event).encode())
    assert isinstance(outcome, Event)
    assert outcome.data == {"value": value}
