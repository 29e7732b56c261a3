"""The checkpoints that a later attempt of the same run can continue from, as a pipeline uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that an earlier attempt left: its state as JSON, its files by their names.

    `from_run` is another run, where this one repeats a part of it; what that one made is not of this one.
    `pods` are those of this run that may have had a part in it, by the record of the control plane; "" is
    one that it does not know. There are none of another run.
    """

    attempt: int
    state: Mapping[str, Any]
    files: Mapping[str, Path] = field(default_factory=dict)
    from_run: str | None = None
    pods: tuple[str, ...] = ()


class Checkpoints(Protocol):
    """Where checkpoints are kept, outside the pod."""

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        """Keep a checkpoint in the place of the one with this name; return why it is not safe (yet).

        `files` are not written to any more.
        """
        ...

    def restored(self, name: str) -> Restored | None:
        """Return what an earlier attempt kept under this name."""
        ...
