"""Where a run of a class could start now: how many live pods serve it, and how many would take it, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.model.explanation import why_class_waits
from control_plane.model.views.live_pods import IDLE, LivePod
from events.queue.abilities import lacks
from events.queue.pod_checks import obstacle


@dataclass(frozen=True, slots=True)
class Placement:
    """How many pods are live, serve a class, and could take a run of it now; `why` is that of its queue."""

    live: int
    serving: int
    free: int
    why: str

    @property
    def words(self) -> str:
        """It in a sentence."""
        if not self.serving:
            return self.why
        pods = "1 live pod serves" if self.serving == 1 else f"{self.serving:,} live pods serve"
        if not self.free:
            return f"{pods} it, none could take it now: {self.why}"
        return f"{pods} it, {self.free:,} could take it now"


def placed(class_key: str, pods: Sequence[LivePod]) -> Placement:
    """Return where a run of a class could start."""
    serving = [pod for pod in pods if not any(lacks(class_key, pod.abilities))]
    fit = [pod for pod in serving if obstacle(class_key, pod.broken) is None]
    free = sum(pod.shown_state in IDLE for pod in fit)
    return Placement(len(pods), len(serving), free, why_class_waits(class_key, pods))
