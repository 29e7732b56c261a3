"""The root of a record: that of its lines as they are stored, and as they were said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import EventRefused, RunCompleted
from events.codec import decode_structured
from events.delivery.event_encoder import Row, end_of, refusal_of, with_line
from events.delivery.outbox import Outbox
from events.delivery.pipe import FactFrame
from events.delivery.sender import Sender, Telemetry
from events.envelope import Event, Head, content_hash, encode, line_hash
from events.record_digest import NO_LINES, Roots
from events.testing import (
    FIRST,
    RUN_ID,
    FakeIngest,
    ManualClock,
    SeededIds,
    make_attempt,
    make_logs,
    make_outbox,
)
from events.text.attempt_id import AttemptId

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def stored(line: bytes) -> Event | None:
    event = decode_structured(line)
    return event if isinstance(event, Event) else None


def roots_of(lines: list[bytes]) -> Roots:
    """Return what the control plane makes of these lines."""
    roots = NO_LINES
    for line in lines:
        event = stored(line)
        assert event is not None
        roots = roots.then(event.type, event.data, content_hash(event))
    return roots


@given(
    data=st.dictionaries(st.text(), VALUES, max_size=4),
    sequence=st.integers(1, 10**9) | st.none(),
    traceparent=st.sampled_from([None, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]),
)
def test_both_sides_have_the_same_digest_of_a_line(
    data: dict[str, object], sequence: int | None, traceparent: str | None
) -> None:
    line = encode(
        "ai.custom.said",
        data,
        Head(
            id="1",
            source="//s",
            attempt_id=AttemptId(RUN_ID, 2),
            sequence=sequence,
            time="2026-11-21T10:00:00.000Z",
            traceparent=traceparent,
        ),
    )
    event = stored(line)
    if event is not None:  # else nobody stores it
        assert line_hash(line) == content_hash(event)


@given(data=st.dictionaries(st.text(), VALUES | st.integers(10**19, 10**40), max_size=4))
def test_a_line_counts_as_it_is_written_and_as_it_is_read_again(data: dict[str, object]) -> None:
    row = with_line(Row(None, "1", "ai.custom.said", RUN_ID, 2, 3, "//s"), data, "2026-11-21T10:00:00.000Z")
    assert row.digest == line_hash(row.line)


def refuse_the_second(outbox: Outbox, rows: list[Row]) -> None:
    outbox.replace_refused(rows[1], "conflict", "why")


def refuse_it_twice(outbox: Outbox, rows: list[Row]) -> None:
    refuse_the_second(outbox, rows)
    outbox.replace_refused(outbox.batch(9, 10**6)[1], "conflict", "the notice as well")


def refuse_nothing(outbox: Outbox, rows: list[Row]) -> None:
    pass


@pytest.mark.parametrize("refuse", [refuse_nothing, refuse_the_second, refuse_it_twice])
def test_a_root_outlives_lines_that_have_left_and_lines_that_are_refused(
    tmp_path: Path, refuse: Callable[[Outbox, list[Row]], None]
) -> None:
    lines: list[bytes] = []
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(2))
        lines += [row.line for row in outbox.batch(9, 10**6)]
        outbox.confirm(outbox.batch(9, 10**6))
    end = RunCompleted(summary="done")
    with make_outbox(tmp_path) as outbox:
        outbox.append(FIRST, make_logs(2, first=3))
        outbox.append_end(FIRST, end, end_of(end))
        (intention,) = outbox.unsettled()
        refuse(outbox, outbox.batch(9, 10**6))  # after the root was sent
        lines += [row.line for row in outbox.batch(9, 10**6)]
    roots = roots_of(lines)
    assert intention.attempt.root == roots.said
    assert (roots.stored == roots.said) is (refuse is refuse_nothing)


def test_a_line_that_only_its_request_was_declined_for_still_counts(tmp_path: Path) -> None:
    clock, ids, ingest = (
        ManualClock(),
        SeededIds(),
        FakeIngest(chokes=lambda event: event["data"].get("message") == "line 2"),
    )
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(3))
        said = outbox.find(FIRST).root
        Sender(outbox, Telemetry(clock=clock, ids=ids), ingest, clock, ids).run_once()
    lines = [msgspec.json.encode(event) for event in ingest.history()]
    assert len(lines) == 3
    assert roots_of(lines).said == said


def test_a_pipeline_that_says_what_stands_for_refused_lines_is_taken_at_its_word(tmp_path: Path) -> None:
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        data = {"refused_type": "ai.run.log", "code": "c", "message": "m", "digest": "0" * 64}
        outbox.append(FIRST, [FactFrame("ai.run.event_refused", data)])
        (row,) = outbox.batch(9, 10**6)
        said = outbox.find(FIRST).root
        assert roots_of([row.line]).said == said
        outbox.replace_refused(row, "conflict", "why")
        assert roots_of([each.line for each in outbox.batch(9, 10**6)]).said == said


def test_nobody_who_read_a_refused_line_knows_the_id_of_its_notice(tmp_path: Path) -> None:
    ids: list[str] = []
    for token in ("one", "another"):
        with make_outbox(tmp_path / token) as outbox:
            outbox.open_attempt(FIRST, token=token, source="//s", collection="runs")
            outbox.append(FIRST, make_logs(1))
            (row,) = outbox.batch(9, 10**6)
            assert refusal_of(row, "c", "m") == refusal_of(row, "c", "m")
            ids.append(refusal_of(row._replace(id="seen"), "c", "m").id)
    assert len(set(ids)) == 2


@pytest.mark.parametrize("what", ["changed", "left out", "added", "moved", "withdrawn"])
def test_another_record_has_another_root(tmp_path: Path, what: str) -> None:
    with make_outbox(tmp_path) as outbox:
        make_attempt(outbox)
        outbox.append(FIRST, make_logs(3))
        (attempt,) = outbox.unended()
        lines = [row.line for row in outbox.batch(9, 10**6)]
    assert roots_of(lines).said == attempt.root
    match what:
        case "changed":
            lines[1] = lines[1].replace(b"line 2", b"line 9")
        case "left out":
            del lines[1]
        case "added":
            lines.append(lines[2].replace(b"0000000003", b"0000000004"))
        case "moved":
            lines[1:] = lines[:0:-1]
        case _:
            notice = EventRefused(refused_type="ai.run.log", code="c", message="m", digest="0" * 64)
            read = msgspec.json.decode(lines[1])
            read |= {"type": "ai.run.event_refused", "data": msgspec.to_builtins(notice)}
            lines[1] = msgspec.json.encode(read)
    assert roots_of(lines).said != attempt.root
