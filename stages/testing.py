"""Runs a pipeline in memory, for tests: a reporter that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from events.catalog import Fact

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was handed over."""

    path: Path
    name: str
    content_type: str
    stage: str | None


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
