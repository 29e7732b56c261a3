"""The id of a worker, `pod/boot` or `pod/boot/slot`: its pod, its start, and its slot; pure."""

from __future__ import annotations


def place_of(worker_id: str) -> tuple[str, ...]:
    """Return where a worker works, over all its starts: its pod, and the slot of that."""
    pod, *rest = worker_id.split("/")
    return (pod, *rest[1:])
