"""The sender against a real HTTP server that misbehaves: everything arrives once and in order."""

from __future__ import annotations

import gzip
import json
import random
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.delivery.ingest_client import HttpIngest
from events.delivery.outbox import Outbox
from events.delivery.sender import BARRED_S, Delivery, Sender, Telemetry
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

KEY: Final = "pf_test_key"
ANSWERS: Final = (
    *("fine", "fine", "503", "429", "500", "cut", "eaten", "reset", "reset_after"),
    *("garbage", "short_count", "404", "413", "empty", "302"),
)


class Server(ThreadingHTTPServer):
    """Serves `POST /api/ingest/events` by the contract, or by the next of `faults`."""

    daemon_threads = True

    def __init__(self, ingest: FakeIngest, faults: Iterable[str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.is_closed = False
        self.ingest = ingest
        self.faults = iter(faults)
        self.met: list[str] = []
        self.encodings: set[str | None] = set()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that we cut ourselves is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self._answer(body)

    def _is_known(self) -> bool:
        """Say whether an attempt speaks for itself: a token, and events of its own run alone."""
        return not self.server.is_closed and str(self.headers["Authorization"]).startswith("Bearer pf_run_")

    def _answer(self, body: bytes) -> None:
        server = self.server
        if self.path != "/api/ingest/events" or not self._is_known():
            self._send(401, {"title": "no key"})
            return
        assert self.headers["Content-Type"] == "application/x-ndjson"
        server.encodings.add(self.headers["Content-Encoding"])
        fault = next(server.faults, "fine")
        server.met.append(fault)
        if fault == "reset":
            self._reset()
        elif fault in ("503", "429"):
            self._send(int(fault), {"title": "busy"}, {"Retry-After": "3"})
        elif fault in ("500", "404"):
            self._send(int(fault), {"title": "broken"})
        elif fault == "302":
            self._send(302, {}, {"Location": "/api/ingest/events"})
        elif fault == "413":
            self._send(413, {"title": "over the limit"})
        else:
            self._take(gzip.decompress(body).split(b"\n"), fault)

    def _take(self, lines: list[bytes], fault: str) -> None:
        declined = self.server.ingest.declines(lines)
        if declined is not None:
            self._send(413 if declined.is_too_large else 400, {"title": declined.message})
            return
        verdicts = self.server.ingest.take(lines)
        good = verdicts.accepted + verdicts.duplicates
        status = 202 if not verdicts.rejected else 207 if good else 422
        fenced = [f"{run_id}/{attempt}" for run_id, attempt in self.server.ingest.fenced]
        answer = {**asdict(verdicts), "ackedThrough": {}, "fenced": fenced, "unknown": 0}
        if fault == "reset_after":
            self._reset()
        elif fault == "eaten":
            self.close_connection = True
        elif fault == "cut":
            self._send(status, answer, cut=True)
        elif fault == "garbage":
            self._send_bytes(202, b"<html>Welcome to the hotel's network</html>")
        elif fault == "empty":
            self._send_bytes(202, b"")
        elif fault == "short_count":
            self._send(202, {**answer, "accepted": max(0, verdicts.accepted - 1), "duplicates": 0})
        else:
            self._send(status, answer)

    def _send(
        self, status: int, answer: dict[str, Any], headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self._send_bytes(status, json.dumps(answer).encode(), headers, cut=cut)

    def _send_bytes(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _reset(self) -> None:
        # A linger of zero seconds makes the close a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def serving(ingest: FakeIngest, faults: Iterable[str] = ()) -> Iterator[Server]:
    with Server(ingest, faults) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True)
class Bench:
    """A sender over HTTP with everything around it in reach."""

    outbox: Outbox
    sender: Sender
    clock: ManualClock

    def drain(self, *, steps_max: int = 500) -> list[Delivery]:
        deliveries = []
        for _ in range(steps_max):
            deliveries.append(self.sender.run_once())
            if deliveries[-1].left == 0:
                return deliveries
            self.clock.advance(deliveries[-1].back_off_s)
        pytest.fail(f"{self.outbox.pending()} events are stuck")


@contextmanager
def bench_at(url: str, folder: Path) -> Iterator[Bench]:
    clock, ids = ManualClock(), SeededIds()
    with make_outbox(folder, clock=clock, ids=ids) as outbox, control_plane_client(url, KEY) as client:
        make_attempt(outbox)
        sender = Sender(
            outbox, Telemetry(clock=clock, ids=ids), HttpIngest(ControlPlane(client, clock)), clock, ids
        )
        yield Bench(outbox, sender, clock)


def sequences(ingest: FakeIngest, run_id: str = RUN_ID) -> list[int]:
    return [int(event["sequence"]) for event in ingest.history(run_id)]


def test_events_travel_gzipped_and_come_back_as_verdicts(tmp_path: Path) -> None:
    ingest = FakeIngest()
    ingest.fenced = frozenset({(RUN_ID, 1)})
    with serving(ingest) as server, bench_at(server.url, tmp_path) as bench:
        bench.outbox.append(FIRST, make_logs(700))
        (delivery,) = bench.drain()
    assert (delivery.stored, delivery.refused, delivery.fenced) == (700, 0, frozenset({(RUN_ID, 1)}))
    assert sequences(ingest) == list(range(1, 701))
    assert server.encodings == {"gzip"}
    assert len(server.met) == 2, "a backlog goes in large batches"


@pytest.mark.parametrize("fault", sorted(set(ANSWERS) - {"fine"}))
def test_no_fault_loses_or_doubles_an_event(tmp_path: Path, fault: str) -> None:
    ingest = FakeIngest()
    with serving(ingest, [fault]) as server, bench_at(server.url, tmp_path) as bench:
        bench.outbox.append(FIRST, make_logs(20))
        deliveries = bench.drain()
    assert server.met[0] == fault
    assert sequences(ingest) == list(range(1, 21))
    if fault in ("503", "429"):
        assert 3.0 <= deliveries[0].back_off_s <= 3.5, "Retry-After is honoured"


@pytest.mark.parametrize("seed", range(6))
def test_any_mix_of_faults_leaves_each_event_stored_once_and_in_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    other = "01K00000000000000000000002"
    refused = {f"line {number}" for number in chance.sample(range(1, 400), 12)}
    unreadable = {f"line {number}" for number in chance.sample(range(1, 400), 3)} - refused
    ingest = FakeIngest(
        refuses=lambda event: "invalid_data" if event["data"].get("message") in refused else None,
        chokes=lambda event: event["data"].get("message") in unreadable,
        lines_max=chance.choice([5, 50, 1_000]),
    )
    faults = chance.choices(ANSWERS, k=60)
    with serving(ingest, faults) as server, bench_at(server.url, tmp_path) as bench:
        make_attempt(bench.outbox, other)
        said = 0
        while said < 400:
            count = chance.randint(1, 60)
            bench.outbox.append(FIRST, make_logs(count, first=said + 1))
            bench.outbox.append(AttemptId(other, 1), make_logs(3, first=1_000))
            said += count
            bench.clock.advance(bench.sender.run_once().back_off_s)
        bench.drain()
    arrived = sorted(ingest.history(), key=lambda event: str(event["sequence"]))
    assert [int(event["sequence"]) for event in arrived] == list(range(1, said + 1)), f"seed {seed}"
    for number, event in enumerate(arrived, 1):
        lost = f"line {number}" in refused | unreadable
        assert event["type"] == ("ai.run.event_refused" if lost else "ai.run.log"), f"seed {seed}"
    in_order = [int(event["sequence"]) for event in ingest.history() if event["type"] == "ai.run.log"]
    assert in_order == sorted(in_order), f"seed {seed}"
    assert sequences(ingest, other) == sorted(sequences(ingest, other)), f"seed {seed}"
    assert len(server.met) > 20, f"seed {seed}"


def test_a_request_of_which_nothing_is_valid_is_judged_line_by_line(tmp_path: Path) -> None:
    ingest = FakeIngest(refuses=lambda event: "invalid_data" if event["type"] == "ai.run.log" else None)
    with serving(ingest) as server, bench_at(server.url, tmp_path) as bench:
        bench.outbox.append(FIRST, make_logs(3))
        bench.drain()
    assert [event["type"] for event in ingest.history()] == ["ai.run.event_refused"] * 3


def test_a_token_that_opens_nothing_loses_nothing_and_waits_long(tmp_path: Path) -> None:
    ingest = FakeIngest()
    with serving(ingest) as server, bench_at(server.url, tmp_path) as bench:
        bench.outbox.append(FIRST, make_logs(3))
        server.is_closed = True
        assert bench.sender.run_once().left == 3
        server.is_closed = False
        assert bench.sender.run_once().left == 3
        bench.clock.advance(BARRED_S + 1)
        assert bench.sender.run_once().left == 0
    assert sequences(ingest) == [1, 2, 3]


def test_a_control_plane_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with serving(FakeIngest()) as gone:
        url = gone.url
    with bench_at(url, tmp_path) as bench:
        bench.outbox.append(FIRST, make_logs(3))
        for _ in range(3):
            delivery = bench.sender.run_once()
            assert delivery.left == 3
            assert delivery.back_off_s > 0
            bench.clock.advance(delivery.back_off_s)


def test_left_over_events_are_delivered_by_the_next_worker(tmp_path: Path) -> None:
    ingest = FakeIngest()
    with serving(ingest, ["reset_after"]) as server:
        with bench_at(server.url, tmp_path) as first:
            first.outbox.append(FIRST, make_logs(10))
            first.sender.run_once()
        with bench_at(server.url, tmp_path) as second:
            second.drain()
    assert sequences(ingest) == list(range(1, 11))
