"""The container in which the program of a job runs, as a pipeline asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What is known of the container: `image` is what runs; with a `code` its program did not run."""

    has_begun: bool = False
    is_pulling: bool = False
    has_ended: bool = False
    image: str = ""
    status: int = 0
    is_out_of_memory: bool = False
    code: str = ""
    problem: str = ""


class Containers(Protocol):
    """The container runtime, which the worker alone speaks to."""

    def start(self, words: list[str], folder: Path, variables: dict[str, str], workspace: Path) -> None:
        """Have words run in a container of the run's image; it prints to a pipe of the workspace."""
        ...

    def state(self, within_s: float) -> ContainerState:
        """Return what is known by now, after a moment."""
        ...

    def stop(self, grace_s: float) -> None:
        """Have it end: SIGTERM, and SIGKILL after so many seconds."""
        ...


class NoContainers:
    """A pod without a container runtime."""

    def start(self, words: list[str], folder: Path, variables: dict[str, str], workspace: Path) -> None:
        """Start nothing."""

    def state(self, within_s: float) -> ContainerState:
        """Return that there is none."""
        why = "this pod has no container runtime"
        return ContainerState(has_ended=True, code="NOT_AVAILABLE", problem=why)

    def stop(self, grace_s: float) -> None:
        """Stop nothing."""
