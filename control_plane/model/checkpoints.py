"""The checkpoints among the artifacts of a run, and their stages, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.model.projection import artifact_prefix, artifact_problem
from events.files.checkpoints import checkpoint_of, manifest_artifact
from events.files.paths import SafeName
from events.kinds import stages_of


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint: the artifacts of its manifest and of the files beside it."""

    run_id: str
    name: str
    attempt: int
    manifest: Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]


def candidates(artifacts: Sequence[Mapping[str, Any]]) -> list[Candidate]:
    """Return the checkpoints of a run whose manifests are registered; of one name, the latest first.

    An artifact whose name or key leads elsewhere, stored when that was not looked at, belongs to none.
    """
    groups: dict[tuple[int, SafeName], list[Mapping[str, Any]]] = {}
    for artifact in artifacts:
        name = checkpoint_of(artifact["name"])
        prefix = artifact_prefix(artifact["runId"], artifact["attempt"])
        if name is not None and artifact_problem(artifact["name"], artifact["key"], prefix) is None:
            groups.setdefault((artifact["attempt"], name), []).append(artifact)
    found = [
        Candidate(
            manifest["runId"], name, attempt, manifest, [each for each in group if each is not manifest]
        )
        for (attempt, name), group in groups.items()
        for manifest in group
        if manifest["name"] == manifest_artifact(name)
    ]
    return sorted(found, key=lambda each: (each.name, -each.attempt))


def finished(kind: str, documents: Sequence[Mapping[str, Any]], kept: Sequence[Candidate]) -> set[str]:
    """Return the stages that a run has finished and left a checkpoint of.

    A checkpoint is kept in the middle of a stage too; a stage is over where it says so, in any
    attempt, or where a later one has begun.
    """
    stages = stages_of(kind)
    latest = max((stages.index(each["name"]) for each in documents if each["name"] in stages), default=0)
    completed = {each["name"] for each in documents if each["status"] == "COMPLETED"}
    left = {each.name for each in kept}
    return {
        name for number, name in enumerate(stages) if name in left and (name in completed or number < latest)
    }
