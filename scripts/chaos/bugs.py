"""Known bugs, composed of the product's own parts: the controls of the checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from control_plane.deps import Deps
from pod_worker.claim import Queue

WORKER_BUGS: Final[Mapping[str, Callable[[Queue], Queue]]] = {}
CONTROL_PLANE_BUGS: Final[Mapping[str, Callable[[Deps], Deps]]] = {}


def faithful(queue: Queue) -> Queue:
    """Return the queue as it is."""
    return queue


def unchanged(deps: Deps) -> Deps:
    """Return the control plane as it is."""
    return deps
