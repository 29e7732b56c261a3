"""What is raised where an engine does not start, ends by itself, or does not end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from events.models.advice import Advice, advice_on
from events.runtime.errors import PipelineError

KILLED: Final = "(signal 9"
KILLED_FOR_MEMORY: Final = "killed for memory"
# What an engine fails of that is not said by its parameters: another pod, or another hour, may do better.
ELSEWHERE: Final = frozenset(
    {
        "PROXY_CREDENTIALS",
        "RATE_LIMITED",
        "PORT_IN_USE",
        "NETWORK",
        "DRIVER",
        "KERNEL_IMAGE",
        "IMAGE",
        "DOCKER",
        "DISK",
    }
)


class EngineFailed(PipelineError):
    """The engine failed; `log` is the file of all that it wrote, and `advice` what to do about its words."""

    def __init__(self, message: str, log: Path, *, is_late: bool = False, is_offline: bool = False) -> None:
        # what its exit status says stands before the first colon; its own words follow
        status = message.partition(":")[0]
        told = status if KILLED_FOR_MEMORY in status else message
        self.advice: Advice | None = advice_on(told, is_offline=is_offline)
        said = f"{self.advice.words}. {message}" if self.advice else message
        super().__init__("ENGINE_FAILED", said, retryable=True)
        self.log = log
        self.is_late = is_late
        self.is_killed = KILLED in status

    @property
    def is_elsewhere(self) -> bool:
        """Whether it may be otherwise on another pod, or at another hour."""
        return self.advice is not None and self.advice.code in ELSEWHERE
