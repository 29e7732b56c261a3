"""What runs show while they run, over real HTTP: each piece once, at any replica, and no run is written."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import ControlPlane
from events.delivery.pipe import Shown
from events.queue.claims import Claim
from events.runtime.clock import SystemClock
from pod_worker.attempt.live_stream import HttpLive, LiveStream

pytestmark = pytest.mark.common_fleet
Until = Callable[..., None]
CLOCK = SystemClock()
NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass
class Heard:
    """What a reader was told."""

    said: list[tuple[str, Any, str]] = field(default_factory=list)

    @property
    def pieces(self) -> list[dict[str, Any]]:
        return [piece for name, pieces, _ in self.said if name == "text" for piece in pieces]

    def text(self, run_id: str, lap: int = 1) -> str:
        return "".join(
            str(each["text"]) for each in self.pieces if (each["run"], each["lap"]) == (run_id, lap)
        )

    @property
    def place(self) -> str:
        return next(place for _, _, place in reversed(self.said) if place)

    def of(self, name: str) -> int:
        return sum(each == name for each, _, _ in self.said)


@contextmanager
def listening(client: httpx.Client, path: str, since: str | None = None) -> Iterator[Heard]:
    """Read live text in a thread of its own until the block ends."""
    heard = Heard()
    headers = {} if since is None else {"Last-Event-ID": since}
    with client.stream("GET", f"/api/{path}/live", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        reader = threading.Thread(target=read, args=(answer, heard))
        reader.start()
        try:
            yield heard
        finally:
            with suppress(OSError):
                answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            reader.join()


def read(answer: httpx.Response, heard: Heard) -> None:
    fields: dict[str, str] = {}
    with suppress(httpx.StreamError, httpx.ReadError, httpx.RemoteProtocolError):
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif fields:
                heard.said.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
                fields = {}


@contextmanager
def showing(fleet: Any, claim: Claim) -> Iterator[LiveStream]:
    """Be the pod of a claim, as far as it shows something."""
    with httpx.Client(base_url=fleet.url, trust_env=False) as client:
        threads: list[threading.Thread] = []

        def start(name: str, work: Callable[[], object]) -> None:
            threads.append(threading.Thread(target=work, name=name))
            threads[-1].start()

        stream = LiveStream(HttpLive(ControlPlane(client, CLOCK)), claim, CLOCK, start)
        try:
            yield stream
        finally:
            stream.stop()
            for each in threads:
                each.join()


def test_a_reader_gets_what_was_shown_before_and_then_each_piece_once(
    fleet: Any, by_hand: Callable[..., Any], until: Until
) -> None:
    run_id = fleet.submit("probe")
    claim = by_hand("runs", "probe/cpu/any").claim
    written = fleet.run(run_id)
    with showing(fleet, claim) as pod:
        pod.put(Shown(lap=1, offset=0, text="one "))
        pod.put(Shown(lap=1, offset=4, text="two ", values={"tokens": 2.0}))
        with listening(fleet.client, f"runs/{run_id}") as heard:
            until(lambda: heard.text(run_id) == "one two ")
            pod.put(Shown(lap=1, offset=8, text="drei ü 🚀\n"))
            pod.put(Shown(lap=2, offset=0, text="next"))
            until(lambda: heard.text(run_id, 2) == "next")
        place = heard.place
        pod.put(Shown(lap=2, offset=4, text=" lap", values={"ttft_s": 0.25}))
        with listening(fleet.client, f"runs/{run_id}", place) as later:
            until(lambda: later.text(run_id, 2) == " lap")
        with listening(fleet.client, f"runs/{run_id}", "8200000001") as lost:
            until(lambda: lost.text(run_id, 2) == "next lap")
    assert heard.text(run_id) == "one two drei ü 🚀\n"
    assert [each["values"] for each in later.pieces] == [{"ttft_s": 0.25}]
    assert (heard.of("reset"), later.of("reset"), lost.of("reset")) == (0, 0, 1)
    assert {each["attempt"] for each in lost.pieces} == {1}
    assert fleet.run(run_id) == written, "nobody's run is written"
