"""Metrics for Prometheus: counters of this process, and the fleet's state in MongoDB at scrape.

Every name ends in its unit. The help of a number that is bounded states the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, generate_latest

from control_plane.reads.numbers import Numbers, Shortage
from control_plane.reads.reading import Overview
from control_plane.server.readiness import OK

REGISTRY: Final = CollectorRegistry()  # what this process knows
FLEET: Final = CollectorRegistry()  # what MongoDB says; left out while it does not answer


def _gauge(name: str, says: str, *labels: str, registry: CollectorRegistry = FLEET) -> Gauge:
    return Gauge(f"podfleet_{name}", says, labels, registry=registry)


EVENTS: Final = Counter("podfleet_events", "Events by verdict", ["verdict"], registry=REGISTRY)
REFUSED: Final = Counter(
    "podfleet_events_refused", "Lines that this process refused, by code", ["code"], registry=REGISTRY
)
ANSWERS: Final = Counter(
    "podfleet_http_answers", "HTTP answers of this process, by class of status", ["status"], registry=REGISTRY
)
STALLS: Final = Summary(
    "podfleet_event_loop_stall_seconds",
    "How long a step of this process held the event loop, where longer than 0.25 s, by route",
    ["route"],
    registry=REGISTRY,
)
WAITING: Final = _gauge(
    "requests_waiting", "Requests of pods that wait for a run in this process", registry=REGISTRY
)
LIVE_DROPPED: Final = _gauge(
    "live_text_dropped_pieces",
    "Pieces of live text that this process dropped since its start: too many of a run, or no store",
    registry=REGISTRY,
)
_UP: Final = _gauge(
    "dependency_up", "Whether a dependency of this process works: 1, else 0", "dependency", registry=REGISTRY
)
_RUNS: Final = _gauge("runs", "Runs by status, counted up to 10000 each", "status")
_DEPTH: Final = _gauge(
    "queue_depth", "Waiting runs by class; up to 10000 in all, of which each class has a share", "class_key"
)
_WAIT: Final = _gauge("queue_oldest_wait_seconds", "Oldest wait by class", "class_key")
_PODS: Final = _gauge("pods", "Pods by state", "state")
_CANNOT_CLAIM: Final = _gauge(
    "pods_cannot_claim", "Live pods that claim less, or nothing, since this check of their own fails", "check"
)
_HELD_BACK: Final = _gauge("pods_held_back", "Pods that claim nothing, by cordon or quarantine", "by")
_INGEST: Final = _gauge(
    "ingest_lag_seconds", "From a pod's clock to the log: newest event of up to 50 open runs", "stat"
)
_BEHIND: Final = _gauge(
    "projection_lag_events", "Stored and not applied yet, a gap included: up to 50 open runs"
)
_RUNS_BEHIND: Final = _gauge("projection_lag_runs", "Runs among up to 50 open ones with events not applied")
_LETTERS: Final = _gauge(
    "dead_letters_today", "Lines refused or set aside since midnight UTC, up to 10000", "code"
)
_SPENT: Final = _gauge("spent_today_usd", "Cost told since midnight UTC, where a price was known")
_GPU: Final = _gauge("gpu_today_hours", "GPU time told since midnight UTC")
_CLOCKS: Final = _gauge(
    "clock_offset_seconds",
    "How far a clock is ahead of MongoDB's: this process' machine's, and the storage's",
    "part",
    registry=REGISTRY,
)
_POD_CLOCKS: Final = _gauge(
    "pod_clock_offset_seconds_max", "How far the worst clock of up to 10000 live pods is from MongoDB's"
)
_ENDED: Final = _gauge("runs_ended_today", "Runs that ended since midnight UTC, by how", "end")


_OVERDUE: Final = _gauge("leases_over", "Leases that are over and not taken back, counted up to 10000")
_OVERDUE_AGE: Final = _gauge(
    "lease_over_oldest_seconds", "For how long the oldest of them is over; 0 for none"
)
_OUTBOX: Final = _gauge("outbox_waiting_events", "Events that live pods have not delivered")
_OUTBOX_AGE: Final = _gauge(
    "outbox_oldest_seconds", "Age of the oldest event that a live pod has not delivered"
)
_UPLOADS: Final = _gauge(
    "upload_failures", "Failed tries to upload a file, of live pods since their start", "code"
)
_FREE: Final = _gauge("disk_free_bytes", "Free disk: of the store, and the least of live pods", "part")


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet's state at a scrape."""

    overview: Overview
    numbers: Numbers
    shortage: Shortage
    failing_checks: Mapping[str, int]
    worst_pod_clock_s: float


def exposition(states: Mapping[str, str], clocks: Mapping[str, float], fleet: Fleet | None) -> bytes:
    """Return the metrics in the text format of Prometheus; None stands for a fleet that nobody knows now.

    `clocks` are by how many seconds those of this process and of the storage are ahead of MongoDB's.
    """
    for name, state in states.items():
        _UP.labels(name).set(state == OK)
    for part, ahead_s in clocks.items():
        _CLOCKS.labels(part).set(ahead_s)
    own = generate_latest(REGISTRY)
    if fleet is None:
        return own
    overview = fleet.overview
    for status, count in overview.statuses.items():
        _RUNS.labels(status).set(count)
    for gauge in (
        _DEPTH,
        _WAIT,
        _PODS,
        _CANNOT_CLAIM,
        _INGEST,
        _LETTERS,
        _UPLOADS,
        _FREE,
    ):  # what is gone must not stand at its last value
        gauge.clear()
    for each in overview.queue:
        _DEPTH.labels(each.class_key).set(each.depth)
        _WAIT.labels(each.class_key).set(each.oldest_wait_s or 0.0)
    for state, count in overview.pods.items():
        _PODS.labels(state).set(count)
    for check, count in fleet.failing_checks.items():
        _CANNOT_CLAIM.labels(check).set(count)
    for by, count in overview.held_back.items():
        _HELD_BACK.labels(by).set(count)
    _POD_CLOCKS.set(fleet.worst_pod_clock_s)
    _tell(fleet.numbers)
    _tell_shortage(fleet.shortage)
    return own + generate_latest(FLEET)


def _tell(numbers: Numbers) -> None:
    lags, today = numbers.lags, numbers.today
    for stat, seconds in (("median", lags.ingest_median_s), ("max", lags.ingest_max_s)):
        if seconds is not None:
            _INGEST.labels(stat).set(seconds)
    _BEHIND.set(lags.events_behind)
    _RUNS_BEHIND.set(lags.runs_behind)
    for code, count in numbers.dead_letters.items():
        _LETTERS.labels(code).set(count)
    _SPENT.set(today.cost_usd)
    _GPU.set(today.gpu_hours)
    for end, count in (("good", today.finished), ("failed", today.failed), ("canceled", today.canceled)):
        _ENDED.labels(end).set(count)


def _tell_shortage(shortage: Shortage) -> None:
    _OVERDUE.set(shortage.overdue.count)
    _OVERDUE_AGE.set(shortage.overdue.oldest_s)
    told = shortage.deliveries
    _OUTBOX.set(told.waiting)
    _OUTBOX_AGE.set(told.oldest_s)
    for code, count in told.upload_failures.items():
        _UPLOADS.labels(code).set(count)
    for part, free in (("store", shortage.store_free_bytes), ("pods", told.disk_free_bytes)):
        if free is not None:
            _FREE.labels(part).set(free)
