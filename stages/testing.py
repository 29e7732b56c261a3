"""Runs a pipeline in memory, for tests: a reporter that remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from events.catalog import Fact
from stages.checkpoints import Restored

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was handed over."""

    path: Path
    name: str
    content_type: str
    stage: str | None


@dataclass(slots=True)
class MemoryCheckpoints:
    """Keeps checkpoints in memory, as they would come back: through JSON.

    A second one made of `kept` is what the next attempt finds.
    """

    attempt: int = 1
    found: Mapping[str, Restored] = field(default_factory=dict)
    kept: dict[str, Restored] = field(default_factory=dict)

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        plain = json.loads(json.dumps(state, allow_nan=False))
        self.kept[name] = Restored(self.attempt, plain, dict(files))
        return None

    def restored(self, name: str) -> Restored | None:
        return self.found.get(name)


@dataclass(slots=True)
class RecordingReporter:
    """Remembers, in order, what a pipeline said and made."""

    facts: list[Fact] = field(default_factory=list)
    files: list[KeptFile] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        assert path.is_file()
        self.files.append(KeptFile(path, name, content_type, stage))

    def of(self, kind: type[F]) -> list[F]:
        """Return the facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]
