"""The ports of a pipeline: what it needs from outside, in its own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from events.kinds.declaring.fact import Fact
from events.queue.notes import Note
from stages.isolation.sandbox import Sandbox
from stages.models.model import Model
from stages.ports.literature import Literature

Say = Callable[[str], None]  # one line for people, into the run's log


class Reporter(Protocol):
    """Takes a pipeline's facts and files; returns at once."""

    def say(self, fact: Fact) -> None: ...

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        """Hand over a finished file; it may not be written to afterwards."""
        ...


class Notes(Protocol):
    """What people have written to the run."""

    def all(self) -> Sequence[Note]:
        """Return every note so far, the oldest first."""
        ...


class Barrier(Protocol):
    """What a run waits at that starts together with others."""

    def wait(self) -> Mapping[str, str]:
        """Say that the run is prepared; return when it may start, with variables for its environment."""
        ...


class NoBarrier:
    """The barrier of a run that starts alone."""

    def wait(self) -> Mapping[str, str]:
        """Return at once."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the pod offers to its pipelines; None is what it does not have.

    `judge_secret` is the fleet's: by it equal seeds hide data in the same way (empty: each run has its own).
    `data_sets` are the folders in which a run may name data files (empty: none), and
    `pod_usd_per_hour` is what the pod costs while it works. `variables` are those of the run's environment:
    some settings of the pod, and the secrets that the run names, which `secrets` are the names of.
    """

    sandbox: Sandbox
    model: Model | None = None
    literature: Literature | None = None
    prices: Path | None = None
    data_sets: tuple[Path, ...] = ()
    slots: int = 1
    gpus: int = 0
    pod_usd_per_hour: float | None = None
    judge_secret: str = field(default="", repr=False)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = ()
