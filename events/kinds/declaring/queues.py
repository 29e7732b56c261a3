"""The queues, and which of them a pod serves in its mode, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Mode = Literal["experiment", "ideation", "hybrid"]
MODES: Final[tuple[Mode, ...]] = ("experiment", "ideation", "hybrid")
DEFAULT_MODE: Final[Mode] = "experiment"


@dataclass(frozen=True, slots=True)
class Queue:
    """A collection of runs that wait; the control plane alone submits to one that takes no submissions."""

    collection: str
    takes_submissions: bool


RUNS: Final = Queue("runs", takes_submissions=True)
REQUESTS: Final = Queue("ideation_requests", takes_submissions=False)
QUEUES: Final = (RUNS.collection, REQUESTS.collection)


def collections(mode: Mode) -> tuple[str, ...]:
    """Return the queues that a mode serves, the preferred one first."""
    match mode:
        case "experiment":
            return (RUNS.collection,)
        case "ideation":
            return (REQUESTS.collection,)
        case "hybrid":
            return (REQUESTS.collection, RUNS.collection)
