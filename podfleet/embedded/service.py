"""The description of one service of the stack for the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podfleet.embedded.process import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One program of the stack.

    `is_ready` is asked again and again after each start; it may do one small step of the
    preparation each time (create a user, a bucket) and answers at once. It raises
    `ConfigError` when no waiting will help.
    """

    name: str
    command: Command
    is_ready: Callable[[], bool]
    start_s: float
    """How long a start may take before it counts as failed."""
    grace_s: float
    """How long it may take to stop before it is killed."""
    steady_s: float = 0.0
    """How long it has to have lived before it is asked whether it is ready."""
    exit_left: int | None = None
    """The exit status by which it says that it left for good, and is not to be started again."""
