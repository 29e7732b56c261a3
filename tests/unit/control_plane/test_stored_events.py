"""The log gives an event back as the codec read it, so that it may be applied from memory."""

from __future__ import annotations

import bson
from hypothesis import given

from control_plane.store.log.events import Arrival, decode, storable
from events.codec import decode_structured
from events.envelope import Event, Head, wire
from events.kinds.declaring.fact import Fact
from events.runtime.clock import SystemClock
from events.text.attempt_id import AttemptId
from tests.unit.events.test_codec_properties import facts, moments, traces


@given(fact=facts, time=moments, trace=traces)
def test_an_event_comes_out_of_the_log_as_it_came_off_the_wire(
    fact: Fact, time: str, trace: str | None
) -> None:
    line = wire(
        fact,
        Head(
            id="e1",
            source="//pod/7",
            attempt_id=AttemptId("r1", 2),
            sequence=57,
            time=time,
            traceparent=trace,
        ),
    )
    event = decode_structured(line)
    assert isinstance(event, Event)
    document = storable(event, Arrival("p1", SystemClock().now()))
    assert decode(bson.decode(document.raw)) == event
