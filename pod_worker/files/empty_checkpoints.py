"""Writes the checkpoints by which a worker sets aside what earlier attempts left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from events.delivery.pipe import Checkpoint, Made
from events.files.checkpoints import emptied, manifest_artifact
from events.files.open_beneath import write_beneath
from events.files.paths import RunPath
from events.text.attempt_id import AttemptId

EMPTIED: Final = "emptied"  # a folder in a workspace, whose process has ended


def emptied_checkpoints(attempt: AttemptId, names: Iterable[str], workspace: Path) -> Iterator[Checkpoint]:
    """Write one for each name, and yield it.

    Raises `OSError`, also where the workspace is a link by now.
    """
    for number, name in enumerate(names, start=1):
        place = RunPath(f"{workspace.name}/{EMPTIED}/{name}.json")
        with write_beneath(workspace.parent, place) as file:
            file.write(emptied(name, attempt.run_id, attempt.attempt))
        path, artifact = str(workspace.parent / place), manifest_artifact(name)
        yield Checkpoint(number, name, [Made(path, artifact, content_type="application/json")])
