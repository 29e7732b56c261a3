"""Brings the checkpoints of earlier attempts into the workspace, before the pipeline starts.

Law: what the pipeline finds is whole: every size and hash was checked. A checkpoint that is
not gives way to an older one of its name, or to none, and the run's log says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import msgspec

from events.checkpoints import MANIFEST, MANIFEST_BYTES_MAX, CheckpointFile, decode_manifest
from events.claims import Claim
from events.errors import LeaseLost, Transient
from events.ingest_client import bearer

CALL_S: Final = 10.0  # orders are heard between two calls


class _Stored(msgspec.Struct, frozen=True):
    """An artifact of an earlier attempt, and where it can be read for a while."""

    name: str
    size: int
    sha256: str
    url: str


class _Candidate(msgspec.Struct, frozen=True):
    """A checkpoint that an earlier attempt left, of this run or of one whose part it repeats."""

    name: str
    attempt: int
    manifest: _Stored
    files: list[_Stored]
    run_id: str | None = msgspec.field(name="runId", default=None)

    def origin(self, run_id: str) -> str:
        """Return who left it, as the log of run `run_id` says it."""
        other = "" if self.run_id in (None, run_id) else f" of run {self.run_id}"
        return f"attempt {self.attempt}{other}"


class _Candidates(msgspec.Struct, frozen=True):
    checkpoints: list[_Candidate]


class _BrokenError(Exception):
    """What storage holds is not what was registered."""


@dataclass(frozen=True, slots=True)
class HttpCheckpoints:
    """Asks the control plane where checkpoints lie, and reads them from the storage."""

    control_plane: httpx.Client
    storage: httpx.Client

    def fetch(self, claim: Claim, folder: Path) -> list[str]:
        """Fill `folder` with one folder a checkpoint; return what people should know.

        Raises `LeaseLost`, or `Transient` when control plane or storage cannot answer now.
        """
        warnings: list[str] = []
        done: set[str] = set()
        for candidate in self._candidates(claim):  # the nearest and latest of each name first
            if candidate.name in done:
                continue
            try:
                self._fetch(candidate, folder / candidate.name)
            except (_BrokenError, OSError) as error:
                left_by = candidate.origin(claim.run_id)
                warnings.append(f"the checkpoint {candidate.name} of {left_by} is not used: {error}")
            else:
                done.add(candidate.name)
        return warnings

    def _candidates(self, claim: Claim) -> Sequence[_Candidate]:
        headers = bearer(claim.run_token)
        path = f"/api/runs/{claim.run_id}/artifacts/checkpoints"
        try:
            response = self.control_plane.post(path, headers=headers, timeout=CALL_S)
        except httpx.HTTPError as error:
            raise Transient("CONTROL_PLANE_UNREACHABLE", f"{type(error).__name__}: {error}") from error
        match response.status_code:
            case httpx.codes.OK:
                return msgspec.json.decode(response.content, type=_Candidates).checkpoints
            case httpx.codes.CONFLICT:
                raise LeaseLost(claim.run_id, claim.attempt)
            case status:
                raise Transient("CONTROL_PLANE_UNAVAILABLE", f"the control plane answers {status}")

    def _fetch(self, candidate: _Candidate, folder: Path) -> None:
        if candidate.manifest.size > MANIFEST_BYTES_MAX:
            raise _BrokenError("its manifest is too large")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)  # without it nothing here counts
        content = self._read(candidate.manifest)
        try:
            manifest = decode_manifest(content)
        except msgspec.MsgspecError as error:
            raise _BrokenError(f"its manifest cannot be read: {error}") from error
        stored = {each.name: each for each in candidate.files}
        for file in manifest.files:
            (folder / file.name).write_bytes(self._read(_wanted(file, stored)))
        (folder / MANIFEST).write_bytes(content)

    def _read(self, stored: _Stored) -> bytes:
        """Return an object whose bytes are those that were registered."""
        try:
            response = self.storage.get(stored.url, timeout=CALL_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Transient("STORAGE_UNREACHABLE", f"{type(error).__name__}: {error}") from error
        if response.status_code == httpx.codes.NOT_FOUND:
            raise _BrokenError(f"{stored.name} is not in the storage")
        if not response.is_success:
            raise Transient("STORAGE_UNAVAILABLE", f"object storage answers {response.status_code}")
        if hashlib.sha256(response.content).hexdigest() != stored.sha256:
            raise _BrokenError(f"{stored.name} holds other bytes than were registered")
        return response.content


def _wanted(file: CheckpointFile, stored: Mapping[str, _Stored]) -> _Stored:
    found = stored.get(file.artifact)
    if found is None or found.sha256 != file.sha256:
        raise _BrokenError(f"its file {file.name} was not registered")
    return found
