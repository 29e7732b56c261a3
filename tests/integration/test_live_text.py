"""What runs show while they run, over real HTTP: each piece once, at any replica, and no run is written."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import ControlPlane, bearer
from events.delivery.pipe import Shown
from events.queue.claims import Claim
from events.runtime.clock import SystemClock
from events.runtime.loops import start_thread
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
        mine = [each for each in self.pieces if (each["run"], each["lap"]) == (run_id, lap)]
        return "".join(str(each["text"]) for each in mine)

    @property
    def place(self) -> str:
        return [place for _, _, place in self.said if place][-1]

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
    until(lambda: fleet.run(run_id)["attempts"] and not fleet.run(run_id)["journal"])  # the claim is told
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


def test_readers_of_a_group_hear_its_lanes_and_nobody_elses(
    fleet: Any, by_hand: Callable[..., Any], until: Until
) -> None:
    plan = {"kind": "matrix", "values": {"seconds": [0, 1]}, "parallel": 2}
    body = {"id": "shown", "run": {"kind": "probe"}, "plan": plan}
    assert fleet.client.post("/api/groups", json=body).status_code == 201
    runs: list[str] = []

    def are_there() -> bool:
        found = fleet.client.get("/api/runs", params={"group": "shown"}).json()["items"]
        runs[:] = sorted(each["id"] for each in found)
        return len(runs) == 2

    until(are_there)
    stranger = fleet.submit("probe")
    claims = {hand.claim.run_id: hand.claim for hand in (by_hand("runs", "probe/cpu/any") for _ in range(3))}
    assert set(claims) == {*runs, stranger}
    with (
        listening(fleet.client, "groups/shown") as heard,
        showing(fleet, claims[runs[0]]) as first,
        showing(fleet, claims[runs[1]]) as second,
        showing(fleet, claims[stranger]) as other,
    ):
        for number in range(50):
            other.put(Shown(lap=1, offset=2 * number, text="no"))
            first.put(Shown(lap=1, offset=2 * number, text=f"{number:2}"))
            second.put(Shown(lap=1, offset=2 * number, text=f"{number:2}"))
        whole = "".join(f"{number:2}" for number in range(50))
        until(lambda: [heard.text(run_id) for run_id in runs] == [whole, whole])
        with listening(fleet.client, "groups/shown") as late:
            until(lambda: [late.text(run_id) for run_id in runs] == [whole, whole])
    assert {each["run"] for each in (*heard.pieces, *late.pieces)} == set(runs)
    assert fleet.client.get("/api/groups/none/live").status_code == 404
    assert fleet.client.get("/api/runs/none/live").status_code == 404


def post(fleet: Any, run_id: str, token: str, body: Any) -> httpx.Response:
    answer: httpx.Response = fleet.client.post(
        f"/api/runs/{run_id}/live", content=body, headers={**NDJSON, **bearer(token)}
    )
    return answer


def test_who_does_not_hold_the_run_or_sends_anything_else_shows_nothing(
    fleet: Any, by_hand: Callable[..., Any], until: Until
) -> None:
    run_id, other = fleet.submit("probe"), fleet.submit("probe")
    claims = {hand.claim.run_id: hand.claim for hand in (by_hand("runs", "probe/cpu/any") for _ in range(2))}
    mine, foreign = claims[run_id].run_token, claims[other].run_token
    good = b'{"text":"mine"}\n'
    with listening(fleet.client, f"runs/{run_id}") as heard:
        taken = post(fleet, run_id, mine, good)
        assert (taken.status_code, taken.json()) == (200, {"taken": 1, "dropped": 0})
        until(lambda: heard.text(run_id) == "mine")  # it listens: of a backlog it would not get all
        assert post(fleet, run_id, foreign, good).json()["code"] == "foreign_run"
        assert post(fleet, run_id, mine[:-3] + "xxx", good).status_code == 401
        later = replace(claims[run_id], attempt=2).run_token
        assert post(fleet, run_id, later, good).status_code == 401
        refused = post(fleet, run_id, mine, good + b"what\n")
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_live_text")
        assert "line 2" in refused.json()["detail"]
        long = post(fleet, run_id, mine, b"x" * 40_000)
        assert (long.status_code, long.json()["code"]) == (422, "line_too_long")
        flood = b"".join(b'{"offset":%d,"text":"%s"}\n' % (1000 * n, b"y" * 1000) for n in range(1_000))
        answer = post(fleet, run_id, mine, flood).json()
        assert answer["taken"] + answer["dropped"] == 1_000
        assert 100 <= answer["taken"] < 600, "64 KiB a second, and twice that at once"
        until(lambda: heard.text(run_id).count("y") == 1000 * answer["taken"])
        assert heard.text(run_id).count("mine") == 2, "what came before the bad line was good"


def test_a_pod_reads_the_answer_of_a_control_plane_that_refuses_in_the_middle(
    fleet: Any, by_hand: Callable[..., Any], until: Until
) -> None:
    fleet.submit("probe")
    claim = by_hand("runs", "probe/cpu/any").claim
    with httpx.Client(base_url=fleet.url, trust_env=False) as client:
        wrong = replace(claim, token="not-it")
        stream = LiveStream(HttpLive(ControlPlane(client, CLOCK)), wrong, CLOCK, start_thread)
        stream._request_s = 0.1
        stream.put(Shown(lap=1, offset=0, text="never"))
        until(lambda: stream._is_over)
        stream.put(Shown(lap=1, offset=5, text="again"))
    assert not stream._pieces
