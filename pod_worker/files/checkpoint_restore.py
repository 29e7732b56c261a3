"""Fetches the checkpoints of earlier attempts into the workspace, before the pipeline starts.

Law: a restored checkpoint is whole: every size and hash was checked while fetching, and no byte beyond the
registered size is read. In place of a broken checkpoint an older one of its name is used, or none, and the
run's log records it; one that sets earlier ones aside does so even where its object is gone. Whatever its
names are, nothing is written outside its folder.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import msgspec

from events.delivery.control_plane_client import ControlPlane, bearer
from events.files.checkpoints import (
    MANIFEST,
    MANIFEST_BYTES_MAX,
    BrokenManifest,
    CheckpointFile,
    Contents,
    decode_contents,
    is_emptied,
)
from events.files.open_beneath import read_beneath, write_beneath
from events.files.paths import BadPath, RunPath, SafeName
from events.queue.claims import Claim
from events.runtime.errors import Transient
from pod_worker.files.fetch_result import Fetched

PIECE_BYTES: Final = 256 * 1024
# Of all checkpoints together: neither a pod's disk nor its time is filled by another's word.
RESTORED_BYTES_MAX: Final = 16 << 30
FETCHED_BYTES_MAX: Final = 32 << 30
SHOWN_CHARS_MAX: Final = 500
CALL_S: Final = 10.0  # orders are heard between two calls


class _Stored(msgspec.Struct, frozen=True):
    """An artifact of an earlier attempt, with a signed URL for its content."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str
    url: str


class _Candidate(msgspec.Struct, frozen=True):
    """A checkpoint of an earlier attempt, of this run or of the run whose part it repeats.

    The name is unchecked text, made from the names of artifacts.
    """

    name: str
    attempt: int
    manifest: _Stored
    files: list[_Stored]
    run_id: str | None = msgspec.field(name="runId", default=None)
    pods: list[str] = []  # of the attempts of this run until it was left, as the control plane knows them

    def origin(self, run_id: str) -> str:
        """Return which attempt wrote it, as text for the log of run `run_id`."""
        other = "" if self.run_id in (None, run_id) else f" of run {self.run_id}"
        return f"attempt {self.attempt}{other}"

    def is_emptied(self, run_id: str) -> bool:
        """Return whether it only sets aside what there was before; `run_id` is the run that asks."""
        return is_emptied(self.manifest.sha256, self.name, self.run_id or run_id, self.attempt)


class _Candidates(msgspec.Struct, frozen=True):
    checkpoints: list[_Candidate]
    replication_asked: bool = msgspec.field(name="replicationAsked", default=False)
    told: dict[str, Any] = {}
    spent_usd: Annotated[float, msgspec.Meta(ge=0)] | None = msgspec.field(name="spentUsd", default=None)
    cheapest_usd: Annotated[float, msgspec.Meta(ge=0)] | None = msgspec.field(
        name="cheapestUsd", default=None
    )


class _BrokenError(Exception):
    """The object in storage differs from its registration."""


