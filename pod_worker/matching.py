"""Which waiting classes a pod can serve, and in which order it tries them, pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from events.abilities import Abilities, lacks
from pod_worker.claim import WaitingClass

Mode = Literal["experiment", "ideation", "hybrid"]
MODES: tuple[Mode, ...] = ("experiment", "ideation", "hybrid")


def collections(mode: Mode) -> tuple[str, ...]:
    """Return the queues that a mode serves, the preferred one first."""
    match mode:
        case "experiment":
            return ("runs",)
        case "ideation":
            return ("ideation_requests",)
        case "hybrid":
            return ("ideation_requests", "runs")


def matches(class_key: str, pod: Abilities) -> bool:
    """Say whether the pod can serve runs of `kind/gpu tier/region`."""
    return not any(lacks(class_key, pod))


def candidates(waiting: Sequence[WaitingClass], pod: Abilities, mode: Mode) -> list[WaitingClass]:
    """Return the classes to try: preferred queue first, then the highest priority of the head."""
    order = collections(mode)
    served = [each for each in waiting if matches(each.class_key, pod)]
    return sorted(served, key=lambda each: (order.index(each.collection), -each.priority))
