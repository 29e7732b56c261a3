"""Metrics into MLflow, in batches, over several connections, each with a run of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Final, NamedTuple

import httpx
import msgspec

from testing.bench.machine import CLOCK

API: Final = "/api/2.0/mlflow/runs"
PER_S_MAX: Final = 40_000  # more are not made ready
NAMES: Final = 5  # metrics of a step
LIMIT_S: Final = 60.0


class Logged(NamedTuple):
    """How many metrics were stored, for how long, and how long each request took."""

    metrics: int
    seconds: float
    taken_s: list[float]


def log_batches(url: str, size: int, connections: int, seconds: float) -> Logged:
    """Send batches as fast as they are answered."""
    requests = 2 + int(PER_S_MAX * seconds / size / connections)
    ready = Barrier(connections)

    def send(_: int) -> Logged:
        with httpx.Client(base_url=url, trust_env=False, timeout=LIMIT_S) as client:
            made = client.post(f"{API}/create", json={"experiment_id": "0", "start_time": 0})
            run_id = made.raise_for_status().json()["run"]["info"]["run_id"]
            bodies = [batch(run_id, turn * size, size) for turn in range(requests)]
            _send(client, bodies[:1], size, seconds)  # whoever serves this connection has begun
            ready.wait()
            return _send(client, bodies[1:], size, seconds)

    with ThreadPoolExecutor(connections) as threads:
        results = list(threads.map(send, range(connections)))
    taken_s = [each for one in results for each in one.taken_s]
    return Logged(sum(one.metrics for one in results), max(one.seconds for one in results), taken_s)


def batch(run_id: str, first: int, size: int) -> bytes:
    """Return a request for so many metrics, from the `first` one on: five of each step."""
    now_ms = int(1000 * CLOCK.now().timestamp())
    metrics: list[dict[str, Any]] = [
        {
            "key": f"metric{number % NAMES}",
            "value": 1 / (1 + number),
            "timestamp": now_ms,
            "step": number // NAMES,
        }
        for number in range(first, first + size)
    ]
    return msgspec.json.encode({"run_id": run_id, "metrics": metrics})


def _send(client: httpx.Client, bodies: list[bytes], size: int, seconds: float) -> Logged:
    taken_s: list[float] = []
    begun_s = CLOCK.monotonic_s()
    for body in bodies:
        asked_s = CLOCK.monotonic_s()
        if asked_s > begun_s + seconds:
            break
        headers = {"Content-Type": "application/json"}
        client.post(f"{API}/log-batch", content=body, headers=headers).raise_for_status()
        taken_s.append(CLOCK.monotonic_s() - asked_s)
    return Logged(size * len(taken_s), CLOCK.monotonic_s() - begun_s, taken_s)
