"""The sender: every event arrives once and in order, whatever the other side does."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import RunCompleted, RunHeartbeat, StageProgress
from events.delivery.control_plane_client import Answer
from events.delivery.ingest_client import read_answer
from events.delivery.outbox import Outbox
from events.delivery.sender import (
    BACK_OFF_MAX_S,
    BARRED_S,
    TELEMETRY_AGE_MAX_S,
    TELEMETRY_MAX,
    Sender,
    Telemetry,
)
from events.queue.settlement import End
from events.runtime.errors import Barred, Transient
from events.testing import (
    FIRST,
    RUN_ID,
    SOURCE,
    FakeIngest,
    Fault,
    ManualClock,
    SeededIds,
    make_attempt,
    make_logs,
    make_outbox,
)
from events.text.attempt_id import AttemptId
from events.text.key_text import run_token

TOKEN = "token-1"
MISFITS = ["a", "b", "fine", "fine", "fine"]


@dataclass(frozen=True, slots=True)
class Bench:
    """A sender with everything around it in reach."""

    outbox: Outbox
    ingest: FakeIngest
    clock: ManualClock
    sender: Sender


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    clock, ids = ManualClock(), SeededIds()
    with make_outbox(tmp_path, clock=clock, ids=ids) as outbox:
        make_attempt(outbox)
        ingest = FakeIngest()
        sender = Sender(outbox, Telemetry(clock=clock, ids=ids), ingest, clock, ids)
        yield Bench(outbox, ingest, clock, sender)


def drain(bench: Bench, *, steps_max: int = 200) -> float:
    """Step until nothing is left, waiting as told; return how long it took."""
    begun_s = bench.clock.monotonic_s()
    for _ in range(steps_max):
        delivery = bench.sender.run_once()
        if delivery.left == 0:
            return bench.clock.monotonic_s() - begun_s
        bench.clock.advance(delivery.back_off_s)
    pytest.fail(f"{bench.outbox.pending()} events are stuck")


def sequences(ingest: FakeIngest) -> list[int]:
    return [int(event["sequence"]) for event in ingest.history()]


def types(ingest: FakeIngest) -> list[str]:
    return [event["type"] for event in sorted(ingest.history(), key=lambda event: str(event["sequence"]))]


def says(*messages: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["data"].get("message") in messages


def test_what_was_said_arrives_in_order_and_leaves_the_outbox(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(1_234))
    delivery = bench.sender.run_once()
    assert (delivery.stored, delivery.refused, delivery.left, delivery.back_off_s) == (1_234, 0, 0, 0.0)
    assert sequences(bench.ingest) == list(range(1, 1_235))


def test_nothing_is_asked_while_nothing_waits(bench: Bench) -> None:
    assert bench.sender.run_once().left == 0
    assert bench.ingest.requests == 0


@pytest.mark.parametrize("fault", ["lost", "eaten", "busy"])
def test_an_answer_that_did_not_come_acknowledges_nothing(bench: Bench, fault: Fault) -> None:
    bench.outbox.append(FIRST, make_logs(3))
    bench.ingest.faults = iter([fault])
    delivery = bench.sender.run_once()
    assert (delivery.stored, delivery.left) == (0, 3)
    drain(bench)
    assert sequences(bench.ingest) == [1, 2, 3]


def test_the_control_plane_is_left_alone_until_the_back_off_is_over(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(1))
    bench.ingest.faults = iter(["busy"])
    delivery = bench.sender.run_once()
    assert 7.0 <= delivery.back_off_s <= 7.5
    assert bench.sender.run_once().back_off_s == pytest.approx(delivery.back_off_s)
    assert bench.ingest.requests == 1
    bench.clock.advance(delivery.back_off_s)
    assert bench.sender.run_once().left == 0


def test_an_outage_of_hours_costs_few_requests_and_no_event(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(100))
    bench.ingest.faults = iter(["lost"] * 150)
    took_s = drain(bench)
    assert took_s > 3_600
    assert took_s / 150 <= BACK_OFF_MAX_S
    assert sequences(bench.ingest) == list(range(1, 101))


def test_a_refused_line_is_replaced_and_the_run_goes_on(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(3))
    bench.ingest.refuses = lambda event: "invalid_data" if says("line 2")(event) else None
    drain(bench)
    assert types(bench.ingest) == ["ai.run.log", "ai.run.event_refused", "ai.run.log"]
    (refused,) = (event for event in bench.ingest.history() if event["type"] == "ai.run.event_refused")
    assert refused["data"]["code"] == "invalid_data"
    assert refused["data"]["refused_type"] == "ai.run.log"
    assert int(refused["sequence"]) == 2


def test_a_refusal_that_is_refused_itself_is_dropped_loudly(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.outbox.append(FIRST, make_logs(3))
    bench.ingest.refuses = lambda event: "forbidden"
    drain(bench, steps_max=5)
    assert bench.ingest.stored == {}
    refused = [(record.levelname, vars(record)["type"]) for record in caplog.records]
    assert refused.count(("ERROR", "ai.run.event_refused")) == 3


def test_a_batch_that_is_too_large_is_halved_down_to_what_fits(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(100))
    bench.ingest.lines_max = 7
    drain(bench)
    assert sequences(bench.ingest) == list(range(1, 101))
    assert bench.sender.pace.lines_max < 100, "the next batch starts small"


def test_a_line_that_is_too_large_alone_gives_way_to_a_refusal(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(5))
    bench.ingest.chokes = says("line 4")
    drain(bench)
    assert types(bench.ingest) == [*["ai.run.log"] * 3, "ai.run.event_refused", "ai.run.log"]


def test_a_server_that_declines_everything_costs_no_event(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(20))
    bench.ingest.chokes = lambda _: True
    for _ in range(5):
        delivery = bench.sender.run_once()
        assert (delivery.stored, delivery.refused, delivery.left) == (0, 0, 20)
        bench.clock.advance(delivery.back_off_s)
    bench.ingest.chokes = lambda _: False
    drain(bench)
    assert types(bench.ingest) == ["ai.run.log"] * 20


def test_a_verdict_about_a_line_that_was_not_sent_is_no_verdict(bench: Bench) -> None:
    class Confused(FakeIngest):
        def take(self, lines: Any) -> Any:
            answer = super().take(lines)
            for rejection in answer.rejected:
                object.__setattr__(rejection, "id", "somebody-else")
            return answer

    confused = Confused(refuses=lambda _: "code")
    sender = Sender(bench.outbox, bench.sender.telemetry, confused, bench.clock, SeededIds())
    bench.outbox.append(FIRST, make_logs(2))
    delivery = sender.run_once()
    assert (delivery.left, delivery.refused) == (2, 0)
    assert delivery.back_off_s > 0


def test_the_names_of_fenced_attempts_come_back(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(1))
    bench.ingest.fenced = frozenset({(RUN_ID, 1)})
    assert bench.sender.run_once().fenced == {(RUN_ID, 1)}


def test_telemetry_goes_along_and_leaves_no_trace_in_the_outbox(bench: Bench) -> None:
    bench.sender.telemetry.put(FIRST, SOURCE, RunHeartbeat(cpu_util=0.5), token=TOKEN)
    bench.outbox.append(FIRST, make_logs(1))
    bench.sender.run_once()
    beats = [event for event in bench.ingest.stored.values() if event["type"] == "ai.run.heartbeat"]
    assert [event["data"] for event in beats] == [{"cpu_util": 0.5}]
    assert "sequence" not in beats[0]
    assert bench.outbox.pending() == 0


def test_telemetry_of_an_outage_is_bounded_and_expires(bench: Bench) -> None:
    telemetry = bench.sender.telemetry
    telemetry.put(FIRST, SOURCE, RunHeartbeat(cpu_util=0.0), token=TOKEN)
    bench.clock.advance(TELEMETRY_AGE_MAX_S + 1)
    for number in range(TELEMETRY_MAX + 10):
        telemetry.put(FIRST, SOURCE, RunHeartbeat(cpu_util=number / 1000), token=TOKEN)
    assert len(telemetry.take()) == TELEMETRY_MAX
    telemetry.put(FIRST, SOURCE, RunHeartbeat(), token=TOKEN)
    bench.clock.advance(TELEMETRY_AGE_MAX_S + 1)
    assert telemetry.take() == []


def test_telemetry_that_is_refused_or_lost_is_not_sent_again(bench: Bench) -> None:
    bench.ingest.refuses = lambda _: "code"
    bench.sender.telemetry.put(FIRST, SOURCE, RunHeartbeat(), token=TOKEN)
    bench.sender.run_once()
    bench.ingest.refuses = lambda _: None
    bench.ingest.chokes = lambda _: True
    bench.sender.telemetry.put(FIRST, SOURCE, RunHeartbeat(), token=TOKEN)
    bench.sender.run_once()
    bench.ingest.chokes = lambda _: False
    bench.ingest.faults = iter(["lost"])
    bench.sender.telemetry.put(FIRST, SOURCE, RunHeartbeat(), token=TOKEN)
    bench.clock.advance(bench.sender.run_once().back_off_s)
    bench.outbox.append(FIRST, make_logs(1))
    drain(bench)
    assert [event["type"] for event in bench.ingest.stored.values()] == ["ai.run.log"]


def test_a_flush_asks_at_once_and_says_when_nothing_is_left(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(3))
    bench.ingest.faults = iter(["busy", "lost"])
    assert bench.sender.run_once().back_off_s > 7
    assert bench.sender.flush(bench.clock.monotonic_s() + 5.0)
    assert sequences(bench.ingest) == [1, 2, 3]


def test_a_flush_gives_up_at_its_deadline_and_loses_nothing(bench: Bench) -> None:
    bench.outbox.append(FIRST, make_logs(3))
    bench.ingest.faults = iter(["lost"] * 1_000)
    deadline_s = bench.clock.monotonic_s() + 5.0
    assert not bench.sender.flush(deadline_s)
    assert bench.clock.monotonic_s() == pytest.approx(deadline_s, abs=0.01)
    assert bench.outbox.pending() == 3


def test_the_loop_sends_an_end_without_waiting_for_company(bench: Bench) -> None:
    stop = threading.Event()
    seen: list[tuple[int, float]] = []

    def heed(delivery: object) -> None:
        seen.append((len(bench.ingest.stored), bench.clock.monotonic_s()))
        if len(seen) == 1:
            bench.outbox.append(FIRST, [StageProgress(stage="Stage_1", progress=0.5)])
            bench.outbox.append_end(FIRST, RunCompleted(), End("completed"))
        else:
            stop.set()

    bench.sender.run(stop, heed)
    assert seen == [(0, 0.0), (2, 0.0)]


@given(
    faults=st.lists(st.sampled_from(["none", "lost", "eaten", "busy"]), max_size=25),
    batches=st.lists(st.lists(st.sampled_from(MISFITS), max_size=12), max_size=8),
    lines_max=st.integers(1, 40),
)
def test_any_faults_leave_every_event_stored_once_and_in_order(
    faults: Iterable[Fault], batches: list[list[str]], lines_max: int
) -> None:
    clock, ids = ManualClock(), SeededIds()
    ingest = FakeIngest(
        faults,
        refuses=lambda event: "invalid_data" if says("a")(event) else None,
        chokes=says("b"),
        lines_max=lines_max,
    )
    with tempfile.TemporaryDirectory() as folder, make_outbox(Path(folder), clock=clock, ids=ids) as outbox:
        make_attempt(outbox)
        sender = Sender(outbox, Telemetry(clock=clock, ids=ids), ingest, clock, ids)
        bench = Bench(outbox, ingest, clock, sender)
        for batch in batches:
            logs = make_logs(len(batch))
            outbox.append(FIRST, [type(fact)(message=word) for fact, word in zip(logs, batch, strict=True)])
            clock.advance(sender.run_once().back_off_s)
        drain(bench)
        words = [word for batch in batches for word in batch]
        arrived = sorted(ingest.history(), key=lambda event: str(event["sequence"]))
        assert [int(event["sequence"]) for event in arrived] == list(range(1, len(words) + 1))
        expected = ["ai.run.log" if word == "fine" else "ai.run.event_refused" for word in words]
        assert [event["type"] for event in arrived] == expected
        kept = [int(event["sequence"]) for event in ingest.history() if event["type"] == "ai.run.log"]
        assert kept == sorted(kept), "only a refusal may come late"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"<html>hello</html>",
        b'{"accepted":2,"duplicates":0,"rejec',
        b'{"accepted":1,"duplicates":0,"rejected":[]}',
        b'{"accepted":3,"duplicates":0,"rejected":[]}',
        b'{"accepted":"2","duplicates":0,"rejected":[]}',
        b'{"accepted":2,"duplicates":0,"rejected":[{"id":"x"}]}',
        b"\xff\xfe",
    ],
)
def test_a_body_that_does_not_add_up_is_no_verdict(body: bytes) -> None:
    with pytest.raises(Transient) as raised:
        read_answer(Answer(202, body), lines=2)
    assert raised.value.code == "control_plane_odd"


@pytest.mark.parametrize("status", [200, 204, 301, 302, 404, 405, 409, 418, 429, 500, 502, 503, 504])
def test_every_other_status_acknowledges_nothing(status: int) -> None:
    body = b'{"accepted":2,"duplicates":0,"rejected":[]}'
    with pytest.raises(Transient) as raised:
        read_answer(Answer(status, body), lines=2)
    assert raised.value.code == "control_plane_refuses"


def test_an_attempt_whose_token_opens_nothing_waits_and_holds_up_no_other(bench: Bench) -> None:
    make_attempt(bench.outbox, attempt=2, token="token-2")
    bench.outbox.append(FIRST, make_logs(60))
    bench.outbox.append(AttemptId(RUN_ID, 2), make_logs(3))
    bench.ingest.barred = frozenset({run_token(RUN_ID, 1, TOKEN)})
    assert bench.sender.run_once().left == 60
    assert len(bench.ingest.history(attempt=2)) == 3
    asked = bench.ingest.requests
    assert not bench.sender.flush(bench.clock.monotonic_s() + 1.0)
    assert bench.ingest.requests == asked, "it is asked again when people had time to mend it"
    bench.ingest.barred = frozenset()
    bench.clock.advance(BARRED_S + 1)
    assert bench.sender.run_once().left == 0
    assert len(bench.ingest.history()) == 60


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_opens_nothing_is_no_verdict(status: int) -> None:
    with pytest.raises(Barred, match=str(status)):
        read_answer(Answer(status), lines=2)
