"""The child's side of checkpoints: writes manifests, passes them to the parent, waits for its answer.

Law: the pipeline waits until a checkpoint is safe, but no outage may stop it. After one wait that timed out
it continues without waiting, until an acknowledgement arrives again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from events.delivery.pipe import Checkpoint, Kept, Made
from events.files.checkpoints import (
    MANIFEST,
    BrokenManifest,
    CheckpointFile,
    Manifest,
    decode_manifest,
    encode_manifest,
    file_artifact,
    manifest_artifact,
)
from events.files.open_beneath import read_beneath
from events.files.paths import RunPath, SafeName
from events.runtime.clock import Clock
from stages.ports.checkpoints import Restored

SAFE_WAIT_S: Final = 10.0


@dataclass(slots=True)
class ChildCheckpoints:
    """The checkpoints of one attempt; `folder` takes manifests, `found` holds those of earlier attempts."""

    run_id: str
    attempt: int
    folder: Path
    found: Path
    send: Callable[[Checkpoint], None]
    clock: Clock
    pods_before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _number: int = 0
    _answered: int = 0
    _is_away: bool = False
    _problems: dict[int, str] = field(default_factory=dict)
    _news: threading.Event = field(default_factory=threading.Event)
    _keeping: threading.Lock = field(default_factory=threading.Lock)  # a pipeline may have several threads

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        """Pass a checkpoint to the parent and wait for its confirmation."""
        with self._keeping:
            return self._keep(name, state, files)

    def _keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        self._number += 1
        number = self._number
        described = [_describe(name, number, each, path) for each, path in sorted(files.items())]
        manifest = Manifest(
            version=1,
            name=SafeName(name),
            run_id=self.run_id,
            attempt=self.attempt,
            state=dict(state),
            files=described,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{number}.json"
        path.write_bytes(encode_manifest(manifest))
        made = [_made(files[each.name], str(each.artifact)) for each in described]
        self.send(Checkpoint(number, name, [*made, _made(path, manifest_artifact(name))]))
        return self._wait(number)

    def hear(self, kept: Kept) -> None:
        """Take the parent's answer; called in another thread than the pipeline's."""
        if kept.problem is not None:
            self._problems[kept.number] = kept.problem
        self._answered = max(self._answered, kept.number)
        self._is_away = False
        self._news.set()

    def restored(self, name: str) -> Restored | None:
        """Return what the parent fetched before the start; it has checked every byte."""
        folder = self.found / SafeName(name)
        try:
            with read_beneath(self.found, RunPath(f"{name}/{MANIFEST}")) as file:
                manifest = decode_manifest(file.read())
        except (FileNotFoundError, BrokenManifest):
            return None
        files = {str(each.name): folder / each.name for each in manifest.files}
        from_run = None if manifest.run_id == self.run_id else manifest.run_id
        # never by the manifest's word: whoever left it wrote that
        pods = () if from_run else tuple(self.pods_before.get(name, ()))
        return Restored(manifest.attempt, manifest.state, files, from_run, pods)

    def _wait(self, number: int) -> str | None:
        deadline_s = self.clock.monotonic_s() + (0.0 if self._is_away else SAFE_WAIT_S)
        while self._answered < number:
            left_s = deadline_s - self.clock.monotonic_s()
            if left_s <= 0:
                self._is_away = True
                return "control plane or storage do not answer; the run goes on"
            self._news.clear()
            if self._answered < number:
                self.clock.wait(self._news, left_s)
        return self._problems.pop(number, None)


def _describe(name: str, number: int, file: str, path: Path) -> CheckpointFile:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        size = content.tell()
    artifact = RunPath(file_artifact(name, number, file))
    return CheckpointFile(name=SafeName(file), artifact=artifact, size=size, sha256=digest)


def _made(path: Path, artifact: str) -> Made:
    kind = "application/json" if path.suffix == ".json" else "application/octet-stream"
    return Made(path=str(path.absolute()), name=artifact, content_type=kind)
