"""Numbers for Prometheus: counters of this process, and the fleet's state as MongoDB has it at scrape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

REGISTRY: Final = CollectorRegistry()
EVENTS: Final = Counter("podfleet_events", "Events by verdict", ["verdict"], registry=REGISTRY)
_RUNS: Final = Gauge("podfleet_runs", "Runs by status", ["status"], registry=REGISTRY)
_DEPTH: Final = Gauge("podfleet_queue_depth", "Waiting runs by class", ["class_key"], registry=REGISTRY)
_WAIT: Final = Gauge(
    "podfleet_queue_oldest_wait_seconds", "Oldest wait by class", ["class_key"], registry=REGISTRY
)
_PODS: Final = Gauge("podfleet_pods", "Pods by state", ["state"], registry=REGISTRY)


def exposition(overview: Mapping[str, Any]) -> bytes:
    """Return the text that Prometheus reads, for a fleet that stands like `overview`."""
    for status, count in overview["statuses"].items():
        _RUNS.labels(status).set(count)
    for gauge in (_DEPTH, _WAIT, _PODS):  # what is gone must not stand at its last value
        gauge.clear()
    for each in overview["queue"]:
        _DEPTH.labels(each["classKey"]).set(each["depth"])
        _WAIT.labels(each["classKey"]).set(each["oldestWaitS"] or 0.0)
    for state, count in overview["pods"].items():
        _PODS.labels(state).set(count)
    return generate_latest(REGISTRY)
