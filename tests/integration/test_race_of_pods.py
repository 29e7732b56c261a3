"""A race of four real pods: one is slow, one killed, one stands still for a time, one has a wrong clock."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from control_plane.model.groups.races.race import LATE_S
from events.runtime.clock import SystemClock
from tests.integration.conftest import QUICK_WORKER, Fleet
from tests.integration.test_clocks import WRONG_CLOCK, shift_of
from tests.integration.test_steering import must_agree_with_its_log
from tests.servers import S3Server

Until = Callable[..., None]
CLOCK = SystemClock()
SLOW, KILLED, FROZEN, WRONG = PODS = ("slow", "killed", "frozen", "wrong")
OVER = ("COMPLETED", "FAILED", "CANCELED")
AHEAD_S = 10.0
FROZEN_S = 20.0
PIECES, EVERY_S = 120, 0.1
WORDS = ("wörd ", "🚀🚀", "<b>bold</b>\n", "\u202eleft\u202c ", "e\u0301", "=1+1,", "\t", "a" * 200)


class Engine(BaseHTTPRequestHandler):
    """A server of the interface of OpenAI that keeps what it said to each pod, which the path names."""

    server: Asked

    def do_POST(self) -> None:
        pod = self.path.split("/")[1]
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pieces = PIECES if asked["max_tokens"] == PIECES else 1  # the warm-up wants few
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for number in range(pieces):
                piece = f"{pod}{number} {WORDS[number % len(WORDS)]}"
                self._say({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                if pieces == PIECES:
                    self.server.said[pod].append(piece)
                    CLOCK.wait(threading.Event(), EVERY_S)
            self._say({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            self._say({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": pieces}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            return  # who asked is gone

    def _say(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


class Asked(ThreadingHTTPServer):
    """The server with what it said."""

    daemon_threads = True

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = defaultdict(list)
        super().__init__(("127.0.0.1", 0), Engine)


@pytest.fixture
def engine() -> Iterator[Asked]:
    with Asked() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def family(pid: int) -> list[psutil.Process]:
    """Return a worker with all that it started."""
    worker = psutil.Process(pid)
    return [worker, *worker.children(recursive=True)]


def start_pods(fleet: Fleet, port: int) -> dict[str, int]:
    """Start the four pods; return the ids of their processes."""
    found = {}
    for pod in PODS:
        programs: tuple[str, ...] = (QUICK_WORKER, "--lease", "10" if pod == KILLED else "60")
        if pod == WRONG:
            home = fleet.home / "clock"
            home.mkdir()
            programs = (WRONG_CLOCK, shift_of(home, AHEAD_S), *programs)
        place = f"own=http://127.0.0.1:{port}/{pod}/v1"
        started = fleet.start(
            *programs, name=pod, MONGODB_URL="", WORKER_MODE="hybrid", PODFLEET_ENDPOINTS=place
        )
        found[pod] = started.pid
    for each in family(found[SLOW]):
        each.nice(19)
        each.cpu_affinity(each.cpu_affinity()[:1])
    return found


def the_race(fleet: Fleet) -> dict[str, Any]:
    answer = fleet.client.get("/api/races/r")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def text_of(fleet: Fleet, run_id: str) -> bytes:
    """Return the text that a lane kept."""
    files = fleet.client.get(f"/api/runs/{run_id}/artifacts").json()["items"]
    (text,) = [each["id"] for each in files if each["name"] == "text-1.txt"]
    return fleet.client.get(f"/api/artifacts/{text}", follow_redirects=True).raise_for_status().content


@pytest.mark.long("test_races.py plays such lanes, test_race_pages.py reads them")
@pytest.mark.timeout(600)
def test_a_race_ends_whatever_befalls_its_pods_and_tells_of_each_what_befell_it(
    fleet: Fleet, engine: Asked, until: Until, s3: S3Server
) -> None:
    pids = start_pods(fleet, engine.server_port)
    until(lambda: len(fleet.client.get("/api/pods").json()["items"]) == len(PODS), seconds=120.0)
    spec = {"model": "m", "prompt": "Say something.", "endpoint": "own", "max_tokens": PIECES}
    lanes = [{"pod": pod} for pod in PODS]
    made = fleet.client.post("/api/races", json={"name": "r", "kind": "prompt", "spec": spec, "lanes": lanes})
    assert made.status_code == 201, made.text
    until(lambda: all(len(engine.said[pod]) > 10 for pod in PODS), seconds=180.0)

    frozen = family(pids[FROZEN])
    for each in frozen:
        each.suspend()
    frozen_at_s = CLOCK.monotonic_s()
    for each in family(pids[KILLED]):
        each.kill()
    CLOCK.wait(threading.Event(), frozen_at_s + FROZEN_S - CLOCK.monotonic_s())
    for each in frozen:
        each.resume()

    until(lambda: the_race(fleet)["status"] in OVER, seconds=240.0)
    race = the_race(fleet)
    found = {each["pod"]: each for each in race["lanes"]}
    assert (found[KILLED]["state"], found[KILLED]["place"]) == ("dead", None), found[KILLED]
    for pod in (SLOW, FROZEN, WRONG):
        lane, ahead_s = found[pod], AHEAD_S if pod == WRONG else 0.0
        assert (lane["status"], lane["attempt"]) == ("COMPLETED", 1), lane
        assert lane["state"] == "late" or (lane["state"], lane["lateS"] < LATE_S) == ("started", True), lane
        assert abs(lane["offsetS"] - ahead_s) <= lane["boundS"] < 1.0, lane
        assert text_of(fleet, lane["runId"]) == "".join(engine.said[pod]).encode(), pod
    assert found[FROZEN]["finishS"] >= FROZEN_S
    in_time = [each["lateS"] for each in found.values() if each["lateS"] < LATE_S]  # one of them died later
    if len(in_time) > 1:
        assert race["skewS"] == pytest.approx(max(in_time) - min(in_time), abs=1e-5)
    assert race["verdict"]["winner"] != KILLED
    must_agree_with_its_log(fleet, **s3.environment)
