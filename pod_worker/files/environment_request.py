"""The child's side of environments: asks the parent where one lies, and waits for its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.delivery.pipe import Environment, EnvironmentMade, EnvironmentWanted
from events.runtime.clock import Clock
from stages.ports.environments import Found

TURN_S: Final = 1.0


@dataclass(slots=True)
class ChildEnvironments:
    """Answered by the thread that hears the parent, asked by the pipeline."""

    send: Callable[[EnvironmentWanted | EnvironmentMade], None]
    clock: Clock
    _answer: Environment | None = None
    _news: threading.Event = field(default_factory=threading.Event)

    def hear(self, answer: Environment) -> None:
        """Take the parent's answer."""
        self._answer = answer
        self._news.set()

    def find(self, digest: str, waiting: Callable[[], None]) -> Found:
        """Return the environment of a checksum, or that it is this run's to make."""
        return self._ask(EnvironmentWanted(digest), waiting)

    def keep(self, made: Path) -> Found:
        """Have the parent copy it; it answers when that is done, or cannot be."""
        return self._ask(EnvironmentMade(str(made)), lambda: None)

    def _ask(self, frame: EnvironmentWanted | EnvironmentMade, waiting: Callable[[], None]) -> Found:
        self._news.clear()
        self.send(frame)
        while not self.clock.wait(self._news, TURN_S):
            waiting()
        answer = self._answer
        assert answer is not None, "news means that there is one"
        path = None if answer.path is None else Path(answer.path)
        return Found(path, answer.variables, tuple(answer.options), answer.bytes_max, answer.problem)
