"""Which waiting classes a pod can serve, and in which order it tries them, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from events.runs import ANY_REGION
from pod_worker.claim import WaitingClass

Mode = Literal["experiment", "ideation", "hybrid"]
MODES: tuple[Mode, ...] = ("experiment", "ideation", "hybrid")

# A card reports a little less memory than its name says.
NOMINAL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this pod has: the kinds it can run, memory of its largest GPU in GiB, its region."""

    kinds: frozenset[str]
    gpu_gib: float
    region: str | None


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
    kind, tier, region = class_key.split("/", 2)
    enough = tier == "cpu" or pod.gpu_gib >= float(tier) * NOMINAL
    return kind in pod.kinds and enough and region in (ANY_REGION, pod.region)


def candidates(waiting: Sequence[WaitingClass], pod: Abilities, mode: Mode) -> list[WaitingClass]:
    """Return the classes to try: preferred queue first, then the highest priority of the head."""
    order = collections(mode)
    served = [each for each in waiting if matches(each.class_key, pod)]
    return sorted(served, key=lambda each: (order.index(each.collection), -each.priority))
