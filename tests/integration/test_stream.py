"""The live stream over real HTTP: nothing lost and nothing twice, whoever is restarted."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from events.catalog import RunLog, RunStarted, StageMetric
from events.delivery.pipe import Shown
from tests.integration.conftest import start_control_plane
from tests.integration.test_live_text import listening as watching
from tests.integration.test_live_text import showing

pytestmark = pytest.mark.common_fleet
Until = Callable[..., None]
# A control plane that ends no request before it is answered, however long that takes.
PATIENT = ("-c", "import sys; from control_plane import __main__ as m; m.GRACE_S = 3600; sys.exit(m.main())")


@dataclass
class Heard:
    """What a stream said, as one reads it."""

    said: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [data for each, data, _ in self.said if each == name]

    @property
    def place(self) -> str:
        return next(place for _, _, place in reversed(self.said) if place)


@contextmanager
def listening(client: httpx.Client, since: str | None = None, **params: str) -> Iterator[Heard]:
    """Read a stream in a thread of its own until the block ends."""
    heard = Heard()
    headers = {} if since is None else {"Last-Event-ID": since}
    with client.stream("GET", "/api/stream", params=params, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        reader = threading.Thread(target=read, args=(answer, heard))
        reader.start()
        try:
            yield heard
        finally:
            stream = answer.extensions["network_stream"]
            with suppress(OSError):  # the server has ended it already
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            reader.join()


def read(answer: httpx.Response, heard: Heard) -> None:
    fields: dict[str, str] = {}
    try:
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif fields:
                if "event" in fields:
                    heard.said.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
                fields = {}
    except (httpx.StreamError, httpx.ReadError, httpx.RemoteProtocolError):
        return  # the block is over, or the server is


def test_a_stream_tells_of_every_run_and_of_one_runs_whole_log(
    fleet: Any, by_hand: Callable[..., Any], until: Until
) -> None:
    with listening(fleet.client) as fleets, listening(fleet.client, run="none") as others:
        until(lambda: fleets.said and others.said)
        run_id = fleet.submit("probe")
        # changes of the test before, on the same control plane, may still come
        until(lambda: "QUEUED" in [each["status"] for each in fleets.of("run") if each["id"] == run_id])
        with listening(fleet.client, run=run_id) as its_own:
            until(lambda: its_own.said)
            hand = by_hand("runs", "probe/cpu/any")
            far = StageMetric(stage="s", name="bytes", value=0.5, step=2**40)  # beyond 32 bits
            hand.say(RunStarted(), far, *(RunLog(level="info", message=f"line {n}") for n in range(40)))
            until(lambda: len([each for each in its_own.of("event") if each["type"] == "ai.run.log"]) == 40)
            until(lambda: its_own.of("run") and its_own.of("run")[-1]["status"] == "RUNNING")
        lines = [each["data"]["message"] for each in its_own.of("event") if each["type"] == "ai.run.log"]
        assert lines == [f"line {n}" for n in range(40)]
        assert [each["data"]["step"] for each in its_own.of("event") if "step" in each["data"]] == [2**40]
        assert {each["runId"] for each in its_own.of("event")} == {run_id}
        assert fleets.of("event") == [], "the log of a run is for those who ask for it"
        assert others.of("run") == others.of("event") == []


def test_a_stream_goes_on_where_it_was_at_another_control_plane(
    fleet: Any, s3: Any, by_hand: Callable[..., Any], until: Until, tmp_path: Any
) -> None:
    run_id = fleet.submit("probe")
    hand = by_hand("runs", "probe/cpu/any")
    with listening(fleet.client, run=run_id) as first:
        until(lambda: first.said)
        hand.say(RunStarted(), *(RunLog(level="info", message=f"line {n}") for n in range(5)))
        until(lambda: len(first.of("event")) >= 6)
    hand.say(*(RunLog(level="info", message=f"line {n}") for n in range(5, 10)))
    home = tmp_path / "second"
    home.mkdir()
    process, url = start_control_plane(home, fleet.database_url, s3, program=PATIENT)
    try:
        with (
            httpx.Client(base_url=url, trust_env=False, timeout=30.0) as client,
            listening(client, since=first.place, run=run_id) as second,
            watching(fleet.client, f"runs/{run_id}") as here,
            watching(client, f"runs/{run_id}") as there,
            showing(SimpleNamespace(url=url), hand.claim) as pod,
        ):
            until(lambda: len(second.of("event")) >= 5)
            pod.put(Shown(lap=1, offset=0, text="seen at both"))
            until(lambda: {here.text(run_id), there.text(run_id)} == {"seen at both"})
            process.terminate()  # what is read, or sent without an end, must not keep the server
            assert process.wait(60) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    told = [each["data"] for heard in (first, second) for each in heard.of("event")]
    lines = [each["message"] for each in told if "message" in each]
    assert lines == [f"line {n}" for n in range(10)], "nothing lost, nothing twice"
    assert second.of("reset") == []


def test_a_reader_from_too_long_ago_is_told_to_look_anew(fleet: Any, until: Until) -> None:
    with listening(fleet.client, since="8200000001") as heard:
        until(lambda: heard.of("reset"))
        run_id = fleet.submit("probe")
        until(lambda: run_id in [each["id"] for each in heard.of("run")])


def test_one_trace_leads_from_the_submission_to_every_event(fleet: Any, until: Until) -> None:
    theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    answer = fleet.client.post("/api/runs", json={"kind": "probe"}, headers={"traceparent": theirs})
    run_id = answer.json()["id"]
    fleet.start_worker()
    run = fleet.wait_for(run_id, "COMPLETED")
    events = fleet.client.get(f"/api/runs/{run_id}/events", params={"limit": 200}).json()["items"]
    numbered = [each["traceparent"] for each in events if each["sequence"] is not None]
    assert numbered, "the pipeline said something"
    assert len(set(numbered)) == 1, "an attempt is one span"
    assert {each[3:35] for each in (*numbered, run["traceparent"])} == {theirs[3:35]}
    assert theirs[3:35] in fleet.client.get(f"/runs/{run_id}").text
