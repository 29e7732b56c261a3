"""The Python environments that a pod keeps for its runs, as a pipeline asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

BYTES_MAX: Final = 40 << 30


@dataclass(frozen=True, slots=True)
class Found:
    """Where an environment lies, read-only; without a path it is to be made.

    `variables` and `options` tell uv where packages are; `problem` is why it is kept for nobody else.
    """

    path: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    bytes_max: int = BYTES_MAX
    problem: str | None = None


class Environments(Protocol):
    """Where environments are kept, outside of the run."""

    def find(self, digest: str, waiting: Callable[[], None]) -> Found:
        """Return the environment that is made of what has this checksum.

        While another run makes it, `waiting` is called now and then.
        """
        ...

    def keep(self, made: Path) -> Found:
        """Have the one that was found missing copied for others, and return the copy."""
        ...


class NoEnvironments:
    """A pod that keeps none: each run makes its own."""

    def find(self, digest: str, waiting: Callable[[], None]) -> Found:
        """Return that there is none."""
        return Found()

    def keep(self, made: Path) -> Found:
        """Keep nothing."""
        return Found(problem="this pod keeps no environment")
