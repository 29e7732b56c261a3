"""Pick-up at idle: from the submission over HTTP to the first word of the pipeline's process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import httpx

from events.lifecycle import FINAL
from scripts.bench.contest import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from scripts.bench.house import fleet
from scripts.bench.machine import CLOCK, pause

SUBMISSIONS: Final = 40
READY_S: Final = 60.0
LOOK_S: Final = 0.02
IDLE_S: Final = 1.0  # and up to as much again, so that no rhythm of ours meets one of theirs
METRICS: Final = (
    Metric("median", "ms", more_is_better=False, goal=Goal(15)),
    Metric("p99", "ms", more_is_better=False, goal=Goal(50)),
    Metric("submission, median", "ms", more_is_better=False),
)


def run(setting: Setting) -> Iterator[Row]:
    """Submit runs, one at a time, to a fleet with an idle worker."""
    draw = random.Random(1)
    with (
        fleet(setting.scratch / "fleet", workers=1) as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
    ):
        _finished(client, _submit(client))  # the worker is ready
        count = 3 if setting.small else SUBMISSIONS

        def measured() -> Figures:
            late_s, submission_s = zip(*(_pick_up(client, draw) for _ in range(count)), strict=True)
            return {
                "median": 1000 * percentile(late_s, 0.5),
                "p99": 1000 * percentile(late_s, 0.99),
                "submission, median": 1000 * percentile(submission_s, 0.5),
            }

        yield from contest("pick-up", METRICS, {OURS: measured}, setting)


def _pick_up(client: httpx.Client, draw: random.Random) -> tuple[float, float]:
    """Return after how many seconds the child spoke, and after how many the submission was answered."""
    pause(IDLE_S * (1 + draw.random()))
    submitted = CLOCK.now()
    run_id = _submit(client)
    answered = CLOCK.now()
    _finished(client, run_id)
    events = client.get(f"/api/runs/{run_id}/events", params={"type": "ai.run.started"}).json()["items"]
    spoke = datetime.fromisoformat(events[0]["time"])
    return (spoke - submitted).total_seconds(), (answered - submitted).total_seconds()


def _submit(client: httpx.Client) -> str:
    answer = client.post("/api/runs", json={"kind": "probe", "spec": {"seconds": 0, "events": 1}})
    run_id: str = answer.raise_for_status().json()["id"]
    return run_id


def _finished(client: httpx.Client, run_id: str) -> dict[str, Any]:
    until_s = CLOCK.monotonic_s() + READY_S
    while CLOCK.monotonic_s() < until_s:
        found: dict[str, Any] = client.get(f"/api/runs/{run_id}").json()
        if found["status"] in FINAL and not found["logOpen"]:
            return found
        pause(LOOK_S)
    raise AssertionError(f"the run does not end: {found}")


BENCH: Final = Bench("pickup", "from submission to the first word of the child, at idle", run)