@dataclass(frozen=True, slots=True)
class HttpCheckpoints:
    """Asks the control plane for the URLs of checkpoints, and downloads them from storage."""

    control_plane: ControlPlane
    storage: httpx.Client

    def fetch(self, claim: Claim, folder: Path) -> Fetched:
        """Fill `folder` with one folder for each checkpoint; return warnings and pods.

        Raises `LeaseLost`, or `Transient` when control plane or storage cannot answer now.
        """
        offered = self._offered(claim)
        fetched = Fetched(
            replication_asked=offered.replication_asked,
            told=offered.told,
            spent_usd=offered.spent_usd,
            cheapest_usd=offered.cheapest_usd,
        )
        budget = _ByteBudget(RESTORED_BYTES_MAX, FETCHED_BYTES_MAX)
        names: set[str] = set()
        for candidate in offered.checkpoints:  # the nearest and latest of each name first
            if candidate.name in names:
                continue
            try:
                # known by its digest: were it fetched, an outage would bring back what it sets aside
                is_emptied = candidate.is_emptied(claim.run_id)
                if is_emptied:
                    _remove(folder / candidate.name)
                else:
                    self._fetch(candidate, claim, folder, budget)
            except (_BrokenError, BadPath, BrokenManifest, OSError) as error:
                left_by = candidate.origin(claim.run_id)
                shown = f"the checkpoint {candidate.name} of {left_by} is not used: {error}"
                fetched.warnings.append(shown[:SHOWN_CHARS_MAX])
            else:
                names.add(candidate.name)
                if not is_emptied:
                    fetched.pods[candidate.name] = candidate.pods
        return fetched

    def _offered(self, claim: Claim) -> _Candidates:
        path = f"/api/runs/{claim.run_id}/artifacts/checkpoints"
        answer = self.control_plane.send("POST", path, headers=bearer(claim.run_token), timeout_s=CALL_S)
        return answer.read(_Candidates, claim)

    def _fetch(self, candidate: _Candidate, claim: Claim, folder: Path, budget: _ByteBudget) -> None:
        """Fill the folder of one checkpoint; remove it if that fails."""
        name = SafeName(candidate.name)
        if candidate.manifest.size > MANIFEST_BYTES_MAX:
            raise _BrokenError("its manifest is too large")
        before = budget.disk_bytes
        try:
            manifest = self._fetch_manifest(candidate, claim, folder, budget)
            stored = {each.name: each for each in candidate.files}
            for file in manifest.files:
                self._read(_wanted(file, stored), folder, RunPath(f"{name}/{file.name}"), budget)
        except BaseException:
            _remove(folder / name)  # without its manifest nothing here counts
            budget.disk_bytes = before
            raise

    def _fetch_manifest(
        self, candidate: _Candidate, claim: Claim, folder: Path, budget: _ByteBudget
    ) -> Contents:
        place = RunPath(f"{candidate.name}/{MANIFEST}")
        self._read(candidate.manifest, folder, place, budget)
        with read_beneath(folder, place) as file:
            manifest = decode_contents(file.read())
        identity = (manifest.name, manifest.run_id, manifest.attempt)
        if identity != (candidate.name, candidate.run_id or claim.run_id, candidate.attempt):
            raise _BrokenError("its manifest is that of another one")
        if len({file.name for file in manifest.files} | {MANIFEST}) != len(manifest.files) + 1:
            raise _BrokenError("two of its files have one name")
        return manifest

    def _read(self, stored: _Stored, folder: Path, place: RunPath, budget: _ByteBudget) -> None:
        """Write an object to `place` in `folder` if its bytes match the registration."""
        budget.take(stored.size)
        digest, size = hashlib.sha256(), 0
        headers = {"Accept-Encoding": "identity"}
        try:
            with (
                self.storage.stream("GET", stored.url, headers=headers, timeout=CALL_S) as response,
                write_beneath(folder, place) as file,
            ):
                _check(response, stored)
                for piece in response.iter_raw(PIECE_BYTES):
                    size += len(piece)
                    budget.carry(len(piece))
                    if size > stored.size:
                        break
                    digest.update(piece)
                    file.write(piece)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Transient("storage_unreachable", f"{type(error).__name__}: {error}") from error
        if size != stored.size or digest.hexdigest() != stored.sha256:
            raise _BrokenError(f"{stored.name} holds other bytes than were registered")


@dataclass(slots=True)
class _ByteBudget:
    """How many bytes may still be kept, and how many may still be downloaded; broken objects are not kept."""

    disk_bytes: int
    wire_bytes: int

    def take(self, size: int) -> None:
        """Reserve space for an object. Raises `_BrokenError` if there is none."""
        if size > self.disk_bytes:
            raise _BrokenError(f"more than {RESTORED_BYTES_MAX} bytes of checkpoints are not taken")
        self.disk_bytes -= size

    def carry(self, size: int) -> None:
        """Count downloaded bytes. Raises `_BrokenError` if too many belonged to broken objects."""
        self.wire_bytes -= size
        if self.wire_bytes < 0:
            raise _BrokenError(f"more than {FETCHED_BYTES_MAX} bytes are not fetched for checkpoints")


def _remove(place: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(place)


def _check(response: httpx.Response, stored: _Stored) -> None:
    """Raise `_BrokenError` for a missing object, `Transient` if storage does not answer."""
    if response.status_code == httpx.codes.NOT_FOUND:
        raise _BrokenError(f"{stored.name} is not in the storage")
    if not response.is_success:
        raise Transient("storage_unavailable", f"object storage answers {response.status_code}")


def _wanted(file: CheckpointFile, stored: Mapping[str, _Stored]) -> _Stored:
    found = stored.get(file.artifact)
    if found is None or found.sha256 != file.sha256:
        raise _BrokenError(f"its file {file.name} was not registered")
    return found
