"""The result of fetching the checkpoints of earlier attempts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fetched:
    """The warnings for people, and for each checkpoint name the pods of the attempts until it was written."""

    warnings: list[str] = field(default_factory=list)
    pods: dict[str, list[str]] = field(default_factory=dict)
