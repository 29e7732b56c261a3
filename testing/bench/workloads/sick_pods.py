"""Sick pods: how many runs a fleet completes beside pods that fail everything at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

import httpx
from pymongo import MongoClient

from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.queue.abilities import Abilities
from events.queue.matching import Seeker
from events.queue.roster import REPORT_EVERY_S
from events.queue.settlement import End
from events.runtime.errors import Transient
from events.text.key_text import letters
from pod_worker.machine.gauges import Capabilities, Telemetry
from pod_worker.queue.http import HttpQueue
from pod_worker.queue.roster import PodReport
from podfleet.embedded.stack import Stack
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.load import backlog
from testing.bench.machine import CLOCK, pause
from testing.bench.servers import fleet

PODS: Final = 50
SICK: Final = 5
SECONDS: Final = 60.0
WORK_S: Final = 4.0
WAIT_S: Final = 2.0
KIND: Final = "probe"
SOUND: Final = "all sound"
REFUSED: Final = End("failed", "MODEL_UNAUTHORISED", "the key is refused", retryable=False)
METRICS: Final = (
    Metric("completed", "/s", goals=(Goal(0.88, SOUND),)),
    Metric("charged to runs", "", more_is_better=False, goals=(Goal(0),)),
    Metric("failures of sick pods", "", more_is_better=False),
    Metric("last failure after", "s", more_is_better=False),
)
ROUNDS: Final = count(1)


@dataclass(slots=True)
class Tally:
    """What the pods of one measurement did."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    completed: int = 0
    failures: int = 0
    last_failure_s: float = 0.0


def run(setting: Setting) -> Iterator[Row]:
    """Let pods over HTTP work on a deep queue, all sound or some of them sick."""
    pods, sick, seconds = (10, 1, 8.0) if setting.small else (PODS, SICK, SECONDS)
    with (
        fleet(setting.scratch / "fleet") as stack,
        MongoClient[dict[str, Any]](stack.mongodb_url, tz_aware=True) as client,
    ):
        runs = client.get_default_database().runs
        depth = int(2 * pods * seconds / WORK_S)
        ways = {
            OURS: partial(_measured, stack, runs, depth, pods, sick, seconds),
            SOUND: partial(_measured, stack, runs, depth, pods, 0, seconds),
        }
        yield from contest(f"{pods} pods, {sick} sick", METRICS, ways, setting)


def _measured(stack: Stack, runs: Any, depth: int, pods: int, sick: int, seconds: float) -> Figures:
    _fill(stack, depth - runs.count_documents({"status": "QUEUED"}))
    charged = runs.count_documents({"failures.app": {"$gt": 0}})
    tally, stop, number = Tally(), threading.Event(), next(ROUNDS)
    begun_s = CLOCK.monotonic_s()
    threads = [
        threading.Thread(
            target=_serve, args=(stack.url, f"pod-{number}-{each}/1", each < sick, begun_s, tally, stop)
        )
        for each in range(pods)
    ]
    for thread in threads:
        thread.start()
    pause(seconds)
    completed = tally.completed
    stop.set()
    for thread in threads:
        thread.join()
    return {
        "completed": completed / seconds,
        "charged to runs": runs.count_documents({"failures.app": {"$gt": 0}}) - charged,
        "failures of sick pods": tally.failures,
        "last failure after": tally.last_failure_s,
    }


def _fill(stack: Stack, wanted: int) -> None:
    with (
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as http,
        ThreadPoolExecutor(8) as threads,
    ):
        for answer in threads.map(lambda _: http.post("/api/runs", json={"kind": KIND}), range(wanted)):
            answer.raise_for_status()


def _serve(url: str, pod_id: str, is_sick: bool, begun_s: float, tally: Tally, stop: threading.Event) -> None:
    """Claim, work and settle as one pod, and report; a sick one fails what it claims at once."""
    queue = HttpQueue(ControlPlane(control_plane_client(url, None), CLOCK), wait_s=WAIT_S)
    seeker = Seeker(pod_id, "experiment", Abilities(frozenset({KIND}), 0.0, None))
    reported_s = -REPORT_EVERY_S
    while not stop.is_set():
        try:
            if CLOCK.monotonic_s() - reported_s >= REPORT_EVERY_S:
                queue.report(_report(pod_id))
                reported_s = CLOCK.monotonic_s()
            claim = queue.claim(seeker, token=letters(backlog.IDS.token()))
            if claim is None:
                continue
            if not is_sick:
                stop.wait(WORK_S)
            queue.settle(claim, REFUSED if is_sick else End("completed"), 0, jitter=0.0)
        except Transient:
            stop.wait(WAIT_S)
            continue
        with tally.lock:
            if is_sick:
                tally.failures += 1
                tally.last_failure_s = CLOCK.monotonic_s() - begun_s
            else:
                tally.completed += 1


def _report(pod_id: str) -> PodReport:
    name, _, _ = pod_id.partition("/")
    fixed: Mapping[str, Any] = {
        "mode": "experiment", "region": None, "isolation": "strict", "pipeline_user": "nobody",
        "run_id": None, "attempt": None, "device": None, "version": "bench",
    }  # fmt: skip
    return PodReport(
        id=pod_id,
        pod=name,
        kinds=(KIND,),
        state="idle",
        capabilities=Capabilities(cpus=1, memory_mib=1024.0),
        telemetry=Telemetry(cpu_util=None, memory_mib=1.0),
        started_at=CLOCK.now(),
        **fixed,
    )


BENCH: Final = Bench("sick-pods", "what sick pods cost the others and the runs", run)
