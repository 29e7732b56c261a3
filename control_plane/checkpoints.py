"""Which checkpoints the artifacts of a run make, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from events.checkpoints import PREFIX, manifest_artifact


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint: the artifacts of its manifest and of the files beside it."""

    name: str
    attempt: int
    manifest: Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]


def candidates(artifacts: Sequence[Mapping[str, Any]]) -> list[Candidate]:
    """Return every checkpoint whose manifest is registered; of one name, that of the latest attempt first."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for artifact in artifacts:
        name = artifact["name"].removeprefix(PREFIX).partition("/")[0]
        groups.setdefault((artifact["attempt"], name), []).append(artifact)
    found = [
        Candidate(name, attempt, manifest, [each for each in group if each is not manifest])
        for (attempt, name), group in groups.items()
        for manifest in group
        if manifest["name"] == manifest_artifact(name)
    ]
    return sorted(found, key=lambda each: (each.name, -each.attempt))
