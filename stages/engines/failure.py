"""What is raised where an engine does not start, ends by itself, or does not end."""

from __future__ import annotations

from pathlib import Path

from events.models.advice import Advice, advice_on
from events.runtime.errors import PipelineError


class EngineFailed(PipelineError):
    """The engine failed; `log` is the file of all that it wrote, and `advice` what to do about its words."""

    def __init__(self, message: str, log: Path, *, is_late: bool = False, is_offline: bool = False) -> None:
        self.advice: Advice | None = advice_on(message, is_offline=is_offline)
        said = f"{self.advice.words}. {message}" if self.advice else message
        super().__init__("ENGINE_FAILED", said, retryable=True)
        self.log = log
        self.is_late = is_late
