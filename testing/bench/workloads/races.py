"""Races: how far apart lanes on one machine start, beside the same runs that start when they are claimed.

A lane's start is what its process reads from the monotonic clock, which all share, as it passes the barrier;
that of another run is when its worker hears its first word.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx

from podfleet.embedded.stack import Programs
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.machine import CLOCK, pause
from testing.bench.programs.timed_worker import BEGAN
from testing.bench.servers import fleet

LANES: Final = 4
RACES: Final = 30
PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.1
CLOSED: Final = ("COMPLETED", "FAILED", "CANCELED")
CLAIMED: Final = "started when claimed"
METRICS: Final = (
    Metric("start skew, median", "ms", more_is_better=False),
    Metric("start skew, p99", "ms", more_is_better=False, goals=(Goal(20.0),)),
)
NAMES: Final = count(1)
SPEC: Final = {"seconds": 0, "events": 1, "artifact_bytes": 0}


def run(setting: Setting) -> Iterator[Row]:
    """Let lanes race on four workers of this machine."""
    heard = setting.scratch / "heard"
    program = (sys.executable, "-m", "testing.bench.programs.timed_worker", str(heard))
    with (
        fleet(setting.scratch / "fleet", workers=LANES, programs=Programs(worker=program)) as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
    ):
        pods = _pods(client)
        race = {"kind": "race", "lanes": [{"pod": pod} for pod in pods]}
        matrix = {"kind": "matrix", "values": {"seconds": [0] * LANES}, "parallel": LANES}
        times = 2 if setting.small else RACES
        ways = {
            OURS: partial(_measured, client, heard, race, BEGAN, times),
            CLAIMED: partial(_measured, client, heard, matrix, "", times),
        }
        _finished(client, race)  # whose children are warm by now
        yield from contest(f"{LANES} lanes on one machine", METRICS, ways, setting)


def _measured(client: httpx.Client, heard: Path, plan: Mapping[str, Any], mark: str, times: int) -> Figures:
    groups = [_finished(client, plan) for _ in range(times)]
    spoke = {name: float(at) for name, at in map(str.split, heard.read_text().splitlines())}
    skews_ms = [1000 * _spread([spoke[f"{run_id}{mark}"] for run_id in runs]) for runs in groups]
    return {METRICS[0].name: percentile(skews_ms, 0.5), METRICS[1].name: percentile(skews_ms, 0.99)}


def _spread(moments: Sequence[float]) -> float:
    return max(moments) - min(moments)


def _finished(client: httpx.Client, plan: Mapping[str, Any]) -> list[str]:
    """Let a group run to its end; return its runs."""
    name = f"bench-{next(NAMES)}"
    body = {"id": name, "run": {"kind": "probe", "spec": SPEC}, "plan": plan}
    client.post("/api/groups", json=body).raise_for_status()
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while client.get(f"/api/groups/{name}").raise_for_status().json()["status"] not in CLOSED:
        if CLOCK.monotonic_s() > until_s:
            raise TimeoutError(f"{name} does not end")
        pause(LOOK_S)
    found = client.get("/api/runs", params={"group": name}).raise_for_status().json()["items"]
    assert [each["status"] for each in found] == ["COMPLETED"] * LANES
    return [each["id"] for each in found]


def _pods(client: httpx.Client) -> list[str]:
    """Return the names of the workers, once all have reported."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while True:
        found = client.get("/api/pods").raise_for_status().json()["items"]
        names = sorted({each["id"].partition("/")[0] for each in found})
        if len(names) == LANES:
            return names
        if CLOCK.monotonic_s() > until_s:
            raise TimeoutError(f"{len(names)} of {LANES} workers report")
        pause(LOOK_S)


BENCH: Final = Bench("races", "how far apart four lanes on one machine start", run)
